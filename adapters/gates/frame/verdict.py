"""Asking cpeq for a verdict, and putting it into one line that another difference would change."""

import json
import os
import subprocess

from frame.ranks import OUTCOME

JUDGED = {0: "same", 1: "different", 2: "not comparable"}
ONE_FACTOR = 1e-9
ATTENTION = "attention output"


def judge(cpeq, case, only=None):
    """(verdict line, worst gradient) of a case that ran or was refused."""
    with open(os.path.join(case.dump, OUTCOME)) as file:
        reason = json.load(file)
    if reason:
        return reason.replace(f"{case.dump}/", ""), ""
    options = ["--json"] + ([f"--only={only}"] if only else [])
    found = subprocess.run([cpeq, "diff", *options, case.fixture, case.dump], capture_output=True, text=True)
    if found.returncode not in JUDGED:
        raise RuntimeError(f"{cpeq} diff {case.fixture} {case.dump}: expected exit status 0, 1 or 2,"
                           f" found {found.returncode}: {found.stderr.strip()}")
    report = json.loads(found.stdout)
    line = f"{JUDGED[found.returncode]}{describe(report)}".replace(f"{case.dump}/", "")
    return line, f"{report['worst_tensor'].removeprefix('grads/')} {float(report['gradients']):.1e}"


def describe(report):
    """What differs: the kinds of tensors, and one factor if it explains all gradients, else how many and how far.

    Of an attention function alone, which has few tensors, each that differs and how far.
    """
    if report["failures"]:
        return f": {'; '.join(report['failures'])}"
    wrong = [tensor for tensor in report["tensors"] if tensor["verdict"] != "same"]
    if not wrong:
        return ""
    if any(tensor["kind"] == ATTENTION for tensor in report["tensors"]):
        return ": " + ", ".join(f"{tensor['name']} {float(tensor['relative_error']):.1e}" for tensor in wrong)
    kinds = ", ".join(dict.fromkeys(tensor["kind"] for tensor in wrong))
    gradients = [tensor for tensor in wrong if tensor["kind"] == "gradient"]
    factor = common_factor(gradients)
    if factor is not None:
        return f": {kinds}; every gradient x {factor:.6f}"
    if any(tensor.get("nonfinite_actual") for tensor in wrong):
        return f": {kinds}; {sum(tensor['nonfinite_actual'] > 0 for tensor in wrong)} tensors not finite"
    largest = max(float(tensor["relative_error"]) for tensor in wrong)
    return f": {kinds}; {len(wrong)} tensors, up to {largest:.2g} of the norm"


def common_factor(gradients):
    """The factor that all these gradients are off by, or None."""
    factors = [float(gradient["factor"]) for gradient in gradients]
    aligned = all(abs(abs(float(gradient["cosine"])) - 1) <= ONE_FACTOR for gradient in gradients)
    equal = all(abs(factor - factors[0]) <= ONE_FACTOR * abs(factors[0]) for factor in factors)
    return factors[0] if factors and aligned and equal else None
