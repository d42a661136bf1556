"""Judge ringmaster's context parallelism: every case, every recipe, against what is expected of it.

    gate.py CPEQ [--fixtures DIR] [--dumps DIR] [--update]
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from frame import cases  # noqa: E402: its folder is not on the path before

RINGS = ("llama/embeds7", "llama/full5", "llama/full7", "llama/long61", "llama/packed16", "llama_kv4/full7",
         "llama_kv4/packed7")
# recipe, world sizes, patterns of fixtures
PLAN = (
    ("ulysses", (2, 4), ("llama/*", "llama_kv4/*", "llama_h24/*", "llama_tied/*")),
    ("manager", (2,), ("llama/*",)),
    ("manager", (4,), ("llama_kv4/*",)),
    ("region", (2,), ("llama/*",)),
    ("region", (4,), ("llama_kv4/*",)),
    ("allgather", (2, 4), RINGS),
    ("p2p", (2, 4), RINGS),
    ("distflash", (2, 4), RINGS),
    ("zigzag", (2, 4), RINGS),
    ("usp", (4,), RINGS),
)

if __name__ == "__main__":
    sys.exit(cases.main(HERE, PLAN, "golden", __doc__.splitlines()[0]))
