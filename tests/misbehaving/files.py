"""Faults of a whole file: the text of the correct scheduler, and its replacement. The correct twin of each is the
scheduler with another replacement (TWINS), or without one."""

from faults import HOARDS

LICENSE = 'char _license[] SEC("license") = "GPL";'
OPS = "SCX_OPS_DEFINE("
FILES = {
    # Sources that the compiler never finishes, or for which it runs out of memory.
    "include_endless": (OPS, '#include "/dev/zero"\nSCX_OPS_DEFINE('),
    "include_itself": (OPS, '#include __FILE__\nSCX_OPS_DEFINE('),
    "macros_double": (OPS, "\n".join(["#define m0 sink++;"] + [f"#define m{n} m{n - 1} m{n - 1}" for n in range(1, 40)])
                      + "\nvoid faulty_macros(void) { m39 }\nSCX_OPS_DEFINE("),
    "data_of_gigabytes": (OPS, "u64 faulty_data[1 << 28] = { 1 };\nSCX_OPS_DEFINE("),
    "no_license": (LICENSE, ""),
    "other_license": ('"GPL"', '"Proprietary"'),
    "no_ops": (OPS, "struct sched_ext_ops unused = (struct sched_ext_ops)NOTHING("),
    "two_ops": (OPS, 'SCX_OPS_DEFINE(other_ops, .name = "other");\nSCX_OPS_DEFINE('),
    "empty_name": ('"faulty"', '""'),
    "long_name": ('"faulty"', f'"{"n" * 128}"'),
    "very_long_name": ('"faulty"', f'"{"n" * 4000}"'),
    "name_of_lines": ('"faulty"', '"faulty\\n\\n"'),
    "name_of_escapes": ('"faulty"', '"\\033[2J"'),
    "name_of_blanks": ('"faulty"', '"a b"'),
    "unknown_flags": ('.name = "faulty"', '.name = "faulty", .flags = 1ULL << 40'),
    "timeout": ('.name = "faulty"', '.name = "faulty", .timeout_ms = 31000'),
    "batch": ('.name = "faulty"', '.name = "faulty", .dispatch_max_batch = 1U << 31'),
    "op_of_one": ("(void *)faulty_tick", "(void *)1"),
    "op_of_data": ("(void *)faulty_tick", "(void *)&faulty_array"),
    "op_of_no_function": ("(void *)faulty_tick", "(void *)faulty_absent"),
    "op_of_another_type": ("(void *)faulty_enqueue", "(void *)faulty_init"),
    "absent_op": (".tick =", ".tock ="),
    "syntax": ("SCX_OPS_DEFINE", "}} SCX_OPS_DEFINE"),
    "unclosed": (OPS, '/* SCX_OPS_DEFINE('),
    "empty": (None, ""),
    "zeroes": (None, "\0" * 1000),
    "not_utf_8": (None, b"\xff\xfe\x00" * 100),
    "not_c": (None, "fn main() {}\n"),
    "a_header_that_is_not": (LICENSE, '#include "absent.h"\n' + LICENSE),
    "itself": (LICENSE, '#include "faulty.bpf.c"\n' + LICENSE),
    "error": (LICENSE, "#error on purpose\n" + LICENSE),
    "deep_brackets": (LICENSE, f"u64 deep = {'(' * 200000}1{')' * 200000};\n" + LICENSE),
    "large_bss_2": (LICENSE, "char large[2ULL << 30];\n" + LICENSE),
    "large_bss_8": (LICENSE, "char large[8ULL << 30];\n" + LICENSE),
    "large_bss_of_all": (LICENSE, "char large[1ULL << 46];\n" + LICENSE),
    "thread_local": (LICENSE, "__thread u64 mine; u64 *f(void) { return &mine; }\n" + LICENSE),
    "initialised_elsewhere": (LICENSE, "extern u64 absent; u64 *pointer = &absent;\n" + LICENSE),
    "ifunc": (LICENSE, "static void nothing(void) {}\nstatic void *choose(void) { for (;;); return nothing; }\n"
              'void either(void) __attribute__((ifunc("choose")));\nvoid *f = either;\n' + LICENSE),
}
# Files like those above, without the fault.
TWINS = {
    "include_endless": (OPS, '#include "twin.h"\nSCX_OPS_DEFINE('),
    "include_itself": (OPS, '#include "twin.h"\nSCX_OPS_DEFINE('),
    "macros_double": (OPS, "\n".join(["#define m0 sink++;"] + [f"#define m{n} m{n - 1} m{n - 1}" for n in range(1, 8)])
                      + "\nvoid faulty_macros(void) { m7 }\nSCX_OPS_DEFINE("),
    "data_of_gigabytes": (OPS, "u64 faulty_data[1 << 8] = { 1 };\nSCX_OPS_DEFINE("),
    "long_name": ('"faulty"', f'"{"n" * 127}"'),
    "timeout": ('.name = "faulty"', '.name = "faulty", .timeout_ms = 30000'),
    "batch": ('.name = "faulty"', '.name = "faulty", .dispatch_max_batch = 8'),
    "op_of_one": ("(void *)faulty_tick", "(void *)0"),
    "a_header_that_is_not": (LICENSE, '#include "twin.h"\n' + LICENSE),
    "itself": (LICENSE, '#include "twin.h"\n' + LICENSE),
    "error": (LICENSE, "#define error on purpose\n" + LICENSE),
    "deep_brackets": (LICENSE, f"u64 deep = {'(' * 20}1{')' * 20};\n" + LICENSE),
    "thread_local": (LICENSE, "u64 mine; u64 *f(void) { return &mine; }\n" + LICENSE),
    "initialised_elsewhere": (LICENSE, "u64 absent; u64 *pointer = &absent;\n" + LICENSE),
    "ifunc": (LICENSE, "static void nothing(void) {}\nstatic void *choose(void) { return nothing; }\n"
              "void *f = choose;\n" + LICENSE),
    "weak_chmod": (LICENSE, "int bpf_chmod(const char *, unsigned) __attribute__((weak)); long f(void) { return bpf_chmod ? 1 : 0; }\n" + LICENSE),
    "code_and_data": (LICENSE, 'asm(".section both,\\"aw\\"\\n.quad 0\\n.text");\n' + LICENSE),
    "executable_stack": (LICENSE, 'asm(".section .note.GNU-stack,\\"\\"\\n.text");\n' + LICENSE),
    "_init": (LICENSE, "void init_(void) { for (;;); }\n" + LICENSE),
    "_fini": (LICENSE, "void fini_(void) { for (;;); }\n" + LICENSE),
    "a_folder": (LICENSE, '#include "twin.h"\n' + LICENSE),
    "a_pipe": (LICENSE, '#include "twin.h"\n' + LICENSE),
    "a_link": (LICENSE, '#include "twin.h"\n' + LICENSE),
    "a_terminal": (LICENSE, '#include "twin.h"\n' + LICENSE),
    "typedef_of_itself": (LICENSE, "typedef struct deep { struct deep *of; } deep; deep deeper;\n" + LICENSE),
}
for size in ("2", "8", "of_all"):
    TWINS[f"large_bss_{size}"] = (LICENSE, "char large[1 << 20];\n" + LICENSE)
