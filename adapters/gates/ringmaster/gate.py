"""Judge ringmaster's context parallelism: every case, every recipe, against what is expected of it.

    gate.py CPEQ [--fixtures DIR] [--dumps DIR] [--update]

Exit status 0 if every verdict is the expected one, 1 if not. --update writes the verdicts found as the
expected ones; one that is not "same" then needs a finding, a word that README.md explains.
"""

import argparse
import json
import pathlib
import shutil
import sys
import tempfile
from dataclasses import dataclass

import ranks
import verdict

HERE = pathlib.Path(__file__).resolve().parent
EXPECTED = HERE / "expected.json"
SIZES = (2, 4)
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


def plan(fixtures, dumps):
    cases = [Case(recipe, size, str(path.relative_to(fixtures).with_suffix("")), str(path),
                  str(dumps / f"{recipe}-cp{size}" / path.relative_to(fixtures).with_suffix("")))
             for recipe, sizes, patterns in PLAN for size in sizes
             for pattern in patterns for path in sorted(fixtures.glob(f"{pattern}.h5"))]
    if not cases:
        raise SystemExit(f"{fixtures}: expected golden fixtures of llama, found none")
    return cases


def run(cases):
    for size in SIZES:
        ranks.run([case for case in cases if case.size == size], size)


def table(cases, verdicts, expected):
    """Print one line a case; return the keys of those whose verdict is not the expected one."""
    width = max(len(f"{case.name} {case.group}") for case in cases)
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


def update(cases, verdicts, expected):
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
    EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cpeq", help="the cpeq binary")
    parser.add_argument("--fixtures", type=pathlib.Path, default=HERE.parents[2] / "fixtures" / "golden")
    parser.add_argument("--dumps", type=pathlib.Path, help="keep the dumps in this folder")
    parser.add_argument("--update", action="store_true", help="write expected.json from what was found")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        dumps = options.dumps or pathlib.Path(temporary)
        cases = plan(options.fixtures.resolve(), dumps.resolve())
        for case in cases:
            shutil.rmtree(case.dump, ignore_errors=True)
        run(cases)
        verdicts = {case: verdict.judge(options.cpeq, case) for case in cases}
    expected = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}
    if options.update:
        update(cases, verdicts, expected)
        expected = json.loads(EXPECTED.read_text())
    return report(cases, verdicts, table(cases, verdicts, expected), expected)


if __name__ == "__main__":
    sys.exit(main())
