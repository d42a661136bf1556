"""A gate: every case, every recipe, against what is expected of it.

The gate's script names its plan; steps.py beside it runs one case (frame/ranks.py), expected.json holds the verdicts.
Exit status 0 if every verdict is the expected one, 1 if not. --update writes the verdicts found as the
expected ones; one that is not "same" then needs a finding, a word that the gate's README.md explains.
"""

import argparse
import json
import pathlib
import shutil
import sys
import tempfile
from dataclasses import dataclass

from frame import ranks, verdict

FIXTURES = pathlib.Path(__file__).resolve().parents[3] / "fixtures"


@dataclass(frozen=True)
class Case:
    """One fixture run by one recipe on size ranks; its dumps lie in a folder of their own."""

    recipe: str
    size: int
    name: str
    fixture: str
    dump: str

    @property
    def group(self):
        return f"{self.recipe} cp{self.size}"


def plan(recipes, fixtures, dumps):
    """The cases of recipes: (name, world sizes, patterns of fixtures below the folder) each."""
    cases = [Case(recipe, size, str(path.relative_to(fixtures).with_suffix("")), str(path),
                  str(dumps / f"{recipe}-cp{size}" / path.relative_to(fixtures).with_suffix("")))
             for recipe, sizes, patterns in recipes for size in sizes
             for pattern in patterns for path in sorted(fixtures.glob(f"{pattern}.h5"))]
    if not cases:
        raise SystemExit(f"{fixtures}: expected fixtures of the plan, found none")
    return cases


def run(cases):
    for size in sorted({case.size for case in cases}):
        ranks.run([case for case in cases if case.size == size], size)


def table(cases, verdicts, expected):
    """Print one line a case; return the keys of those whose verdict is not the expected one."""
    surprises = []
    for case in cases:
        line, worst = verdicts[case]
        known = expected.get(case.group, {}).get(case.name, {})
        word = line.partition(":")[0]
        note = known.get("finding", "") if word != "refused" else line.removeprefix("refused: ")
        print(f"{case.recipe:9}  cp{case.size}  {case.name:22}  {word:14}  {worst:58.58}  {note:.90}".rstrip())
        if line != known.get("verdict") or (word != "same" and not known.get("finding")):
            surprises.append((case, line, known.get("verdict", "nothing")))
    return surprises


def report(cases, verdicts, surprises, expected):
    for case, line, known in surprises:
        print(f"NOT AS EXPECTED: {case.group} {case.name}: expected {known}; found {line}", file=sys.stderr)
    absent = [f"{group} {name}" for group, names in expected.items() for name in names
              if not any((case.group, case.name) == (group, name) for case in cases)]
    for key in absent:
        print(f"NOT AS EXPECTED: {key}: expected a verdict; found no such case", file=sys.stderr)
    counts = {}
    for line, _ in verdicts.values():
        counts[line.partition(":")[0]] = counts.get(line.partition(":")[0], 0) + 1
    print(f"{len(cases)} cases: " + ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
          + f"; {len(surprises) + len(absent)} not as expected")
    return 1 if surprises or absent else 0


def update(path, cases, verdicts, expected):
    """Write the verdicts as expected ones; a finding stays where the verdict did."""
    groups = {}
    for case in cases:
        line, known = verdicts[case][0], expected.get(case.group, {}).get(case.name, {})
        entry = {"verdict": line}
        if line != "same":
            entry["finding"] = known.get("finding", "") if known.get("verdict") == line else ""
        groups.setdefault(case.group, {})[case.name] = entry
    lines = [f' {json.dumps(group)}: {{\n' + ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}"
                                                        for name, entry in names.items()) + "\n }"
             for group, names in groups.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main(here, recipes, kind, description, only=None):
    """Run the gate whose folder is here, with its plan, on the fixtures below the folder kind; judge the tensors of only."""
    path = here / "expected.json"
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("cpeq", help="the cpeq binary")
    parser.add_argument("--fixtures", type=pathlib.Path, default=FIXTURES / kind)
    parser.add_argument("--dumps", type=pathlib.Path, help="keep the dumps in this folder")
    parser.add_argument("--update", action="store_true", help="write expected.json from what was found")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        dumps = options.dumps or pathlib.Path(temporary)
        cases = plan(recipes, options.fixtures.resolve(), dumps.resolve())
        for case in cases:
            shutil.rmtree(case.dump, ignore_errors=True)
        run(cases)
        verdicts = {case: verdict.judge(options.cpeq, case, only) for case in cases}
    expected = json.loads(path.read_text()) if path.exists() else {}
    if options.update:
        update(path, cases, verdicts, expected)
        expected = json.loads(path.read_text())
    return report(cases, verdicts, table(cases, verdicts, expected), expected)
