"""What tools.matrix, field, bars, mutants and ablate make of the command's results and of the scheduler's sources."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path
from unittest.mock import patch

from tools import ablate, bars, command, field, matrix, mutants
from tools.command import Failed, Json


def cell(load: str, said: str, worse: float, **more: object) -> Json:
    return {"machine": "m", "load": load, "measure": "time", "points": False, "eevdf": 1.0, "equipoise": 2.0, "worse": worse,
            "margin": 1.0, "verdict": said, "energy": False} | more


class Matrix(unittest.TestCase):
    def test_cells(self) -> None:
        *lines, last = matrix.lines([
            cell("a", "better", -5), cell("a", "worse", 7), cell("b", "worse", 3), cell("c", "better", -1),
            cell("c", "worse", 9, energy=True), {"machine": "m", "load": "d", "error": "error: x"}])
        self.assertEqual([line.split()[1] for line in lines], ["b", "a", "d"])
        self.assertTrue(lines[1].endswith("+7.0 ± 1.0 %  (mixed)"))
        self.assertEqual(last, "3 cells: better 1, same 0, mixed 1, worse 1")

    def test_known_cells_are_not_measured_again(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "new/cells.jsonl"
            work = {("m", "a"): "a", ("m", "b"): "b"}
            for job in ([], ["b"]):
                found = command.measured(path, {key: of for key, of in work.items() if job or of == "a"}, 2,
                                         lambda of: [{"machine": "m", "load": of, "job": job}])
            self.assertEqual([of["job"] for of in found], [[], ["b"]])
            self.assertEqual(command.stored(path), found)

    def test_an_error_is_the_commands_message(self) -> None:
        with self.assertRaisesRegex(Failed, "error: --x is not json"):
            command.ask(Path("/bin/sh"), "-c", "echo noise >&2; echo 'error: --x is not json' >&2; exit 2")
        with self.assertRaisesRegex(Failed, "not done in 0 s"):
            command.ask(Path("/bin/sh"), "-c", "sleep 1", limit=0.01)


class Field(unittest.TestCase):
    def test_page(self) -> None:
        of: Json = {"machine": "tc2", "load": "pipe", "ratios": {"eevdf": 1, "equipoise": 0.5, "scx_x": 12.3},
                    "missed": {"eevdf": None, "equipoise": 0.25, "scx_x": None}, "best": ["equipoise"],
                    "sure": {"eevdf": False, "equipoise": True, "scx_x": False}, "failed": {}, "tells_apart": True}
        failed: Json = of | {"load": "mixed", "failed": {"scx_x": "it stalls"}}
        cells = [of, failed, {"machine": "tc2", "load": "schbench", "left_out": "not done in 9 s"}]
        page = list(field.page({"tc2": cells}, ["eevdf", "equipoise", "scx_x"], {"scx_x": "1.0"}, 5))
        for line in ("| `scx_x` 1.0 | 12 |", "| `equipoise` | **0.50 (0.2 %)** | **0.50 (0.2 %)** |  |",
                     "| `scx_x` | ~12 | fails |  |", "- `scx_x` under mixed: it stalls", "- schbench: not done in 9 s"):
            self.assertIn(line, page)


class Bars(unittest.TestCase):
    def test_best_of_several_policies_is_the_reference(self) -> None:
        row = bars.Row("r", "higher", None, {"equipoise": 95, "cfs": 90, "newidle-limit": 100})
        (bar,) = row.against("equipoise", ["cfs", "newidle-limit", "absent"], 1.01)
        self.assertEqual((bar.against, bar.ratio, bar.met), ("newidle-limit", 1.053, False))

    def test_all_tables_are_the_default(self) -> None:
        said = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, patch.object(bars, "OUT", Path(folder)), \
                patch.object(sys, "argv", ["bars", "--show"]), contextlib.redirect_stdout(said):
            bars.main()
        self.assertEqual(said.getvalue(), "no output in target/bars/\n")

    def test_table(self) -> None:
        entry = {"metric": "time", "policy": "equipoise", "mean": 10, "better": "lower", "limit": 10}
        head, line = bars.lines("mixed-capacity", bars.Results([{"name": "sysbench 1", "results": [entry]}]))
        self.assertEqual(head, ["mixed-capacity: 1 of 1 bars met"])
        self.assertEqual(line, ["  sysbench 1 threads", 10, "limit", 10, 1.0, "<= 1.006", "met"])


class Mutants(unittest.TestCase):
    def test_changes_fit_the_scheduler(self) -> None:
        with tempfile.TemporaryDirectory() as folder, patch.object(mutants, "PROJECT", Path(folder)):
            sources = Path(folder) / "scheduler/equipoise"
            sources.mkdir(parents=True)
            (sources / "a.h").write_text("if (a)\n\treturn 1;\n\nb();\nb();\n")
            listed = Path(folder) / "changes"
            listed.write_text("# Words: more words\na.h: never\n* seen\n* later\n- if (a)\n- \treturn 1;\n-\n+ ;\n\na.h: twice\n- b();\n+ c();\n")
            self.assertEqual(mutants.changes(listed, ["never"]), [mutants.Change("a.h", "never", "if (a)\n\treturn 1;\n", ";", "seen later")])
            with self.assertRaisesRegex(Failed, "changes: a.h: twice: its text occurs 2 times; expected once"):
                mutants.changes(listed, [])


class Ablate(unittest.TestCase):
    def test_page_has_the_rules_with_their_remarks(self) -> None:
        page, rules = ablate.PAGE.read_text(), mutants.changes(ablate.RULES, [])
        self.assertEqual(ablate.table(page, rules, {}), page)
        changed = ablate.measured_in(ablate.table(page, rules, {rules[0].name: "time +9 %"}))
        self.assertEqual(changed, ablate.measured_in(page) | {rules[0].name: "time +9 %"})

    def test_cell_has_the_largest_changes(self) -> None:
        self.assertEqual(ablate.cell([], []), "none")
        self.assertEqual(ablate.cell(["m pipe time +9.0 %", "m pipe x +2.0", "m pipe y -1.0", "m a z -7.0 %"], ["herd +4 cases", "mask -1 cases"]),
                         "m, `pipe`: time +9.0 %; m, `pipe`: x +2.0; m, `a`: z -7.0 %; 2 measures worse and 2 better in all; +3 cases")
