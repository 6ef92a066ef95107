"""Removes each rule of scheduler/equipoise, one at a time, and finds the measures of tools.sensitivity's loads that get
worse or better without the rule (paired runs; + is worse without the rule), and how many more random cases miss the bars
of `make properties`. Prints them, and writes them into the table of docs/design/rules.md.

tests/mutating/rules has the rules, in the format of tools.mutants; its remarks name other loads that show an effect. A
rule without an effect has no reason to be there."""

import re
from pathlib import Path

from tools import mutants
from tools.command import PROJECT, positive, run_main
from tools.mutants import Change
from tools.sensitivity import Judge

RULES = PROJECT / "tests/mutating/rules"
PAGE = PROJECT / "docs/design/rules.md"
HEADER = ["| without the rule | in the loads and cases of `make ablate` | elsewhere |", "| --- | --- | --- |"]
#: The number of measures in a cell of the table that get worse, and of those that get better.
MOST_WORSE, MOST_BETTER = 3, 1


def cell(differences: list[str], cases: list[str]) -> str:
    """The measures that change most, and the number of further cases that miss their bar."""
    worse = [of for of in differences if " +" in of]
    better = [of for of in reversed(differences) if " -" in of]
    shown = worse[:MOST_WORSE] + better[:MOST_BETTER]
    parts = [re.sub(r"^(\S+) (\S+) ", r"\1, `\2`: ", of) for of in shown]
    if len(differences) > len(shown):
        parts.append(f"{len(worse)} measures worse and {len(better)} better in all")
    sum_of_cases = sum(int(re.findall(r"([+-]\d+) cases", of)[0]) for of in cases)
    return "; ".join(parts + [f"{sum_of_cases:+d} cases"] * bool(cases)) or "none"


def row(rule: Change, measured: str) -> str:
    return f"| `{rule.file}`: {rule.what} | {measured} | {rule.remark} |"


def measured_in(page: str) -> dict[str, str]:
    """The second column of the table in `page`, by rule."""
    return {f"{of[1]}: {of[2]}": of[3] for of in re.finditer(r"^\| `(\S+)`: (.+?) \| (.*?) \|.*\|$", page, re.M)}


def table(page: str, rules: list[Change], measured: dict[str, str]) -> str:
    """`page` with a row for each of `rules`. A rule that is not in `measured` keeps what the page has."""
    known = measured_in(page) | measured
    rows = [row(rule, known.get(rule.name, "not measured")) for rule in rules]
    before, rest = page.split("\n".join(HEADER) + "\n")
    return before + "\n".join([*HEADER, *rows]) + rest[rest.index("\n\n"):]


def main() -> None:
    options = mutants.options(__doc__, "rules")
    options.add_argument("--runs", type=positive, default=4, help="runs of each load (default: %(default)s)")
    options.add_argument("--out", type=Path, default=PAGE, help="the page (default: docs/design/rules.md)")
    args = options.parse_args()
    chosen = mutants.changes(RULES, args.words)
    if args.list:
        print(*(rule.name for rule in chosen), sep="\n")
        return
    judge = Judge(args.runs)
    for rule in chosen:
        with mutants.changed(rule.file, rule.old, rule.new):
            differences, cases = judge.differences(), judge.case_differences()
        print(f"{rule.name}: {', '.join(differences + cases) or 'NOTHING'}", flush=True)
        args.out.write_text(table(args.out.read_text(), mutants.changes(RULES, []), {rule.name: cell(differences, cases)}))


if __name__ == "__main__":
    run_main(main)
