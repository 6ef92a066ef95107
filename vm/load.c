/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Loads the scheduler in the file OBJECT, which vm/build-scheduler has compiled, until SIGINT or SIGTERM.
 */
#include <bpf/libbpf.h>
#include <err.h>
#include <signal.h>
#include <stddef.h>

asm(".section .rodata\n.balign 16\nobject:\n.incbin \"" OBJECT "\"\nobject_end:\n.previous");
extern const char object[], object_end[];

int main(void)
{
	struct bpf_link *link = NULL;
	struct bpf_object *scheduler;
	struct bpf_map *map;
	sigset_t ends;
	int signal;

	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	scheduler = bpf_object__open_mem(object, object_end - object, NULL);
	if (!scheduler || bpf_object__load(scheduler))
		errx(1, "the kernel refuses the scheduler");
	bpf_object__for_each_map(map, scheduler)
		if (bpf_map__type(map) == BPF_MAP_TYPE_STRUCT_OPS)
			link = bpf_map__attach_struct_ops(map);
	if (!link)
		err(1, "cannot attach the scheduler");
	sigwait(&ends, &signal);
	return bpf_link__destroy(link) != 0;
}
