"""Applies small changes to the meaning of scheduler/equipoise, one at a time in a copy of scheduler/ (target/mutants),
and reports which tests notice each change: tests of meaning, only digests of decisions (crates/lab/tests/decisions.rs),
or none. The exit status is 1 if a change survives.

tests/mutating/equipoise has the changes: a line with the file and the effect of the change, perhaps lines `* TEXT` with
a remark, then lines `- TEXT` and `+ TEXT` with the old and the new text. The tests are built once, in target/; for each change only the schedulers are
compiled, into the folder that EQUIPOISE_OBJECTS names."""

import argparse
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tools.command import PROJECT, Failed, cargo, parser, run_main

OUT = PROJECT / "target/mutants"
SCHEDULER = OUT / "scheduler"
OBJECTS = OUT / "objects"
#: The time limit of a test, because a change may make a run endless.
SECONDS = 900


class Test(NamedTuple):
    package: str
    target: str
    words: str


#: The tests of meaning that can notice a change.
MEANING = [Test("equipoise-policy", "c", "equipoise"),
           Test("equipoise-simulator", "conformance", "fairness::cases fairness::table::loops groups"),
           Test("equipoise", "command", "scenarios")]
DIGEST = Test("equipoise-lab", "decisions", "")


class Change(NamedTuple):
    """A change of a file of scheduler/equipoise, with its effect, its old and new text, and a remark."""

    file: str
    what: str
    old: str
    new: str
    remark: str = ""

    @property
    def name(self) -> str:
        return f"{self.file}: {self.what}"


def changes(listed: Path, words: list[str]) -> list[Change]:
    """The changes in the file `listed` whose name contains all words. Raises Failed unless the old text of each is in its
    file once."""
    chosen = []
    entry = re.compile(r"^(?P<file>[^\s#+*-][^:]*): (?P<what>.*)\n(?P<text>(?:[-+*]( .*)?\n)+)", re.M)
    for of in entry.finditer(listed.read_text() + "\n"):
        old, new, remark = ("\n".join(line[2:] for line in of["text"].splitlines() if line[0] == sign) for sign in "-+*")
        change = Change(of["file"], of["what"], old, new, remark.replace("\n", " "))
        if all(word in change.name for word in words):
            count = (PROJECT / "scheduler/equipoise" / change.file).read_text().count(old)
            if count != 1:
                raise Failed(f"{listed.relative_to(PROJECT)}: {change.name}: its text occurs {count} times; expected once")
            chosen.append(change)
    return chosen


@contextmanager
def changed(file: str, old: str, new: str) -> Iterator[None]:
    """Within the block, the schedulers in OBJECTS have this change. Raises Failed if they do not compile."""
    path = SCHEDULER / "equipoise" / file
    text = path.read_text()
    path.write_text(text.replace(old, new))
    try:
        compile_schedulers()
        yield
    finally:
        path.write_text(text)


def compile_schedulers() -> None:
    """Compiles the copy of scheduler/ into OBJECTS."""
    done = subprocess.run(["cargo", "run", "--locked", "--quiet", "--example", "objects", "--", OBJECTS, SCHEDULER], cwd=PROJECT,
                          capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.splitlines()
        raise Failed(next((line for line in lines if " error: " in line), lines[0]))


def build() -> dict[str, Path]:
    """Builds the test programs and the command, which take the schedulers from OBJECTS. Returns their paths, by
    name."""
    # Build all of them at once, so that each crate is built once, with the same features as by
    # `cargo test`.
    targets = [f"--test={test.target}" for test in [*MEANING, DIGEST]]
    messages = [json.loads(text) for text in cargo("test", "--no-run", *targets, "--message-format=json").splitlines()]
    programs = {message["target"]["name"]: Path(message["executable"]) for message in messages if message.get("executable")}
    shutil.rmtree(SCHEDULER, ignore_errors=True)
    shutil.copytree(PROJECT / "scheduler", SCHEDULER)
    compile_schedulers()
    os.environ["EQUIPOISE_OBJECTS"] = str(OBJECTS)
    return programs


def fails(programs: dict[str, Path], test: Test) -> str | None:
    """The first test that notices the change, or None."""
    folder = PROJECT / "crates" / test.package.removeprefix("equipoise-")
    environment = {"RUST_TEST_THREADS": "2"} | os.environ | {
        "CARGO_MANIFEST_DIR": str(folder), "RUST_BACKTRACE": "0", "INSTA_UPDATE": "no",
        "PROPTEST_FAILURE_PERSISTENCE": "off", "XDG_CACHE_HOME": str(OUT / "cache")}
    try:
        done = subprocess.run([programs[test.target], *test.words.split()], cwd=folder, env=environment, capture_output=True,
                              text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return "(endless)"
    if not done.returncode:
        return None
    failed = re.findall(r"^test (\S+) \.\.\. FAILED", done.stdout, re.M)
    return failed[0] if failed else f"(status {done.returncode})"


def options(description: str | None, what: str) -> argparse.ArgumentParser:
    """A parser with the options of all tools that change the scheduler as this one does."""
    options = parser(description)
    options.add_argument("--list", action="store_true", help=f"print the {what}, and check that they fit the scheduler")
    options.add_argument("words", nargs="*", metavar="WORD", help=f"take only the {what} whose file or name contains the words")
    return options


def main() -> int:
    parsed = options(__doc__, "changes")
    parsed.add_argument("--digest", action="store_true", help="run the digests also if a test of meaning has noticed")
    args = parsed.parse_args()
    chosen = changes(PROJECT / "tests/mutating/equipoise", args.words)
    if args.list:
        print(*(change.name for change in chosen), sep="\n")
        return 0
    programs = build()
    built = {program: program.stat().st_mtime_ns for program in programs.values()}
    unchanged = [test for test in MEANING if fails(programs, test)]
    if unchanged:
        raise Failed(f"without a change these fail already: {unchanged}")
    counts = {"a test": 0, "a digest alone": 0, "nothing": 0}
    for change in chosen:
        try:
            with changed(change.file, change.old, change.new):
                noticed = next(filter(None, (fails(programs, test) for test in MEANING)), None)
                digest = fails(programs, DIGEST) if args.digest or not noticed else None
            by = "a test" if noticed else "a digest alone" if digest else "nothing"
            counts[by] += 1
            print(f"{change.name}: {'SURVIVES' if by == 'nothing' else noticed or by}", flush=True)
        except Failed as error:
            print(f"{change.name}: does not compile: {error}", flush=True)
        if any(program.stat().st_mtime_ns != time for program, time in built.items()):
            raise Failed("another build has replaced the tests in target/; expected none meanwhile")
    print(f"{sum(counts.values())} changes: noticed by " + ", by ".join(f"{by} {count}" for by, count in counts.items()))
    return int(counts["nothing"] > 0)


if __name__ == "__main__":
    run_main(main)
