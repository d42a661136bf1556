"""Hold cpeq's float32 and bfloat16 runs against transformers' own: are both equally far from the float64 truth?

    gate.py CPEQ [--all] [--fixtures DIR] [--dumps DIR] [--update]

Runs one batch of every golden model, with --all every golden fixture. Exit status 0 if in each precision and attention
nine tensors of ten have errors of the same size, and everything in expected.json was compared.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass

import numpy as np

import errors
import steps
from cpeq import Fixture

HERE = pathlib.Path(__file__).resolve().parent
EXPECTED = HERE / "expected.json"
USUAL = ("packed16", "full7")
INSTEAD = {"gpt_oss": "left7"}  # transformers does not isolate its documents; in full7 an expert is a close call
ATTENTIONS = ("eager", "sdpa")
SHARE = 0.9


@dataclass(frozen=True)
class Case:
    """One fixture, in one precision, against one of transformers' attentions."""

    family: str
    batch: str
    dtype: str
    attention: str

    @property
    def key(self):
        return f"{self.dtype} {self.attention} {self.family}"

    def dump(self, folder, who):
        return folder / who / self.dtype / self.family / f"{self.batch}.h5"


def chosen(fixtures, every):
    """The paths of all fixtures, or of one a model."""
    if every:
        return sorted(fixtures.glob("*/*.h5"))
    paths = []
    for folder in sorted(fixtures.iterdir()):
        batches = [INSTEAD[folder.name]] if folder.name in INSTEAD else USUAL
        candidates = [folder / f"{batch}.h5" for batch in batches] + sorted(folder.glob("*.h5"))
        paths.append(next(path for path in candidates if path.exists()))
    return paths


def own_run(cpeq, fixture, case, dumps):
    """The errors of cpeq's run of the same fixture in the same precision."""
    path = case.dump(dumps, "cpeq")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([cpeq, "run", "--quiet", fixture.path, "-o", path, "--dtype", case.dtype], check=True)
    return errors.read(path)


def compare(cpeq, fixture, case, dumps):
    """(ratios, "") or (None, why not)."""
    reason = steps.why_not(fixture, case.attention)
    if reason:
        return None, reason
    path = case.dump(dumps, f"transformers-{case.attention}")
    flips = steps.run(fixture, case.attention, case.dtype, path)
    if flips:
        return None, f"{flips} tokens choose other experts than in float64"
    truth, mask = errors.results(fixture.expected), errors.real(fixture)
    ours = errors.norms(own_run(cpeq, fixture, case, dumps), truth, mask)
    return errors.ratios(ours, errors.norms(errors.read(path), truth, mask)), ""


def grouped(found, key):
    groups = {}
    for case, values in found.items():
        groups.setdefault(key(case), []).extend(values)
    return groups


def table(found, skipped):
    """Print one line a group; return what expected.json says of it."""
    lines = {}
    for key, values in sorted(grouped(found, lambda case: case.key).items()):
        dtype, attention, family = key.split()
        lines[key] = [len(values), round(float(np.median(values)), 2)]
        print(f"{dtype:9} {attention:6} {family:20} {len(values):5} tensors  same size {errors.share(values):6.1%}"
              f"  median ratio {np.median(values):5.2f}")
    for reason, cases in sorted(grouped({case: [case] for case in skipped}, lambda case: skipped[case]).items()):
        names = sorted({f"{case.family}/{case.batch}" for case in cases})
        print(f"not compared, {reason}: {', '.join(names)}")
    return lines


def complaints(found, expected):
    groups = grouped(found, lambda case: f"{case.dtype} {case.attention}")
    said = [f"{key}: errors of the same size in {errors.share(values):.1%} of {len(values)} tensors,"
            f" expected {SHARE:.0%}" for key, values in groups.items() if not errors.share(values) >= SHARE]
    run = {f"{case.dtype} {case.attention} {case.family}" for case in found}
    said += [f"{key}: expected {count} tensors, found none" for key, (count, _) in expected.items() if key not in run]
    return said if groups else ["nothing was compared"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cpeq", help="the cpeq binary")
    parser.add_argument("--all", action="store_true", help="every golden fixture")
    parser.add_argument("--fixtures", type=pathlib.Path, default=HERE.parents[2] / "fixtures" / "golden")
    parser.add_argument("--dumps", type=pathlib.Path, help="keep the dumps in this folder")
    parser.add_argument("--update", action="store_true", help="write expected.json from what was found")
    options = parser.parse_args()
    found, skipped = {}, {}
    with tempfile.TemporaryDirectory() as temporary:
        dumps = options.dumps or pathlib.Path(temporary)
        for path in chosen(options.fixtures.resolve(), options.all):
            fixture = Fixture(path)
            for case in (Case(path.parent.name, path.stem, dtype, attention)
                         for dtype in steps.DTYPES for attention in ATTENTIONS):
                ratios, reason = compare(options.cpeq, fixture, case, dumps.resolve())
                if ratios is None:
                    skipped[case] = reason
                else:
                    found[case] = ratios
    lines = table(found, skipped)
    if options.update:
        EXPECTED.write_text("{\n" + ",\n".join(f" {json.dumps(key)}: {json.dumps(line)}" for key, line in lines.items())
                            + "\n}\n")
    said = complaints(found, json.loads(EXPECTED.read_text()))
    for sentence in said:
        print(f"NOT AS EXPECTED: {sentence}", file=sys.stderr)
    for key, values in sorted(grouped(found, lambda case: f"{case.dtype} {case.attention}").items()):
        print(f"{key}: {len(values)} tensors, {errors.share(values):.1%} with errors of the same size,"
              f" median ratio {np.median(values):.2f}")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
