/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pelt OBJECT COMMAND [ARGUMENT...] - loads pelt.bpf.c's object, with the variables of the scheduler that is
 * loaded if there is one, runs COMMAND, and prints one line for each signal that was compared: name, CPU,
 * comparisons, average and greatest difference, least and greatest value of the kernel's, of 1024, and how often
 * the difference was beyond the tolerance.
 */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <err.h>
#include <stdio.h>
#include <string.h>
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
		printf("%s %u %llu %.2f %llu %llu %llu %llu\n", c.name, c.cpu, c.count,
		       (double)c.sum_diff / c.count, c.max_diff, c.min_util, c.max_util, c.nr_off);
	}
}

/* The offset of @name among the variables in @map's value; 0 if it is missing, because it is never the first. */
static unsigned int variable_offset(int map, const char *name)
{
	struct bpf_map_info info = {};
	unsigned int size = sizeof(info), offset = 0;
	const struct btf_type *variables;
	struct btf *btf;

	if (bpf_obj_get_info_by_fd(map, &info, &size) || !info.btf_id || !info.btf_value_type_id)
		return 0;
	btf = btf__load_from_kernel_by_id(info.btf_id);
	if (!btf)
		return 0;
	variables = btf__type_by_id(btf, info.btf_value_type_id);
	for (int i = 0; variables && btf_is_datasec(variables) && i < btf_vlen(variables); i++) {
		const struct btf_var_secinfo *at = btf_var_secinfos(variables) + i;
		const struct btf_type *variable = btf__type_by_id(btf, at->type);

		if (!strcmp(btf__name_by_offset(btf, variable->name_off), name))
			offset = at->offset;
	}
	btf__free(btf);
	return offset;
}

/* Gives @object access to the variables of a loaded scheduler. */
static void find_scheduler(struct bpf_object *object)
{
	struct bpf_map *scheduler = bpf_object__find_map_by_name(object, "scheduler");
	struct bpf_map *place = bpf_object__find_map_by_name(object, ".rodata.scheduler");
	unsigned long long offset = 0;
	unsigned int id = 0;

	while (!offset && !bpf_map_get_next_id(id, &id)) {
		int map = bpf_map_get_fd_by_id(id);

		offset = variable_offset(map, "cpu_utils");
		if (offset && (bpf_map__reuse_fd(scheduler, map) ||
			       bpf_map__set_initial_value(place, &offset, sizeof(offset))))
			errx(1, "cannot look at the scheduler's variables");
		close(map);
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
	if (!object)
		errx(1, "cannot open %s", argv[1]);
	find_scheduler(object);
	if (bpf_object__load(object))
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