# Files that the compiler would have to read.
SECRET = '".globl stolen\\nstolen: .incbin \\"%s\\"\\n.byte 0"'
for what, path in {"shadow": "/etc/shadow", "beside": "secret", "elsewhere": "elsewhere/secret.h", "process": "/proc/self/environ"}.items():
    FILES[f"incbin {what}"] = (LICENSE, f"asm({SECRET % path});\nextern char stolen[];\n" + LICENSE)
    TWINS[f"incbin {what}"] = (LICENSE, f"asm({SECRET % 'twin.h'});\nextern char stolen[];\n" + LICENSE)
    FILES[f"include {what}"] = (LICENSE, f'#include "{path}"\n' + LICENSE)
    TWINS[f"include {what}"] = (LICENSE, '#include "twin.h"\n' + LICENSE)
for what, text in {
    "a_pipe": '#include "pipe.h"', "a_link": '#include "alias.h"', "a_folder": '#include "."', "a_terminal": '#include "/dev/tty"',
    "_init": "void _init(void) { for (;;); }", "_fini": "void _fini(void) { for (;;); }",
    "weak_chmod": "int chmod(const char *, unsigned) __attribute__((weak)); long f(void) { return chmod(\"secret\", 04755); }",
    "weak_environ": "extern char **environ __attribute__((weak)); char *f(void) { return environ[0]; }",
    "weak_syscall": "long syscall(long, ...) __attribute__((weak)); long f(void) { return syscall(39); }",
    "code_and_data": 'asm(".section both,\\"awx\\"\\n.quad 0\\n.text");',
    "executable_stack": 'asm(".section .note.GNU-stack,\\"x\\"\\n.text");',
}.items():
    FILES[f"{what}"] = (LICENSE, text + "\n" + LICENSE)
for what, text in HOARDS.items():
    TWINS[f"hoard {what}"] = ("static int timer(void *map, u32 *key, struct bpf_timer *timer)\n{", text
                              + "static int timer(void *map, u32 *key, struct bpf_timer *timer)\n{ static int once; if (once == 2) faulty_hoard();")
    FILES[f"hoard {what}"] = ("static int timer(void *map, u32 *key, struct bpf_timer *timer)\n{", text
                              + "static int timer(void *map, u32 *key, struct bpf_timer *timer)\n{ static int once; if (!once++) faulty_hoard();")
