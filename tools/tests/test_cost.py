"""Tests of tools.cost: the parts to which chains of calls belong."""

import tempfile
import unittest
from pathlib import Path

from tools.cost import Measurement, op

SYMBOLS = """ffffffff80000000 T __schedule
ffffffff80001000 T __switch_to_asm
ffffffff80002000 T enqueue_task_scx
ffffffff80003000 T _raw_spin_lock
ffffffff80004000 T scx_bpf_kick_cpu
ffffffffc0000000 t bpf_prog_0123456789abcdef_mine_enqueue\t[bpf]
ffffffffc0001000 t bpf_prog_fedcba9876543210_place\t[bpf]
"""
# __schedule calls enqueue_task_scx, whose callback calls a function of its own, which calls a kfunc, which takes a
# lock.
CALLS = """0 0 0 0 500
1 0 ffffffff80000000 2 100
2 1 ffffffff80001000 2 10
3 2 ffffffff80001040 32 6
4 1 ffffffff80002000 2 40
5 4 ffffffff80003000 2 8
6 4 ffffffffc0000000 2 60
7 6 ffffffffc0001000 4 20
8 7 ffffffff80004000 2 12
9 8 ffffffff80003000 2 4
"""


class Chains(unittest.TestCase):
    def setUp(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "symbols.1").write_text(SYMBOLS)
            (Path(folder) / "calls.1").write_text(CALLS)
            self.of = Measurement(Path(folder), {"number": 1, "scheduler": "mine", "load": "pipe"})

    def test_switches_are_calls_and_not_jumps_within_a_function(self) -> None:
        self.assertEqual(self.of.switches, 2)

    def test_each_part_has_its_functions_and_what_these_call(self) -> None:
        self.assertEqual(self.of.sums("part"), {"outside": 0, "core": 50, "callbacks": 48, "sched_ext": 24, "switch": 8})

    def test_a_callback_has_its_own_code_and_that_of_kfuncs(self) -> None:
        self.assertEqual(self.of.kfuncs("enqueue"), {"": 40, "scx_bpf_kick_cpu": 8})
        self.assertEqual(self.of.callback_calls(), {"enqueue": 1})

    def test_locks_count_where_they_are_taken(self) -> None:
        self.assertEqual(self.of.locks(), 6)

    def test_a_callback_is_named_without_the_scheduler(self) -> None:
        self.assertEqual([op("mine_enqueue"), op("x_update_idle"), op("other")], ["enqueue", "update_idle", "other"])
