"""`BadInput` for what Python code finds wrong."""

from __future__ import annotations

from equipoise._native import BadInput


def bad_input(message: str, expected: str) -> BadInput:
    """The exception, with what those of files have; of no file."""
    error = BadInput(f"{message}\n{expected}")
    error.message, error.expected = message, expected
    error.file = error.line = None
    return error


def whole(what: str, value: int, least: int = 1) -> int:
    """`value`, if it is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise bad_input(f"{what} is {value!r}", f"expected a whole number of at least {least}")
    return value