FILES["never_dispatches"] = ("scx_bpf_dsq_insert(p, 0, slice, enq_flags);", "")
FILES["says_escapes"] = ("scx_bpf_dsq_insert(p, 0, slice, enq_flags);", "scx_bpf_error(\"\\033[2J\\nerror: two\");")
for what, body in {"loops": "for (;;);", "exits": "__builtin_trap();"}.items():
    for kind in ("constructor", "destructor"):
        TWINS[f"{kind} {what}"] = (LICENSE, f"__attribute__((unused)) static void f(void) {{ {body} }}\n" + LICENSE)
        FILES[f"{kind} {what}"] = (LICENSE, f"__attribute__(({kind})) static void f(void) {{ {body} }}\n" + LICENSE)
for section in (".init_array", ".fini_array", ".preinit_array", ".ctors", ".dtors", ".init", ".fini"):
    TWINS[f"section {section}"] = (LICENSE, 'static void f(void) {}\nvoid *g SEC(".data.g") = f;\n' + LICENSE)
    FILES[f"section {section}"] = (LICENSE, f'static void f(void) {{}}\nvoid *g SEC("{section}") = f;\n' + LICENSE)
for what, kind, key, value, entries in (
    ("kind", 99, "u32", "u64", 1), ("kind_0", 0, "u32", "u64", 1), ("no_entries", "BPF_MAP_TYPE_HASH", "u32", "u64", 0),
    ("negative", "BPF_MAP_TYPE_ARRAY", "u64", "u64", 1), ("large", "BPF_MAP_TYPE_ARRAY", "u32", "struct { char a[1 << 20]; }", 1 << 20),
    ("largest", "BPF_MAP_TYPE_PERCPU_ARRAY", "u32", "u64", (1 << 31) - 1), ("queue", "BPF_MAP_TYPE_QUEUE", "u32", "u64", 1 << 30),
    ("storage", "BPF_MAP_TYPE_TASK_STORAGE", "u32", "struct { char a[1 << 30]; }", 5),
):
    TWINS[f"map {what}"] = (LICENSE, "struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 4); __type(key, u32); "
                            '__type(value, u64); } right SEC(".maps");\n' + LICENSE)
    FILES[f"map {what}"] = (LICENSE, f"struct {{ __uint(type, {kind}); __uint(max_entries, {entries}); __type(key, {key}); "
                            f'__type(value, {value}); }} wrong SEC(".maps");\n' + LICENSE)

# Objects that their reader must survive, and that must not change the memory of the process that loads them.
MAP = "__uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, u64);"
MOVED = (f'extern struct {{ {MAP} }} moved SEC(".maps"); void *moves = &moved; asm(".section .maps,\\"aw\\"\\n.globl moved\\n'
         '.set moved, . %s\\n.type moved, @object\\n.size moved, 32\\n.skip 32\\n.text");')
LARGE = 'const volatile u64 small = 1; asm(".globl large\\n.set large, small\\n.type large, @object\\n.size large, %s");'
for what, text, right in (
    ("map of itself", "struct m { int (*type)[12]; int (*max_entries)[1]; int *key; struct m *values[1]; }; struct m outer SEC(\".maps\");",
     f"struct in {{ {MAP} }}; struct {{ __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS); __uint(max_entries, 1); __type(key, u32); "
     '__array(values, struct in); } outer SEC(".maps");'),
    ("map of maps of maps", f"struct in {{ {MAP} }}; struct m {{ int (*type)[12]; int (*max_entries)[1]; int *key; struct in *values[1]; }}; "
     'struct { int (*type)[12]; int (*max_entries)[1]; int *key; struct m *values[1]; } outer SEC(".maps");', None),
    ("symbol moved by asm", MOVED % "+ 0x10000000", MOVED % ""),
    ("symbol before its section", 'u64 moved[8] = { 1 }; asm(".globl far\\n.set far, moved - 0x10000\\n.type far, @object\\n.size far, 8");', None),
    ("symbol of all memory", LARGE % "0x8000000000", LARGE % "8"),
    ("symbol of more than all memory", LARGE % "0xffffffffffffffff", LARGE % "8"),
    ("constant of gigabytes", 'const volatile char large[512ULL << 30] __attribute__((section(".bss.large")));',
     'const volatile char large[512] __attribute__((section(".bss.large")));'),
    ("name of escapes", 'u64 moved = 1; asm(".globl \\"\\033[2J\\"\\n.set \\"\\033[2J\\", moved\\n.type \\"\\033[2J\\", @object\\n.size \\"\\033[2J\\", 8");',
     'u64 moved = 1; asm(".globl plain\\n.set plain, moved\\n.type plain, @object\\n.size plain, 8");'),
    ("decoy dynamic section", 'asm(".section .aaa,\\"a\\",@0x6\\n.quad 0,0\\n.text\\n"); __attribute__((visibility("default"))) void _init(void) { for (;;); }',
     'asm(".section .aaa,\\"a\\"\\n.quad 0,0\\n.text\\n"); __attribute__((visibility("default"))) void init_(void) { for (;;); }'),
):
    FILES[what] = (LICENSE, text + "\n" + LICENSE)
    if right:
        TWINS[what] = (LICENSE, right + "\n" + LICENSE)
