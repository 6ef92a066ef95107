/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A plugin of QEMU, which counts the instructions of the guest's kernel by chain of calls: vm/cost builds it.
 *
 * QEMU translates the guest's code in blocks, and calls execute() before each one. A block's last instruction says
 * whether the next block is called or returned to, so each virtual CPU has a stack of the calls that it is in. The
 * chains of calls form a tree, whose node 0 has the code of user space, and code whose callers are unknown.
 *
 * A guest marks the beginning and the end of a measurement, in turn, with the instruction of vm/in-guest/mark.c. At
 * the nth beginning, the file symbols.n in the folder that the option `out` names is the guest's /proc/kallsyms. At
 * its end, calls.n gets a line for each node of the tree, whose instructions are those of the function alone:
 *
 *     NUMBER PARENT ADDRESS CALLS INSTRUCTIONS
 *
 * The virtual CPUs must take turns on one thread (vm/run --icount).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the ABI of plugins, version 4 (QEMU 9.1); Debian has no package with the header ---------------------------
 */

struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { NO_REGISTERS = 0 };

#define EXPORTED __attribute__((visibility("default")))
EXPORTED int qemu_plugin_version = 4;
EXPORTED int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv);

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*call)(uint64_t id, struct qemu_plugin_tb *tb));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, void (*call)(unsigned int cpu, void *data),
					  int flags, void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
					    void (*call)(unsigned int cpu, void *data), int flags, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *to, size_t length);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);

/* The CPU that this thread emulates. This variable is not part of the ABI of plugins. */
extern __thread void *current_cpu;

/* --- state -----------------------------------------------------------------------------------------------------
 */

enum ending { NO_CALL, CALL, RETURN, INTERRUPT_RETURN };

struct block {
	uint64_t address;
	uint64_t end;
	/* The address of the symbol in which the block is, in this measurement. */
	uint64_t function;
	int measurement;
	/* The function that a direct call calls. */
	uint64_t callee;
	unsigned int instructions;
	enum ending ending;
};

struct node {
	uint32_t parent;
	uint64_t address;
	uint64_t calls;
	uint64_t instructions;
};

/* The node of a function that is called in the parent; node 0, which has no parent, marks an unused entry. */
struct edge {
	uint64_t address;
	uint32_t parent;
	uint32_t node;
};

struct frame {
	uint32_t node;
	/* The address to which the call returns; 0 if the frame is an interrupt's. */
	uint64_t back;
	const struct block *interrupted;
};

/* An address that no code has. */
#define UNKNOWN 1
#define DEPTH 256
#define MAX_CPUS 64
#define EDGES (1 << 22)

struct cpu {
	const void *of;
	const struct block *before;
	unsigned int depth;
	struct frame frames[DEPTH];
};

static const char *out = ".";
static bool measures;
static int measurement;
static struct cpu cpus[MAX_CPUS];
static struct node *nodes;
static uint32_t nr_nodes;
static struct edge *edges;
static uint64_t *symbols;
static size_t nr_symbols;
/* The kernel's code for entries from user space, interrupts and exceptions. */
static uint64_t entry_start, entry_end;

static void fail(const char *what, const char *which)
{
	fprintf(stderr, "calls.so: %s %s\n", what, which);
	exit(1);
}

static uint32_t child(uint32_t parent, uint64_t address)
{
	uint64_t hash = (address * 0x9e3779b97f4a7c15 + parent) * 0xff51afd7ed558ccd;
	size_t i = hash >> 42;

	while (edges[i].node && (edges[i].parent != parent || edges[i].address != address))
		i = (i + 1) % EDGES;
	if (!edges[i].node) {
		if (nr_nodes == EDGES / 2)
			fail("too many chains of calls: measure", "less at a time");
		edges[i] = (struct edge){ .address = address, .parent = parent, .node = nr_nodes };
		nodes[nr_nodes++] = (struct node){ .parent = parent, .address = address };
	}
	return edges[i].node;
}

