import math
import pathlib
import subprocess
import sys
import tempfile
import unittest

import report

PAIR = "pair\tcpeq\tbfloat16\tllama\tring\tzigzag\tblock\t2\t0\t0\t{}\t1\n"
TENSOR = "tensor\tcpeq\tbfloat16\tgrads/model.norm.weight\t{}\n"
FAULT = "fault\tloss_count\tper_rank\tllama/full7\t2\tring\tzigzag\t0.5\tbfloat16\t{}\t{}\n"


def page(text):
    """(status, page) of these rows."""
    with tempfile.TemporaryDirectory() as folder:
        rows = pathlib.Path(folder) / "rows"
        rows.write_text(text)
        done = subprocess.run([sys.executable, report.__file__, "seed=1", rows], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout


class Statistics(unittest.TestCase):
    def test_bounds_are_the_published_ones(self):
        # no hits of n: 1 - (alpha / 2) ** (1 / n); 4 of 20 and 50 of 100 as tables have them
        self.assertAlmostEqual(report.clopper_pearson(0, 3000)[1], 1 - 0.025 ** (1 / 3000), places=9)
        for hits, count, low, high in ((4, 20, 0.0573, 0.4366), (50, 100, 0.3983, 0.6017), (20, 20, 0.8316, 1.0)):
            lower, upper = report.clopper_pearson(hits, count)
            self.assertAlmostEqual(lower, low, places=4)
            self.assertAlmostEqual(upper, high, places=4)

    def test_quantile(self):
        self.assertEqual([report.quantile([3, 1, 2, 4], share) for share in (0.25, 0.5, 0.95, 1)], [1, 2, 4, 4])
        self.assertTrue(math.isnan(report.quantile([], 0.5)))


class Page(unittest.TestCase):
    def test_clean_runs_pass(self):
        status, text = page(PAIR.format("same") + TENSOR.format(1.2) + PAIR.format("blind"))
        self.assertEqual(status, 0)
        self.assertIn("| bfloat16 | 1 | 1 | 0 | 0 % (at most 97.5 %) | 1 | 0 | 0 | 0 | 1.20 | 1 blind |", text)

    def test_an_alarm_fails(self):
        status, text = page(PAIR.format("different") + TENSOR.format(1.6))
        self.assertEqual(status, 1)
        self.assertIn("| bfloat16 | 1 | 1 | 1 | 100 % (at most 100 %) | 1 | 1 | 1 | 0 | 1.60 | - |", text)

    def test_a_miss_is_told(self):
        text = page(FAULT.format("different", 7) + FAULT.format("same", 0.9))[1]
        self.assertIn("| structural, bfloat16 | 2 | 1 | 1 | 50 %", text)
        self.assertIn("| `loss_count=per_rank` | bfloat16 | 1 | 2 | 5.0e-01 … 5.0e-01 | 0.90 | llama/full7, cp 2, ring, zigzag |", text)

    def test_half_a_row_is_refused(self):
        self.assertEqual(page(PAIR.format("same")[:-5]), (3, ""))


if __name__ == "__main__":
    unittest.main()
