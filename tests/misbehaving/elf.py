"""Compiled schedulers whose ELF has been changed in one place. Most are refused when they are read;
those that the check of an object does not find must be refused by the dynamic loader, in the
cage."""

import struct

LOAD, DYNAMIC, NOTE, TLS, GNU_STACK, GNU_RELRO = 1, 2, 4, 7, 0x6474E551, 0x6474E552
NULL, NEEDED, INIT, INIT_ARRAY, INIT_ARRAYSZ, RPATH, RUNPATH = 0, 1, 12, 25, 27, 15, 29
STRTAB, SYMTAB, RELA, RELASZ, SONAME, GNU_HASH = 5, 6, 7, 8, 14, 0x6FFFFEF5
FLAGS, FLAGS_1, RELACOUNT, VERNEED, VERNEEDNUM, VERSYM = 30, 0x6FFFFFFB, 0x6FFFFFF9, 0x6FFFFFFE, 0x6FFFFFFF, 0x6FFFFFF0
AUDIT, DEPAUDIT, AUXILIARY, FILTER, PREINIT_ARRAY, TEXTREL = 0x6FFFFEFC, 0x6FFFFEFB, 0x7FFFFFFD, 0x7FFFFFFF, 32, 22


class Elf:
    """The bytes of an object, and the places of its tables."""

    def __init__(self, image):
        self.image = bytearray(image)
        self.segments, self.sections = self.get("<Q", 0x20), self.get("<Q", 0x28)
        self.segment_count, self.section_count = self.get("<H", 0x38), self.get("<H", 0x3C)

    def get(self, kind, at):
        return struct.unpack_from(kind, self.image, at)[0]

    def put(self, kind, at, value):
        struct.pack_into(kind, self.image, at, value)

    def segment(self, kind, which=0):
        """The place of the header of a segment."""
        all_of_them = (self.segments + 56 * n for n in range(self.segment_count))
        return [at for at in all_of_them if self.get("<I", at) == kind][which]

    def entries(self):
        """The places of the entries of the dynamic section."""
        start = self.get("<Q", self.segment(DYNAMIC) + 8)
        return range(start, start + self.get("<Q", self.segment(DYNAMIC) + 32), 16)

    def entry(self, tag):
        return next(at for at in self.entries() if self.get("<Q", at) == tag)

    def add(self, tag, value):
        """Adds an entry to the dynamic section, which has room for some."""
        at = self.entry(NULL)
        self.put("<Q", at, tag)
        self.put("<Q", at + 8, value)

    def section(self, kind):
        """The place of the header of a section."""
        all_of_them = (self.sections + 64 * n for n in range(self.section_count))
        return next(at for at in all_of_them if self.get("<I", at + 4) == kind)


def of_header(kind, at, value):
    return lambda elf: elf.put(kind, at, value)


def of_segment(kind, which, field, value, form="<Q"):
    """Sets a field of a segment's header. `field` is its offset in bytes."""
    return lambda elf: elf.put(form, elf.segment(kind, which) + field, value)


def of_entry(tag, value):
    return lambda elf: elf.put("<Q", elf.entry(tag) + 8, value)


def adds(*entries):
    return lambda elf: [elf.add(tag, value) for tag, value in entries]


def second_dynamic(elf):
    """Makes the stack's segment a second dynamic one, which lies in data."""
    at, of = elf.segment(GNU_STACK), elf.segment(DYNAMIC)
    elf.image[at:at + 56] = elf.image[of:of + 56]
    elf.put("<Q", at + 8, elf.get("<Q", of + 8) + 16)


def over(which, other):
    """Puts one segment where another one is."""
    def change(elf):
        at, of = elf.segment(LOAD, which), elf.segment(LOAD, other)
        elf.put("<Q", at + 16, elf.get("<Q", of + 16))
    return change


def hash_table(field, value, form="<I"):
    """Sets a word of the hash table of the object's symbols."""
    return lambda elf: elf.put(form, elf.get("<Q", elf.entry(GNU_HASH) + 8) + field, value)


def endless_chain(elf):
    """Makes all hashes of symbols go on to the next symbol."""
    at = elf.get("<Q", elf.entry(GNU_HASH) + 8)
    buckets, bloom = elf.get("<I", at), elf.get("<I", at + 8)
    for n in range(bloom):
        elf.put("<Q", at + 16 + 8 * n, 2 ** 64 - 1)
    chains = at + 16 + 8 * bloom + 4 * buckets
    for n in range(4):
        elf.put("<I", chains + 4 * n, 0)


