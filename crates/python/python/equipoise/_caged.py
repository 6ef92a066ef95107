"""Schedulers in C run in a process of their own, which first gives up what could harm this computer.

That is for good (Landlock, seccomp), so it cannot be done to the interpreter that asks. A fault of the scheduler's ends
that process, and is an exception here.
"""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from typing import Any

from equipoise import _native

#: How often to see whether it is to stop, s.
_LOOK_EVERY = 0.1


def call(name: str, args: tuple[Any, ...], stop: _native.Stop | None = None) -> Any:
    """What `equipoise._native.NAME(*args)` returns in such a process, or raises."""
    command = [sys.executable, "-c", "from equipoise import _caged; _caged.main()"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = _finished(child, pickle.dumps((name, args)), stop)
    if child.returncode != 0:
        said = err.decode(errors="replace").strip()
        raise _native.SimulationError(said or f"the simulation's process ended with status {child.returncode}")
    done, value = pickle.loads(out)
    if not done:
        raise value
    return value


def _finished(child: subprocess.Popen[bytes], job: bytes, stop: _native.Stop | None) -> tuple[bytes, bytes]:
    # Once begun it goes on with what it has.
    given: bytes | None = job
    try:
        while True:
            try:
                return child.communicate(given, timeout=_LOOK_EVERY)
            except subprocess.TimeoutExpired:
                given = None
                if stop is not None and stop.is_set():
                    raise KeyboardInterrupt("stopped") from None
    except BaseException:
        child.kill()
        child.wait()
        raise


def main() -> None:
    """What such a process does: what standard input says, to standard output."""
    # Whoever started this process ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    name, args = pickle.loads(sys.stdin.buffer.read())
    _native.cage()
    try:
        result = True, getattr(_native, name)(*args)
    except Exception as error:  # whatever it is, it belongs to the one who asked
        result = False, error
    sys.stdout.buffer.write(pickle.dumps(result))
    sys.stdout.buffer.flush()
