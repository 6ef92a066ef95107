"""Statistics of measured figures, and the tables that show them. The command makes the verdicts on
simulated runs."""

import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from statistics import correlation, median

#: A cell of a table; a float has six digits.
Cell = str | int | float | None


def number(value: Cell) -> str:
    """A table's cell as text."""
    return "-" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def spread(values: Sequence[float]) -> str:
    """The median of the values, the smallest one, and the largest one."""
    return f"{median(values):.6g} ({min(values):.6g} to {max(values):.6g})"


def over(value: float, base: float | None) -> float | None:
    """The ratio of two values, or None if there is nothing to divide by."""
    return value / base if base else None


def ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value; equal values share the mean of their ranks."""
    return [sum(other < value for other in values) + (values.count(value) + 1) / 2 for value in values]


def rank_correlation(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Spearman's correlation of the ranks; 0 if all values of one side are equal."""
    return correlation(ranks(xs), ranks(ys)) if len(set(xs)) > 1 and len(set(ys)) > 1 else 0.0


def apart(xs: Sequence[float], ys: Sequence[float]) -> bool:
    """Do the values differ by Wilcoxon's rank-sum test (Mann and Whitney's U), two-sided at 5 %, in its normal
    approximation?"""
    m, n = len(xs), len(ys)
    u = sum((x < y) + (x == y) / 2 for x in xs for y in ys)
    return (u - m * n / 2) ** 2 > 1.96**2 * m * n * (m + n + 1) / 12


def fit(value: Callable[[float], float], target: float, low: float, high: float, within: float = 0.005,
        steps: int = 10) -> tuple[float, float]:
    """Searches the positive argument at which a nearly linear, rising function has the value
    `target`, by secants from `low` and `high`, and by factors of ten where the function does not
    rise. Returns the best argument that was tried, and the relative error of its value. The error
    is `within` or more if the search has not converged."""
    at_low = value(low)
    tried = []
    for _ in range(steps):
        at_high = value(high)
        error = at_high / target - 1
        tried.append((abs(error), high, error))
        if abs(error) < within:
            break
        rises = (at_high - at_low) * (high - low) > 0
        better = low + (target - at_low) * (high - low) / (at_high - at_low) if rises else 10 * high
        low, at_low, high = high, at_high, round(max(better, low / 10), 6)
    _, best, error = min(tried)
    return best, error


def columns(rows: Iterable[Sequence[Cell]]) -> str:
    """The rows as lines with aligned columns. The first row is the head, and columns of numbers are aligned on the
    right."""
    texts = [[number(cell) for cell in row] for row in rows]
    count = max(map(len, texts))
    of = [[row[column] for row in texts if column < len(row)] for column in range(count)]
    widths = [max(map(len, cells)) for cells in of]
    right = [all(re.fullmatch(r"-|[-+]?[\d.]+(e[-+]\d+)?( %)?", cell) for cell in cells[1:]) for cells in of]
    return "\n".join("  ".join(cell.rjust(width) if is_right else cell.ljust(width)
                               for cell, width, is_right in zip(row, widths, right)).rstrip() for row in texts)


def markdown(rows: Iterable[Sequence[str]]) -> Iterable[str]:
    """The lines of a Markdown table. The first row is the head."""
    head, *rest = rows
    return ("| " + " | ".join(row) + " |" if row else "|" + " --- |" * len(head) for row in chain([head, []], rest))


def prose(text: str, indent: str = "") -> str:
    """A paragraph of docs, in lines of 100 characters."""
    return textwrap.fill(text, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
