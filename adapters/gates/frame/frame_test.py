"""What the gate makes of a report and of a verdict that nobody expected."""

import contextlib
import io
import unittest

from frame import cases, verdict


def gradient(factor, cosine=1.0, error=0.5, nonfinite=0, kind="gradient"):
    return {"kind": kind, "verdict": "different", "factor": factor, "cosine": cosine, "relative_error": error,
            "nonfinite_actual": nonfinite}


def described(*tensors, failures=()):
    return verdict.describe({"failures": list(failures), "tensors": list(tensors)})


class Describing(unittest.TestCase):
    def test_nothing_wrong(self):
        self.assertEqual(described(gradient(1.0) | {"verdict": "same"}), "")

    def test_one_factor(self):
        self.assertEqual(described(gradient(0.5), gradient(0.5)), ": gradient; every gradient x 0.500000")

    def test_two_factors(self):
        self.assertEqual(described(gradient(0.5), gradient(0.25)), ": gradient; 2 tensors, up to 0.5 of the norm")

    def test_a_factor_that_does_not_explain_it(self):
        self.assertEqual(described(gradient(0.5, cosine=0.9)), ": gradient; 1 tensors, up to 0.5 of the norm")

    def test_a_nan_is_no_factor(self):
        self.assertEqual(described(gradient("nan", "nan", "inf", 3)), ": gradient; 1 tensors not finite")

    def test_kinds_in_the_order_of_the_report(self):
        self.assertEqual(described(gradient(2.0, kind="logits"), gradient(0.5)),
                         ": logits, gradient; every gradient x 0.500000")

    def test_each_tensor_of_an_attention_function(self):
        out, dq = gradient(1.0, error=6.4e-11, kind=verdict.ATTENTION), gradient(1.0)
        self.assertEqual(described(out | {"name": "out"}, dq | {"name": "dq"}), ": out 6.4e-11, dq 5.0e-01")

    def test_failures_come_first(self):
        self.assertEqual(described(gradient(1.0), failures=["rank 1 is missing"]), ": rank 1 is missing")


class Expecting(unittest.TestCase):
    CASE = cases.Case("ulysses", 2, "llama/full5", "", "")

    def status(self, line, known):
        expected = {"ulysses cp2": {"llama/full5": known}} if known else {}
        verdicts = {self.CASE: (line, "")}
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            surprises = cases.table([self.CASE], verdicts, expected)
            return cases.report([self.CASE], verdicts, surprises, expected)

    def test_as_expected(self):
        self.assertEqual(self.status("same", {"verdict": "same"}), 0)
        self.assertEqual(self.status("different: x", {"verdict": "different: x", "finding": "y"}), 0)

    def test_a_known_difference_that_became_another(self):
        self.assertEqual(self.status("different: z", {"verdict": "different: x", "finding": "y"}), 1)

    def test_a_known_difference_that_is_gone(self):
        self.assertEqual(self.status("same", {"verdict": "different: x", "finding": "y"}), 1)

    def test_a_difference_that_nobody_explained(self):
        self.assertEqual(self.status("different: x", {"verdict": "different: x", "finding": ""}), 1)

    def test_a_case_that_nobody_expected(self):
        self.assertEqual(self.status("same", None), 1)

    def test_an_expected_case_that_did_not_run(self):
        expected = {"ulysses cp2": {"llama/full5": {"verdict": "same"}, "llama/full7": {"verdict": "same"}}}
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(cases.report([self.CASE], {self.CASE: ("same", "")}, [], expected), 1)


if __name__ == "__main__":
    unittest.main()
