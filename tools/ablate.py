"""Removes each rule of scheduler/equipoise, one at a time. Prints the measures of
tools.sensitivity's loads that get worse or better without the rule (paired runs; + is worse without
the rule), and how many more or fewer random cases miss the bars of `make properties`.

tests/mutating/rules has the rules, in the format of tools.mutants. A rule without an effect has no reason to be
there."""

from tools import mutants
from tools.command import PROJECT, positive, run_main
from tools.sensitivity import Judge


def main() -> None:
    options = mutants.options(__doc__, "rules")
    options.add_argument("--runs", type=positive, default=4, help="runs of each load (default: %(default)s)")
    args = options.parse_args()
    chosen = mutants.changes(PROJECT / "tests/mutating/rules", args.words)
    if args.list:
        print(*(rule.name for rule in chosen), sep="\n")
        return
    judge = Judge(args.runs)
    for rule in chosen:
        with mutants.changed(rule.file, rule.old, rule.new):
            print(f"{rule.name}: {', '.join(judge.all_differences()) or 'NOTHING'}", flush=True)


if __name__ == "__main__":
    run_main(main)
