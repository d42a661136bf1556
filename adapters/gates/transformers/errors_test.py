"""What counts as an error of the same size, and what fails the gate."""

import unittest

import numpy as np

import errors
import gate


def tensors(loss=1.0, logits=((1.0, 2.0), (3.0, 4.0)), gradient=(1.0, 1.0)):
    return {"loss": np.array(loss), "logits": np.array([logits]), "grads/w": np.array(gradient)}


class Errors(unittest.TestCase):
    def test_padding_does_not_count(self):
        mask = np.array([[True, False]])
        found = errors.norms(tensors(logits=((1.0, 2.0), (9.0, 4.0))), tensors(), mask)
        self.assertEqual(found, {"loss": 0, "logits": 0, "grads/w": 0})
        found = errors.norms(tensors(logits=((1.0, 5.0), (9.0, 4.0)), gradient=(1.0, 3.0)), tensors(), mask)
        self.assertEqual(found, {"loss": 0, "logits": 3, "grads/w": 2})

    def test_a_missing_tensor_is_not_skipped(self):
        short = tensors()
        del short["grads/w"]
        with self.assertRaisesRegex(ValueError, "tensors differ: grads/w"):
            errors.norms(short, tensors(), np.ones((1, 2), bool))

    def test_ratios(self):
        theirs = dict(enumerate((1.0, 1.0, 1.0, 0.0, 0.0, np.nan)))
        ours = dict(enumerate((0.5, 2.0, 2.1, 0.0, 1e-9, 1.0)))
        found = errors.ratios(ours, theirs)
        self.assertEqual(found, [0.5, 2.0, 2.1, 1.0, np.inf, np.inf])
        self.assertEqual(errors.share(found), 0.5)
        self.assertEqual(errors.share([]), 0.0)


class Gate(unittest.TestCase):
    def case(self, dtype="bfloat16", attention="eager", family="llama"):
        return gate.Case(family, "full7", dtype, attention)

    def test_nine_of_ten(self):
        self.assertEqual(gate.complaints({self.case(): [1.0] * 9 + [3.0]}, {}), [])
        self.assertIn("bfloat16 eager", gate.complaints({self.case(): [1.0] * 8 + [3.0] * 2}, {})[0])

    def test_each_dtype_by_itself(self):
        found = {self.case("float32"): [1.0] * 90, self.case("bfloat16"): [3.0] * 5 + [1.0] * 5}
        self.assertEqual(len(gate.complaints(found, {})), 1)

    def test_a_case_that_stopped_running(self):
        self.assertEqual(gate.complaints({self.case(): [1.0]}, {"bfloat16 eager gemma2": [10, 1.0]}),
                         ["bfloat16 eager gemma2: expected 10 tensors, found none"])

    def test_nothing_ran(self):
        self.assertEqual(gate.complaints({}, {}), ["nothing was compared"])


if __name__ == "__main__":
    unittest.main()
