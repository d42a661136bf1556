"""Asking cpeq for a verdict, and putting it into one line that another difference would change."""

import json
import os
import subprocess

from ranks import OUTCOME

JUDGED = {0: "same", 1: "different", 2: "not comparable"}
ONE_FACTOR = 1e-9


def judge(cpeq, case):
    """(verdict line, worst tensor) of a case that ran or was refused."""
    with open(os.path.join(case.dump, OUTCOME)) as file:
        reason = json.load(file)
    if reason:
        return reason.replace(f"{case.dump}/", ""), ""
    found = subprocess.run([cpeq, "diff", "--json", case.fixture, case.dump], capture_output=True, text=True)
    if found.returncode not in JUDGED:
        raise RuntimeError(f"{cpeq} diff {case.fixture} {case.dump}: expected exit status 0, 1 or 2,"
                           f" found {found.returncode}: {found.stderr.strip()}")
    report = json.loads(found.stdout)
    return f"{JUDGED[found.returncode]}{describe(report)}", worst(report)


def describe(report):
    """What differs: the kinds of tensors, and one factor if it explains all gradients, else the worst gradient."""
    if report["verdict"] == "not comparable":
        return f": {'; '.join(report['failures'])}"
    wrong = [tensor for tensor in report["tensors"] if tensor["verdict"] != "same"]
    if not wrong:
        return ""
    kinds = list(dict.fromkeys(tensor["kind"] for tensor in wrong))
    gradients = [tensor for tensor in wrong if tensor["kind"] == "gradient"]
    factor = common_factor(gradients)
    if factor is not None:
        return f": {', '.join(kinds)}; every gradient x {factor:.6f}"
    largest = max((tensor["relative_error"] or 0.0) for tensor in wrong)
    return f": {', '.join(kinds)}; {len(wrong)} tensors, up to {largest:.2g} of the norm"


def common_factor(gradients):
    """The factor that all these gradients are off by, or None."""
    if not gradients or any(g["factor"] is None or abs(abs(g["cosine"]) - 1) > ONE_FACTOR for g in gradients):
        return None
    first = gradients[0]["factor"]
    return first if all(abs(g["factor"] - first) <= ONE_FACTOR * abs(first) for g in gradients) else None


def worst(report):
    return f"{report['worst_tensor']} {report['worst_gradient']:.1e}" if report.get("worst_tensor") else ""
