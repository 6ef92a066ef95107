"""The points of a sweep, from a grid, or from a random or Sobol design over lists and ranges."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from equipoise.api import several
from equipoise.errors import bad_input, seed_of, whole


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included, from which a random or Sobol design and `tune()` choose.

    With `log`, their logarithms are uniformly distributed. With `integer`, they are whole numbers.
    """

    low: float
    high: float
    log: bool = False
    integer: bool = True

    def __post_init__(self) -> None:
        if not all(is_number(end) and math.isfinite(end) for end in (self.low, self.high)):
            raise bad_input(f"{self} has no ends", "expected two numbers")
        if not self.low <= self.high or (self.log and self.low <= 0):
            raise bad_input(f"{self} is empty", "expected low <= high, and low > 0 with log=True")
        if self.integer and math.ceil(self.low) > math.floor(self.high):
            raise bad_input(f"{self} has no whole number", "expected a whole number in it, or integer=False")

    def at(self, part: float) -> float | int:
        """The quantile `part` (0 to 1) of the range."""
        least, most = math.ceil(self.low), math.floor(self.high)
        if self.integer and not self.log:
            # Each whole number has an equal part of the interval from 0 to 1.
            return min(least + math.floor(part * (most - least + 1)), most)
        value = self.low * (self.high / self.low) ** part if self.log else self.low + part * (self.high - self.low)
        return min(max(round(value), least), most) if self.integer else value


_DESIGNS = ("grid", "random", "sobol")

# The values of a dimension: a list or, for designs that choose values, a range.
Axis = Sequence[Any] | Range


def is_number(value: Any) -> bool:
    """True if `value` is a number, which a boolean is not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def axis_of(name: str, values: Any) -> Axis:
    """The dimension `name`. Listed values have one type, because they become a column of a table: NumPy's numbers
    become Python's, and whole numbers among fractions become floats."""
    if isinstance(values, Range):
        return values
    plain = [value.item() if hasattr(value, "item") else value for value in several(values)]
    if not plain:
        raise bad_input(f"no value for `{name}`", "expected one or more values")
    for of_kind in (is_number, lambda value: isinstance(value, bool), lambda value: isinstance(value, str)):
        if all(map(of_kind, plain)):
            return list(map(float, plain)) if any(isinstance(value, float) for value in plain) else plain
    raise bad_input(f"the values of `{name}` are {plain}", "expected only numbers, only words, or only booleans")


def points(axes: Mapping[str, Axis], design: str, samples: int | None, seed: int) -> list[dict[str, Any]]:
    """The points of the design, each with a value for every axis. In a grid, the last axis varies fastest."""
    if design == "grid":
        lists: dict[str, Sequence[Any]] = {}
        for name, axis in axes.items():
            if isinstance(axis, Range):
                raise bad_input(f"{name} is {axis} in a grid", "expected a list, or design='random' or 'sobol'")
            lists[name] = axis
        if samples is not None:
            raise bad_input("samples in a grid", "expected design='random' or 'sobol' with samples")
        return [dict(zip(lists, values)) for values in itertools.product(*lists.values())]
    if design not in _DESIGNS:
        raise bad_input(f"design is {design!r}", "expected 'grid', 'random' or 'sobol'", design, _DESIGNS)
    if samples is None:
        raise bad_input(f"design {design!r} without samples", "expected samples=N, the number of points")
    # Do not draw values of a dimension that has only one value.
    free = [name for name, axis in axes.items() if isinstance(axis, Range) or len(axis) > 1]
    parts = _parts(design, whole("samples", samples), len(free), seed_of(seed))
    return [
        {name: _chosen(axis, row[free.index(name)] if name in free else 0.0) for name, axis in axes.items()}
        for row in parts
    ]


def _parts(design: str, samples: int, dimensions: int, seed: int) -> list[list[float]]:
    import numpy
    from scipy.stats import qmc

    if dimensions == 0:
        return [[] for _ in range(samples)]
    if design == "random":
        rows = numpy.random.Generator(numpy.random.PCG64(seed)).random((samples, dimensions))
        return [list(map(float, row)) for row in rows]
    sobol = qmc.Sobol(dimensions, scramble=True, rng=numpy.random.Generator(numpy.random.PCG64(seed)))
    # The sequence is balanced in powers of two, so draw a power of two and keep the first
    # `samples`.
    rows = sobol.random_base2(math.ceil(math.log2(samples)))[:samples]
    return [list(map(float, row)) for row in rows]


def _chosen(axis: Axis, part: float) -> Any:
    if isinstance(axis, Range):
        return axis.at(part)
    return axis[min(int(part * len(axis)), len(axis) - 1)]
