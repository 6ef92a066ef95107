"""Schedulers that run code while they are loaded: compiled objects that are changed afterwards, so that
the check of the object does not see it. C can do the same, but these objects do not depend on the way in
which it does so. The compiler of such a file is a script that copies the changed object."""

import struct
import subprocess

from faults import FIND_LIBC

# The body of a function that the dynamic loader calls to find an address, instead of its own relocation.
AT_LOAD = {
    "calls chmod": 'faulty_call("chmod", (long)"secret", 04777, 0, 0, 0, 0);',
    "calls setxattr": 'faulty_call("setxattr", (long)"secret", (long)"user.x", (long)"y", 1, 0, 0);',
    "calls socket": 'faulty_call("socket", 1, 1, 0, 0, 0, 0);',
    "calls udp": 'faulty_call("socket", 2, 2, 0, 0, 0, 0);',
    "calls fork": 'if (!faulty_call("fork", 0, 0, 0, 0, 0, 0)) for (;;);',
    "calls unlink": 'faulty_call("unlink", (long)"secret", 0, 0, 0, 0, 0);',
    "calls creat": 'faulty_call("creat", (long)"left", 0644, 0, 0, 0, 0);',
    "calls execve": 'faulty_call("execve", (long)"/bin/true", 0, 0, 0, 0, 0);',
    "calls kill": 'faulty_call("kill", 1, 9, 0, 0, 0, 0);',
    "calls ptrace": 'faulty_call("ptrace", 16, 1, 0, 0, 0, 0);',
    "calls sleep": 'faulty_call("sleep", 1000, 0, 0, 0, 0, 0);',
    "calls the kernel itself": 'asm volatile("syscall" :: "a"(39ULL) : "rcx", "r11", "memory");',
    "calls exit of a thread": 'faulty_call("syscall", 60, 0, 0, 0, 0, 0);',
    "calls prlimit": 'faulty_call("syscall", 302, 0, 0, (long)faulty_array, 0, 0);',
    "calls write to a file": 'faulty_call("write", 5, (long)"left", 4, 0, 0, 0);',
    "calls dup": 'faulty_call("dup", 1, 0, 0, 0, 0, 0);',
    "calls sigaction": 'faulty_call("sigaction", 31, (long)faulty_array, 0, 0, 0, 0);',
    "loops": "for (;;) sink++;",
    "loops behind blocked signals": 'faulty_call("sigprocmask", 2, (long)&faulty_signals, 0, 0, 0, 0); for (;;) sink++;',
    "ends": 'faulty_call("_exit", 0, 0, 0, 0, 0, 0);',
    "faults by null": "*(volatile u64 *)zero = 1;",
    "faults by a wild pointer": "*(volatile u64 *)(0xdead0000 + one) = 1;",
}

# x86-64's numbers of relocations: an address in the object, and the result of a function in it.
RELATIVE, IRELATIVE = 8, 37
PROGBITS = 1
RELATIVE_COUNT = 0x6FFFFFF9


def text_of(source, body):
    """The text of `source` with a function that has `body`, and that runs at load if the object is
    changed."""
    function = f"static void *faulty_choose(void) {{ {body} return 0; }}\nvoid *volatile faulty_chosen = faulty_choose;\n"
    return source.replace("static int timer(", FIND_LIBC + function + "static int timer(", 1)


def changed(image):
    """The object `image`, in which the relocation of `faulty_chosen` calls `faulty_choose`, and no section says so."""
    image = bytearray(image)
    (sections,) = struct.unpack_from("<Q", image, 0x28)
    size, count, names = struct.unpack_from("<HHH", image, 0x3A)
    rows = [struct.unpack_from("<IIQQQQIIQQ", image, sections + size * n) for n in range(count)]
    texts = rows[names]

    def text(table, at):
        start = table[4] + at
        return bytes(image[start:image.index(0, start)]).decode()

    by_name = {text(texts, row[0]): (n, row) for n, row in enumerate(rows)}
    symbols = by_name[".symtab"][1]
    addresses = {}
    for at in range(symbols[4], symbols[4] + symbols[5], 24):
        name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", image, at)
        addresses[text(rows[symbols[6]], name)] = value
    number, relocations = by_name[".rela.dyn"]
    for at in range(relocations[4], relocations[4] + relocations[5], 24):
        where, info, addend = struct.unpack_from("<QQq", image, at)
        if where == addresses["faulty_chosen"]:
            assert (info & 0xFFFFFFFF, addend) == (RELATIVE, addresses["faulty_choose"])
            struct.pack_into("<Q", image, at + 8, IRELATIVE)
            break
    else:
        raise ValueError("no relocation of faulty_chosen")
    # The loader finds the relocations by DT_RELA.
    struct.pack_into("<I", image, sections + size * number + 4, PROGBITS)
    # The loader must apply the other relocations first, so this one is the last.
    last = relocations[4] + relocations[5] - 24
    image[at:at + 24], image[last:last + 24] = image[last:last + 24], image[at:at + 24]
    # The loader expects no other kind among the first relocations.
    dynamic = by_name[".dynamic"][1]
    for at in range(dynamic[4], dynamic[4] + dynamic[5], 16):
        if struct.unpack_from("<Q", image, at)[0] == RELATIVE_COUNT:
            struct.pack_into("<Q", image, at + 8, 0)
    return bytes(image)


def compiled(folder, text, include, flags):
    """The object of the scheduler in `text`."""
    (folder / "load.bpf.c").write_text(text)
    command = ["cc", *flags, "-I", include, "-o", folder / "load.so", folder / "load.bpf.c"]
    subprocess.run(command, check=True, stderr=subprocess.PIPE)
    return (folder / "load.so").read_bytes()
