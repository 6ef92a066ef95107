"""Errors: `BadInput` for errors that Python code finds, `MissingExtra`, and Ctrl-C without a traceback."""

from __future__ import annotations

import difflib
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType

from equipoise._native import BadInput

#: The modules that each extra of pyproject.toml installs.
EXTRAS = {
    "pandas": ("pandas", "pyarrow"),
    "polars": ("polars",),
    "plot": ("matplotlib", "pandas", "pyarrow"),
    "sweep": ("pyarrow", "scipy", "tqdm"),
    "ray": ("ray", "pyarrow", "scipy", "tqdm"),
    "tune": ("optuna", "pyarrow", "scipy", "tqdm"),
}


_RENDER = "_render_traceback_"


class MissingExtra(ModuleNotFoundError):
    """A function requires packages that an extra of this package installs."""


def require(what: str, extra: str) -> None:
    """Raises `MissingExtra` unless all modules of `extra`, which `what` requires, are installed."""
    missing = [name for name in EXTRAS[extra] if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtra(
            f"{what} requires {', '.join(missing)}: install equipoise with the extra `{extra}`, "
            f"or `pip install {' '.join(missing)}`"
        )


@contextmanager
def stoppable(message: str = "stopped") -> Iterator[None]:
    """Ctrl-C in the block raises `KeyboardInterrupt` with `message`; if uncaught, only that message is printed."""
    try:
        yield
    except KeyboardInterrupt as error:
        # A subclass would not work, because the interpreter's exit status would not show that a signal ended it.
        stopped = KeyboardInterrupt(message)
        # IPython and Jupyter print this text.
        setattr(stopped, _RENDER, lambda: [message])
        raise stopped from error


_excepthook = sys.excepthook


def _print_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if isinstance(error, MissingExtra) or hasattr(error, _RENDER):
        print(f"equipoise: {error}", file=sys.stderr)
    else:
        _excepthook(kind, error, trace)


sys.excepthook = _print_exception


def bad_input(message: str, expected: str, name: str | None = None, known: Iterable[str] = ()) -> BadInput:
    """Returns a `BadInput` whose `file` and `line` are None. `name` is the input that is none of the `known` names."""
    meant = difflib.get_close_matches(name or "", list(known), 1)
    if meant and meant[0] != name:
        expected = f"did you mean {meant[0]!r}? {expected}"
    error = BadInput(f"{message}\n{expected}")
    error.message, error.expected = message, expected
    error.file = error.line = None
    return error


#: The largest number of chunks, trials and so on, which is the largest number of 32 bits.
MOST = 2**32 - 1


def whole(what: str, value: int, least: int = 1, most: int = MOST) -> int:
    """Returns `value` if it is a whole number from `least` to `most`, and otherwise raises `BadInput`."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise bad_input(f"{what} is {value!r}", f"expected a whole number from {least} to {most}")
    return value


def runs_of(runs: int, what: str = "runs") -> int:
    """Returns `runs` if it is a valid number of runs. The number is limited, because all runs stay in memory until the
    last run has finished."""
    return whole(what, runs, 1, 100_000)


def jobs_of(jobs: int) -> int:
    """Returns `jobs` if it is a valid number of simulations at a time, each of which is a thread."""
    return whole("jobs", jobs, 0, 1024)


def check_file(path: str | os.PathLike[str] | None) -> None:
    """Raises `BadInput` if no file can be written at `path`, before the work whose result goes there."""
    if path is None:
        return
    folder = os.path.dirname(os.fspath(path)) or "."
    if not os.path.isdir(folder):
        raise bad_input(f"{path}: no such folder", "expected a folder that exists")
    if os.path.isdir(path) or not os.access(folder, os.W_OK):
        raise bad_input(f"{path}: this cannot be written", "expected the name of a file in a folder that is writable")


def seed_of(seed: int) -> int:
    """Returns `seed` if it is a valid seed."""
    return whole("seed", seed, 0, 2**64 - 1)