def relocation(kind, addend):
    """Changes the last relocation."""
    def change(elf):
        at = elf.get("<Q", elf.entry(RELA) + 8) + elf.get("<Q", elf.entry(RELASZ) + 8) - 24
        elf.put("<Q", at + 8, kind)
        elf.put("<q", at + 16, addend)
        elf.put("<Q", elf.entry(RELACOUNT) + 8, 0)
    return change


CHANGES = {
    "32 bits": of_header("<B", 4, 1),
    "big-endian": of_header("<B", 5, 2),
    "of another machine": of_header("<H", 18, 183),
    "a program": of_header("<H", 16, 2),
    "no segments": of_header("<H", 0x38, 0),
    "65535 segments": of_header("<H", 0x38, 0xFFFF),
    "65534 segments": of_header("<H", 0x38, 0xFFFE),
    "segments elsewhere": of_header("<Q", 0x20, 1 << 60),
    "segments of another size": of_header("<H", 0x36, 57),
    "no sections": of_header("<H", 0x3C, 0),
    "sections elsewhere": of_header("<Q", 0x28, 1 << 62),
    "names of sections elsewhere": of_header("<H", 0x3E, 0xFFFE),
    "two dynamic segments": second_dynamic,
    "DT_INIT": adds((INIT, 0x1000)),
    "DT_INIT_ARRAY": adds((INIT_ARRAY, 0x4000), (INIT_ARRAYSZ, 8)),
    "DT_PREINIT_ARRAY": adds((PREINIT_ARRAY, 0x4000)),
    "DT_NEEDED": adds((NEEDED, 1)),
    "DT_NEEDED elsewhere": adds((NEEDED, 1 << 40)),
    "DT_RPATH": adds((RPATH, 1)),
    "DT_RUNPATH": adds((RUNPATH, 1)),
    "DT_AUDIT": adds((AUDIT, 1)),
    "DT_DEPAUDIT": adds((DEPAUDIT, 1)),
    "DT_AUXILIARY": adds((AUXILIARY, 1)),
    "DT_FILTER": adds((FILTER, 1)),
    "DT_STRTAB elsewhere": of_entry(STRTAB, 1 << 40),
    "DT_SYMTAB elsewhere": of_entry(SYMTAB, 1 << 40),
    "DT_GNU_HASH elsewhere": of_entry(GNU_HASH, 1 << 40),
    "DT_RELA elsewhere": of_entry(RELA, 1 << 40),
    "DT_RELASZ of all memory": of_entry(RELASZ, 24 << 40),
    "no buckets": hash_table(0, 0),
    "an endless chain of symbols": endless_chain,
    "a relocation to code": relocation(8, 1 << 40),
    "a relocation that calls": relocation(37, 0x1000),
    "a relocation of a copy": relocation(5 | 1 << 32, 0),
    "a relocation of a thread": relocation(16 | 1 << 32, 0),
    "a relocation of an absent symbol": relocation(1 | 0xFFFFFFF << 32, 0),
    "a huge alignment": of_segment(LOAD, 0, 48, 1 << 40),
    "data over code": over(3, 1),
    "code over data": over(1, 3),
    "constants over all": over(2, 0),
    "a segment elsewhere": of_segment(LOAD, 3, 16, 1 << 46),
    "a segment before the first": of_segment(LOAD, 3, 16, 2 ** 64 - 0x1000),
    "a segment of all memory": of_segment(LOAD, 3, 40, 1 << 46),
    "more file than memory": of_segment(LOAD, 3, 40, 8),
    "more than the file": of_segment(LOAD, 1, 32, 1 << 30),
    "writable code": of_segment(LOAD, 1, 4, 7, "<I"),
    "no code": of_segment(LOAD, 1, 4, 4, "<I"),
    "an executable stack": of_segment(GNU_STACK, 0, 4, 7, "<I"),
    "constants that are all": of_segment(GNU_RELRO, 0, 40, 1 << 40),
}


def changed(name):
    """The function that makes the change `name` to an image."""
    def change(image):
        elf = Elf(image)
        CHANGES[name](elf)
        return bytes(elf.image)
    return change
