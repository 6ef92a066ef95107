import unittest

from tools import figures


class Figures(unittest.TestCase):
    def test_equal_values_share_their_ranks(self) -> None:
        self.assertEqual(figures.ranks([3, 1, 3, 2]), [3.5, 1, 3.5, 2])
        self.assertAlmostEqual(figures.rank_correlation([1, 2, 3, 4], [1, 3, 2, 4]), 0.8)
        self.assertEqual(figures.rank_correlation([1, 1], [1, 2]), 0)

    def test_rank_sum_test_needs_enough_values(self) -> None:
        # The smallest U is significant at 5 % with 4 values on each side, but not with 2 (tables of Mann and Whitney).
        self.assertTrue(figures.apart([1, 2, 3, 4], [5, 6, 7, 8]))
        self.assertFalse(figures.apart([1, 2], [3, 4]))
        self.assertFalse(figures.apart([1, 5, 3, 4], [2, 6, 7, 1]))

    def test_fit_finds_the_argument_of_a_nearly_linear_function(self) -> None:
        for target in (30.0, 500.0, 4000.0):
            found, error = figures.fit(lambda x: 20 + 3 * x + 0.001 * x * x, target, 1, 100)
            self.assertLess(abs(error), 0.005)
            self.assertLess(abs(20 + 3 * found + 0.001 * found * found - target), 0.005 * target)

    def test_fit_leaves_where_the_function_is_flat(self) -> None:
        found, error = figures.fit(lambda x: max(20, x), 500, 0.001, 0.003)
        self.assertLess(abs(error), 0.005)
        self.assertAlmostEqual(found, 500, delta=2.5)

    def test_fit_says_that_it_has_not_converged(self) -> None:
        _, error = figures.fit(lambda x: 20 if x < 50 else 40, 30, 1, 100)
        self.assertAlmostEqual(abs(error), 1 / 3)
        _, error = figures.fit(lambda x: 20 + x, 10, 1, 100)
        self.assertGreater(error, 0.5)

    def test_columns_of_numbers_are_on_the_right(self) -> None:
        shown = figures.columns([["load", "ms", "of"], ["pipe", 1.25, "x"], ["hackbench", None, "yy"], ["a", 1234567.0, "z"]])
        self.assertEqual(shown.splitlines(), ["load                ms  of", "pipe              1.25  x",
                                              "hackbench            -  yy", "a          1.23457e+06  z"])

    def test_a_page_has_a_rule_below_the_head(self) -> None:
        self.assertEqual(list(figures.markdown([["a", "b"], ["1", "2"]])), ["| a | b |", "| --- | --- |", "| 1 | 2 |"])
