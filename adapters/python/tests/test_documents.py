"""docs/quickstart.md shows what examples/quickstart has."""

import pathlib
import re
import unittest

TREE = pathlib.Path(__file__).parents[3]


class Quickstart(unittest.TestCase):
    def test_its_code_is_that_of_the_example(self):
        example = "".join((TREE / "examples" / "quickstart" / name).read_text() for name in ("steps.py", "test_cp.py"))
        blocks = re.findall(r"```python\n(.*?)```", (TREE / "docs" / "quickstart.md").read_text(), re.DOTALL)
        self.assertEqual(len(blocks), 2)
        for block in blocks:
            self.assertIn(block.strip(), example)

    def test_its_mistake_is_there_to_be_made(self):
        self.assertIn("dist.all_reduce(gradient)", (TREE / "examples" / "quickstart" / "steps.py").read_text())


if __name__ == "__main__":
    unittest.main()
