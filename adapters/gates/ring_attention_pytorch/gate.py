"""Judge ring-attention-pytorch's attention: every case, every recipe, against what is expected of it.

    gate.py CPEQ [--fixtures DIR] [--dumps DIR] [--update]
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from frame import cases  # noqa: E402: its folder is not on the path before

PLAN = (
    ("given", (2,), ("full12", "both_ways12")),
    ("ring", (2, 4), ("full12", "both_ways*", "heads13", "left12", "softcap12", "window16")),
    ("buckets", (2,), ("full12", "heads13")),
    ("striped", (2, 4), ("full12", "both_ways_right12", "heads13")),
    ("zigzag", (2, 4), ("full12", "both_ways_right12", "chunk16", "heads13", "packed16", "window_packed16")),
)
NO_LSE = "[od]*"  # it gives no log-sum-exp: out, dq, dk and dv are judged

if __name__ == "__main__":
    sys.exit(cases.main(HERE, PLAN, "attention", __doc__.splitlines()[0], NO_LSE))
