/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * worse OBJECT late|crowded|forget=NAME - loads worse.bpf.c's scheduler until SIGINT or SIGTERM: it delays each
 * wakeup by 200 us, runs all tasks on CPU 0, or forgets the tasks called NAME. Without a BPF link, its scheduler
 * outlives SIGKILL.
 */
#include <bpf/libbpf.h>
#include <err.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* In the order of the object's variables. */
struct settings {
	unsigned long long delay_ns;
	bool crowds;
	char forgotten[16];
} __attribute__((packed));

int main(int argc, char **argv)
{
	struct bpf_object *object;
	struct bpf_map *map;
	struct bpf_link *link;
	struct settings *settings;
	size_t size;
	sigset_t ends;
	int signal;

	if (argc != 3)
		errx(2, "usage: worse OBJECT late|crowded|forget=NAME");
	object = bpf_object__open_file(argv[1], NULL);
	if (!object)
		errx(1, "cannot open %s", argv[1]);
	map = bpf_object__find_map_by_name(object, ".rodata");
	settings = map ? (struct settings *)bpf_map__initial_value(map, &size) : NULL;
	if (!settings || size < sizeof(*settings))
		errx(1, "no settings");
	if (!strcmp(argv[2], "late"))
		settings->delay_ns = 200000;
	else if (!strcmp(argv[2], "crowded"))
		settings->crowds = true;
	else if (!strncmp(argv[2], "forget=", 7))
		snprintf(settings->forgotten, sizeof(settings->forgotten), "%s", argv[2] + 7);
	else
		errx(2, "%s: no such fault", argv[2]);

	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	if (bpf_object__load(object))
		errx(1, "cannot load");
	map = bpf_object__find_map_by_name(object, "worse");
	link = map ? bpf_map__attach_struct_ops(map) : NULL;
	if (!link)
		err(1, "cannot attach");
	sigwait(&ends, &signal);
	return bpf_link__destroy(link) != 0;
}
