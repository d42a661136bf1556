"""docs/implementations.md says of every gate's cases what its expected.json says."""

import json
import pathlib
import unittest

GATES = pathlib.Path(__file__).resolve().parents[1]
DOCUMENT = GATES.parents[1] / "docs" / "implementations.md"
WORDS = ("same", "different", "not comparable", "refused")


def rows(expected):
    """The table's line of each recipe and world size."""
    for group, cases in expected.items():
        recipe, size = group.split()
        found = [case["verdict"].partition(":")[0] for case in cases.values()]
        findings = sorted({word for case in cases.values() for word in case.get("finding", "").split(", ") if word})
        counts = " | ".join(str(found.count(word) or "") for word in WORDS)
        yield f"| `{recipe}` | {size.removeprefix('cp')} | {counts} | {', '.join(findings)} |"


class Document(unittest.TestCase):
    def test_every_group_of_every_gate_is_there(self):
        lines = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("| `")]
        wanted = [row for gate in ("ringmaster", "ring_attention_pytorch")
                  for row in rows(json.loads((GATES / gate / "expected.json").read_text()))]
        self.assertEqual(lines, wanted)


if __name__ == "__main__":
    unittest.main()
