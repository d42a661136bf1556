"""Judge transformers' own steps, in float32 and bfloat16, by the calibrations of the golden fixtures.

    independent.py CPEQ FIXTURE...

Prints rows as rates.h says, with eager, sdpa or autocast as the source: autocast is the float32 model with sdpa under
torch.autocast(bfloat16), judged as bfloat16.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import steps
from cpeq import Fixture

WAYS = (("eager", "eager", "float32"), ("sdpa", "sdpa", "float32"), ("eager", "eager", "bfloat16"),
        ("sdpa", "sdpa", "bfloat16"), ("autocast", "sdpa", "bfloat16"))
FACTOR = 1.5  # of the limits: CP_LIMIT_FACTOR


def judged(cpeq, fixture, dump):
    return json.loads(subprocess.run([cpeq, "diff", "--json", fixture.path, dump], check=False,
                                     stdout=subprocess.PIPE).stdout)


def outcome_of(report):
    too_blind = report["verdict"] == "not comparable" and all(t["verdict"] == "same" for t in report["tensors"])
    return "blind" if too_blind else report["verdict"]


def rows(cpeq, path, source, attention, dtype, folder):
    """One step's rows; none where transformers cannot be asked for it."""
    fixture = Fixture(path)
    if steps.why_not(fixture, attention):
        return
    dump = folder / "dump.h5"
    flips = steps.run(fixture, attention, dtype, dump, autocast=source == "autocast")
    report = judged(cpeq, fixture, dump)
    outcome = outcome_of(report)
    if flips and outcome == "different":
        outcome = "other experts"
    family = fixture.config["model_type"]
    yield ("pair", source, dtype, family, "-", "-", "-", 1, 0, 0, outcome, len(report["tensors"]))
    if outcome == "other experts":
        return
    for tensor in report["tensors"]:
        if not tensor["blind"] and tensor["numbers_speak"]:
            yield ("tensor", source, dtype, tensor["name"], f"{float(tensor['of_limit']) * FACTOR:.4g}")


def main():
    cpeq, *fixtures = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        for path in fixtures:
            for source, attention, dtype in WAYS:
                for row in rows(cpeq, path, source, attention, dtype, pathlib.Path(folder)):
                    print(*row, sep="\t", flush=True)


if __name__ == "__main__":
    main()
