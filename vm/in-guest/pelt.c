/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pelt OBJECT COMMAND [ARGUMENT...] - loads pelt.bpf.c's object, runs COMMAND, and prints one line for each
 * signal that was compared: name, CPU, comparisons, average and greatest difference, least and greatest
 * value of the kernel's, of 1024.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <err.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pelt.h"

static void print_signals(int map)
{
	unsigned long long key, *previous = NULL;
	struct compared c;

	while (!bpf_map_get_next_key(map, previous, &key)) {
		previous = &key;
		if (bpf_map_lookup_elem(map, &key, &c) || !c.count)
			continue;
		printf("%s %u %llu %.2f %llu %llu %llu\n", c.name, c.cpu, c.count, (double)c.sum_diff / c.count,
		       c.max_diff, c.min_util, c.max_util);
	}
}

int main(int argc, char **argv)
{
	struct bpf_program *program;
	struct bpf_object *object;
	int status;

	if (argc < 3)
		errx(2, "usage: pelt OBJECT COMMAND [ARGUMENT...]");
	object = bpf_object__open_file(argv[1], NULL);
	if (!object || bpf_object__load(object))
		errx(1, "cannot load %s", argv[1]);
	bpf_object__for_each_program(program, object) if (!bpf_program__attach(program))
		errx(1, "cannot attach %s", bpf_program__name(program));

	if (!fork()) {
		execvp(argv[2], argv + 2);
		err(1, "%s", argv[2]);
	}
	if (wait(&status) < 0 || status)
		errx(1, "%s failed", argv[2]);
	print_signals(bpf_object__find_map_fd_by_name(object, "results"));
	return 0;
}
