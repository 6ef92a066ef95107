"""The command `equipoise`: finds it, runs it, and reads the JSON that it prints."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

PROJECT = Path(__file__).resolve().parent.parent
#: An object of JSON: the keys are beside the code that writes it, and those of `explain` in docs/explain-json.md.
Json = dict[str, Any]
#: A load's name with parameters, or the content of an rt-app file.
Workload = str | Json
Job = TypeVar("Job")


class Failed(Exception):
    """A measurement or a simulation failed. The text says why."""


def run_main(main: Callable[[], int | None]) -> None:
    """Ends the program with the status of `main`, which is 1 after a message if `main` fails, or the status of a script
    that failed."""
    try:
        sys.exit(main())
    except Failed as error:
        sys.exit(str(error))
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)


def parser(description: str | None) -> argparse.ArgumentParser:
    """A parser of options whose help is the module's docstring."""
    of = sys.modules["__main__"].__spec__
    return argparse.ArgumentParser(prog=f"python3 -m {of.name}" if of else None, description=description,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)


def positive(text: str) -> int:
    """The type of an option that is a count."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected a whole number of at least 1")
    return int(text)


def one_of(names: Iterable[str]) -> Callable[[str], str]:
    """The type of an argument that is one of `names`. With argparse's `choices`, Python 3.11 refuses an empty list of
    arguments."""
    known = list(names)

    def checked(text: str) -> str:
        if text not in known:
            raise argparse.ArgumentTypeError(f"{text}: expected one of {', '.join(known)}")
        return text

    return checked


def cargo(*words: str) -> str:
    """Runs cargo in the project; returns its output."""
    return subprocess.run(["cargo", *words, "--locked", "--quiet"], cwd=PROJECT, stdout=subprocess.PIPE, text=True,
                          check=True).stdout


def equipoise() -> Path:
    """The path of the command: $EQUIPOISE, or else the optimized build, which is made if necessary."""
    named = os.environ.get("EQUIPOISE")
    if not named:
        cargo("build", "--release", "-p", "equipoise")
    path = Path(named or PROJECT / "target/release/equipoise").resolve()
    if not os.access(path, os.X_OK):
        raise Failed(f"EQUIPOISE={named}: expected a program")
    return path


def ask(command: Path, *words: str | Path, limit: float | None = None, accepted: Iterable[int] = (0,)) -> Any:
    """The JSON that the command prints. Raises Failed with the command's message if its exit status is not an accepted
    one, or if it takes more than `limit` seconds."""
    try:
        done = subprocess.run([command, *words, "--format", "json"], capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise Failed(f"not done in {limit:.0f} s") from None
    if done.returncode not in accepted:
        messages = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        raise Failed(messages[0] if messages else f"error: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout)


def compare(command: Path, machine: str | Path, workload: Workload, policies: Iterable[str], *more: str,
            schedulers: Iterable[str] = (), limit: float | None = None) -> Json:
    """The result of `compare`, with further options in `more`."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", prefix="load") as file:
        if not isinstance(workload, str):
            json.dump(workload, file)
            file.flush()
            workload = file.name
        columns = [word for policy in policies for word in ("--policy", policy)]
        columns += [word for scheduler in schedulers for word in ("--scheduler", scheduler)]
        result: Json = ask(command, "compare", "--machine", machine, "--workload", workload, *columns, *more, limit=limit)
        return result


def cpus_of(machine: str) -> int:
    """The number of CPUs of a machine file."""
    text = (PROJECT / f"machines/{machine}.toml").read_text()
    clusters = [cluster for package in tomllib.loads(text)["package"] for cluster in package["cluster"]]
    spans = [span.split("-") for cluster in clusters for span in cluster["cpus"].split(",")]
    return sum(int(span[-1]) - int(span[0]) + 1 for span in spans)


def stored(path: Path) -> list[Json]:
    """The cells in a file that has a JSON object in each line. The file need not exist."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def measured(path: Path, work: Mapping[tuple[str, str], Job], jobs: int, measure: Callable[[Job], list[Json]]) -> list[Json]:
    """The lines of the file `path`, after measuring the cells, by machine and load, that the file lacks. Several cells
    are measured at a time; each is written to the file as soon as it and its predecessors are done."""
    lines = stored(path)
    known = {(line["machine"], line["load"]) for line in lines}
    path.parent.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(jobs) as pool, path.open("a") as file:
        for cell in pool.map(measure, [job for key, job in work.items() if key not in known]):
            file.writelines(f"{json.dumps(line)}\n" for line in cell)
            file.flush()
            lines += cell
    return lines