/* The address of the last symbol that does not begin beyond `address`, or 0. */
static uint64_t function_of(uint64_t address)
{
	size_t low = 0, high = nr_symbols;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (symbols[middle] <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? symbols[low - 1] : 0;
}

/* --- calls and returns -----------------------------------------------------------------------------------------
 */

static bool of_user(const struct block *block)
{
	return !(block->address >> 63);
}

static bool of_entry(const struct block *block)
{
	return block->address >= entry_start && block->address < entry_end;
}

static uint32_t current(const struct cpu *cpu)
{
	return cpu->depth ? cpu->frames[cpu->depth - 1].node : 0;
}

static void push(struct cpu *cpu, uint64_t address, uint64_t back, const struct block *interrupted)
{
	uint32_t node = child(current(cpu), address);

	nodes[node].calls++;
	if (cpu->depth == DEPTH)
		cpu->depth = 0;
	cpu->frames[cpu->depth++] = (struct frame){ .node = node, .back = back, .interrupted = interrupted };
}

/* The frame that returns to `back`, or -1. */
static int frame_of(const struct cpu *cpu, uint64_t back)
{
	int i = cpu->depth - 1;

	while (i >= 0 && cpu->frames[i].back != back)
		i--;
	return i;
}

/* Makes the last function that was called continue as another function, which the caller seems to call in its
 * place. */
static void replace(struct cpu *cpu, uint64_t address, bool is_call)
{
	struct frame *last = &cpu->frames[cpu->depth - 1];

	last->node = child(nodes[last->node].parent, address);
	nodes[last->node].calls += is_call;
}

/*
 * Handles a return to `to`. If no frame has this address, it is the return of another task, whose calls are not
 * known, or an indirect call by a thunk, which calls the next instructions and replaces the address to return to.
 */
static void pop(struct cpu *cpu, uint64_t to)
{
	const struct frame *last = &cpu->frames[cpu->depth - 1];
	int frame = frame_of(cpu, to);

	if (frame >= 0) {
		cpu->depth = frame;
	} else if (cpu->depth > 1 && last->back > UNKNOWN && nodes[last->node].address - last->back < 64) {
		cpu->depth--;
		replace(cpu, to, true);
	} else {
		cpu->frames[0] = (struct frame){ .node = child(0, function_of(to)), .back = UNKNOWN };
		cpu->depth = 1;
	}
}

static void follow(struct cpu *cpu, const struct block *before, const struct block *block)
{
	int frame;

	if (of_user(block) || !before) {
		cpu->depth = 0;
	} else if (block->address > before->address && block->address < before->end) {
		/* The rest of a block that an exception has interrupted. */
	} else if (of_entry(block) && !of_entry(before) &&
		   !(before->ending == RETURN && frame_of(cpu, block->address) >= 0) &&
		   !(before->ending == CALL && before->callee == block->address)) {
		if (of_user(before))
			cpu->depth = 0;
		push(cpu, block->address, 0, before);
	} else if (before->ending == CALL) {
		push(cpu, block->address, before->end, NULL);
	} else if (before->ending == RETURN) {
		pop(cpu, block->address);
	} else if (before->ending == INTERRUPT_RETURN) {
		frame = frame_of(cpu, 0);
		cpu->depth = frame >= 0 ? frame : 0;
		if (frame >= 0)
			follow(cpu, cpu->frames[frame].interrupted, block);
	} else if (before->function != block->function && cpu->depth) {
		replace(cpu, block->function, block->function == block->address);
	}
}

/*
 * The state of the CPU that this thread emulates. The index that QEMU passes does not tell: if CPUs take turns on
 * one thread, QEMU 10.0 passes the index of the CPU for which it translated the block.
 */
static struct cpu *this_cpu(void)
{
	struct cpu *cpu = cpus;

	while (cpu->of && cpu->of != current_cpu)
		cpu++;
	cpu->of = current_cpu;
	return cpu;
}

static void execute(unsigned int index, void *data)
{
	struct block *block = data;
	struct cpu *cpu;

	(void)index;
	if (!measures)
		return;
	cpu = this_cpu();
	if (block->measurement != measurement) {
		block->measurement = measurement;
		block->function = function_of(block->address);
	}
	follow(cpu, cpu->before, block);
	nodes[current(cpu)].instructions += block->instructions;
	cpu->before = block;
}

/* --- measurements ----------------------------------------------------------------------------------------------
 */

static FILE *file(const char *name, const char *mode)
{
	char path[4096];
	FILE *opened;

	snprintf(path, sizeof(path), "%s/%s.%d", out, name, measurement);
	opened = fopen(path, mode);
	if (!opened)
		fail("cannot open", path);
	return opened;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void read_symbols(void)
{
	char line[1024], name[512];
	size_t room = 0;
	FILE *from = file("symbols", "r");

	nr_symbols = 0;
	while (fgets(line, sizeof(line), from)) {
		unsigned long long address;

		if (sscanf(line, "%llx %*c %511s", &address, name) != 2 || !(address >> 63))
			continue;
		if (!strcmp(name, "__entry_text_start"))
			entry_start = address;
		if (!strcmp(name, "__entry_text_end"))
			entry_end = address;
		if (nr_symbols == room) {
			room = room ? 2 * room : 1 << 16;
			symbols = realloc(symbols, room * sizeof(*symbols));
		}
		symbols[nr_symbols++] = address;
	}
	fclose(from);
	if (!entry_start || !entry_end)
		fail("no __entry_text_start and __entry_text_end in", "the guest's symbols");
	qsort(symbols, nr_symbols, sizeof(*symbols), compare);
}

static void begin(void)
{
	read_symbols();
	memset(edges, 0, EDGES * sizeof(*edges));
	memset(cpus, 0, sizeof(cpus));
	nr_nodes = 1;
	nodes[0] = (struct node){ 0 };
}

static void end(void)
{
	FILE *calls = file("calls", "w");

	for (uint32_t i = 0; i < nr_nodes; i++)
		fprintf(calls, "%u %u %llx %llu %llu\n", i, nodes[i].parent, (unsigned long long)nodes[i].address,
			(unsigned long long)nodes[i].calls, (unsigned long long)nodes[i].instructions);
	if (fclose(calls))
		fail("cannot write", "the calls");
}

/* --- translation -----------------------------------------------------------------------------------------------
 */

static bool is_prefix(uint8_t byte)
{
	return (byte & 0xf0) == 0x40 || (byte >= 0x64 && byte <= 0x67) || byte == 0xf2 || byte == 0xf3 ||
	       byte == 0x2e || byte == 0x36 || byte == 0x3e || byte == 0x26;
}

static void classify(struct block *block, const uint8_t *code, size_t length)
{
	int32_t distance;
	size_t i = 0;

	while (i < length && is_prefix(code[i]))
		i++;
	if (i + 5 <= length && code[i] == 0xe8) {
		memcpy(&distance, &code[i + 1], sizeof(distance));
		block->callee = block->end + distance;
		block->ending = CALL;
	} else if (i + 2 <= length && code[i] == 0xff && ((code[i + 1] >> 3) & 7) == 2) {
		block->ending = CALL;
	} else if (i < length && (code[i] == 0xc3 || code[i] == 0xc2)) {
		block->ending = RETURN;
	} else if (i < length && code[i] == 0xcf) {
		block->ending = INTERRUPT_RETURN;
	}
}

static void mark(unsigned int index, void *data)
{
	(void)index, (void)data;
	measures = !measures;
	if (measures) {
		measurement++;
		begin();
	} else {
		end();
	}
}

static void translate(uint64_t id, struct qemu_plugin_tb *tb)
{
	/* nopl 0x54534f43(%rax) */
	static const uint8_t marks[] = { 0x0f, 0x1f, 0x80, 'C', 'O', 'S', 'T' };
	size_t n = qemu_plugin_tb_n_insns(tb), length = 0;
	struct qemu_plugin_insn *insn = NULL;
	struct block *block;
	uint8_t code[16];

	(void)id;
	for (size_t i = 0; i < n; i++) {
		insn = qemu_plugin_tb_get_insn(tb, i);
		length = qemu_plugin_insn_data(insn, code, sizeof(code));
		if (length == sizeof(marks) && !memcmp(code, marks, length))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, mark, NO_REGISTERS, NULL);
	}
	/*
	 * This block is never freed, because QEMU notifies a plugin only when it drops all translations, and a
	 * CPU's stack may still point to the block.
	 */
	block = calloc(1, sizeof(*block));
	block->address = qemu_plugin_tb_vaddr(tb);
	block->end = qemu_plugin_insn_vaddr(insn) + qemu_plugin_insn_size(insn);
	block->instructions = n;
	classify(block, code, length);
	qemu_plugin_register_vcpu_tb_exec_cb(tb, execute, NO_REGISTERS, block);
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	(void)info;
	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "out=", 4))
			out = strdup(argv[i] + 4);
	}
	edges = calloc(EDGES, sizeof(*edges));
	nodes = calloc(EDGES / 2, sizeof(*nodes));
	qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
	return 0;
}
