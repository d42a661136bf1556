"""docs/error-rates.md from the rows of rates.h.

    report.py TITLE=TEXT... ROWS...

Each TITLE=TEXT is a line of where the numbers come from. Exit status 1 if a clean run was judged different.
"""

import collections
import math
import re
import sys
from dataclasses import dataclass, field

FACTORS = (1.1, 1.25, 1.5, 2.0)
FACTOR = 1.5
DTYPES = ("float64", "float32", "bfloat16")
# Decisions about the precision of a sum: what they change is rounding, and may be below the noise of a dtype.
ROUNDING = ("accumulate_dtype", "grad_reduce_dtype")
SIZES = ((0.2, "a fifth of a norm or more"), (0.05, "a twentieth to a fifth"), (0.01, "a hundredth to a twentieth"), (0.0, "less"))
KINDS = (("token_loss", r"^token_loss$"), ("loss", r"^loss$"), ("logits", r"^logits$"), ("inputs_embeds", r"inputs_embeds"),
         ("embeddings", r"embed_tokens"), ("output projection", r"lm_head"), ("sinks", r"sinks"),
         ("router", r"router|mlp\.gate\."), ("biases", r"bias"), ("norms", r"norm"), ("q", r"q_proj"), ("k", r"k_proj"),
         ("v", r"v_proj"), ("o", r"o_proj"), ("experts", r"experts"), ("feed-forward", r"mlp"), ("traces", r"^trace"))


def kind_of(name):
    return next((kind for kind, pattern in KINDS if re.search(pattern, name)), "other")


# ---- statistics ----

def binomial_tail(most, count, chance):
    """P(X <= most) of a binomial distribution."""
    if chance <= 0:
        return 1.0
    if chance >= 1:
        return 1.0 if most >= count else 0.0
    whole = math.lgamma(count + 1)
    terms = (math.exp(whole - math.lgamma(k + 1) - math.lgamma(count - k + 1) + k * math.log(chance)
                      + (count - k) * math.log1p(-chance)) for k in range(most + 1))
    return min(1.0, math.fsum(terms))


def clopper_pearson(hits, count, confidence=0.95):
    """The interval of chances that hits of count do not rule out."""
    def root(holds):
        low, high = 0.0, 1.0
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if holds(middle) else (low, middle)
        return (low + high) / 2

    alpha = (1 - confidence) / 2
    lower = 0.0 if hits == 0 else root(lambda chance: 1 - binomial_tail(hits - 1, count, chance) < alpha)
    upper = 1.0 if hits == count else root(lambda chance: binomial_tail(hits, count, chance) > alpha)
    return lower, upper


def quantile(values, share):
    """The smallest value that is not below a share of all; nan of none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan


# ---- rows ----

@dataclass
class Pair:
    """A clean run and its calibration, with what was measured of each tensor."""

    source: str
    dtype: str
    family: str
    exchange: str
    layout: str
    form: str
    ranks: str
    groups: str
    micros: str
    outcome: str
    tensors: list = field(default_factory=list)

    @property
    def largest(self):
        return max((measured for _, measured in self.tensors), default=0.0)

    @property
    def judged(self):
        return self.outcome in ("same", "different", "not comparable")


@dataclass(frozen=True)
class Fault:
    """A wrong run, judged."""

    decision: str
    value: str
    fixture: str
    ranks: str
    exchange: str
    layout: str
    difference: float
    dtype: str
    outcome: str
    excess: float

    @property
    def key(self):
        return f"{self.decision}={self.value}"

    @property
    def structural(self):
        return self.decision not in ROUNDING


Power = collections.namedtuple("Power", "dtype name fixture factor share part")


def read(paths):
    pairs, faults, powers = [], [], []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for line in file:
                kind, *row = line.rstrip("\n").split("\t")
                if not line.endswith("\n"):
                    raise ValueError(f"{path}: expected whole lines, found that it ends in {line!r}")
                if kind == "pair":
                    pairs.append(Pair(*row[:-1]))
                elif kind == "tensor":
                    pairs[-1].tensors.append((row[2], float(row[3])))
                elif kind == "fault":
                    faults.append(Fault(*row[:6], float(row[6]), *row[7:9], float(row[9])))
                elif kind == "power":
                    powers.append(Power(*row[:3], *map(float, row[3:])))
                else:
                    raise ValueError(f"{path}: expected a row of rates.h, found {line!r}")
    return pairs, faults, powers


# ---- tables ----

def table(head, rows):
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"] + [f"| {' | '.join(map(str, row))} |" for row in rows] + [""]


def percent(share):
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.3g} %"


def bound(hits, count):
    return f"{percent(hits / count)} (at most {percent(clopper_pearson(hits, count)[1])})" if count else "-"


def grouped(items, key):
    groups = collections.defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups


def counts_of(pairs, name):
    counted = collections.Counter(getattr(pair, name) for pair in pairs)
    order = sorted(counted, key=lambda value: (int(value) if value.isdigit() else 0, value))
    return ", ".join(f"{value} {counted[value]}" for value in order)


def alarm_table(groups):
    """A row for each group of pairs."""
    rows = []
    for key, pairs in groups:
        judged = [pair for pair in pairs if pair.judged]
        alarms = sum(pair.outcome != "same" for pair in judged)
        tally = collections.Counter(pair.outcome for pair in pairs)
        others = ", ".join(f"{count} {outcome}" for outcome, count in sorted(tally.items())
                           if outcome not in ("same", "different", "not comparable"))
        rows.append((key, len(judged), sum(len(pair.tensors) for pair in judged), alarms, bound(alarms, len(judged)),
                     *(sum(pair.largest > factor for pair in judged) for factor in FACTORS),
                     f"{max((pair.largest for pair in judged), default=0):.2f}", others or "-"))
    return table(("runs of", "judged", "tensors", "alarms", "rate", *(f"over {factor}" for factor in FACTORS), "largest",
                  "not judged"), rows)


def own_runs(pairs):
    own = [pair for pair in pairs if pair.source == "cpeq"]
    drawn = [pair for pair in own if pair.judged]
    lines = ["## False alarms: cpeq's own runs", "",
             "A model of a family, its sizes and options, weights, a batch and a way to run it are drawn from a seed; the unsharded float64 run is the truth. It is calibrated as shipped fixtures"
             " are, and one clean run, which is no replicate, is judged by that: every line is about as many (fixture, calibration) pairs as it counts runs. *over f*: runs"
             " that would have been alarms with the factor f in the place of the limits' own, 1.5. *largest*: of any tensor's error, over the largest of the replicates.", ""]
    lines += alarm_table((dtype, [pair for pair in own if pair.dtype == dtype]) for dtype in DTYPES)
    lines += ["*blind*: too many tensors have limits of more than a fifth of their norm, and the judge refuses; *uncalibrated*: experts tip in some replicate, so that values are missing"
              " or zero where they must not be, and `cpeq calibrate` refuses. float64 is judged by the limits of float32, scaled.", "", "What was drawn and judged:", ""]
    lines += table(("", "runs"), [(title, counts_of(drawn, name)) for title, name in
                                  (("exchange", "exchange"), ("layout", "layout"), ("attention", "form"), ("ranks", "ranks"),
                                   ("data-parallel groups (0: none asked for)", "groups"), ("micro-batches", "micros"), ("family", "family"), ("dtype", "dtype"))])
    lines += ["Errors over the largest of the replicates, by kind of tensor:", ""]
    rows = []
    for kind in dict.fromkeys([kind for kind, _ in KINDS] + ["other"]):
        row = [kind]
        for dtype in DTYPES[1:]:
            values = [measured for pair in drawn if pair.dtype == dtype for name, measured in pair.tensors
                      if kind_of(name.removeprefix("grads/")) == kind]
            row += [len(values), *(f"{quantile(values, share):.2f}" for share in (0.5, 0.99, 1))]
        if row[1] + row[5] > 0:
            rows.append(row)
    return lines + table(("tensor", "float32", "median", "99 %", "largest", "bfloat16", "median", "99 %", "largest"), rows)


def independent_runs(pairs):
    others = [pair for pair in pairs if pair.source != "cpeq"]
    if not others:
        return []
    groups = grouped(others, lambda pair: f"{pair.source}, {pair.dtype}")
    lines = ["## False alarms: runs of independent code", "",
             "transformers' own steps of the golden fixtures, judged by the calibrations that these ship with. autocast: the float32 model under `torch.autocast` to bfloat16.", ""]
    lines += alarm_table([*sorted(groups.items()), ("all", others)])
    return lines + ["*other experts*: rounding chose other experts for some token than in float64, the run is another function from there on, and the judge said different.", ""]


def verdict_rows(faults, key):
    rows = []
    for name, group in grouped(faults, key).items():
        seen = [fault for fault in group if fault.outcome != "blind"]
        missed = sum(fault.outcome == "same" for fault in seen)
        rows.append((name, len(seen), len(seen) - missed, missed, bound(missed, len(seen)), len(group) - len(seen)))
    return rows


def misses(faults):
    lines = ["## Misses", "",
             "Every wrong value of [every decision](decisions.md), on golden fixtures, ranks, exchanges and layouts, until a number of runs has shown it in float64: a tensor is off by more than"
             " 1e-9 of its norm. Each of these runs again in each dtype, and judged by the fixture's calibration. *precision*: decisions about the precision of a sum"
             f" ({', '.join(f'`{name}`' for name in ROUNDING)}), which change rounding and nothing else; *structural*: all others.", ""]
    order = {dtype: n for n, dtype in enumerate(DTYPES)}
    faults = sorted(faults, key=lambda fault: order[fault.dtype])
    lines += table(("", "wrong runs", "caught", "missed", "miss rate", "blind fixture: refused"),
                   verdict_rows([fault for fault in faults if fault.structural], lambda fault: f"structural, {fault.dtype}")
                   + verdict_rows([fault for fault in faults if not fault.structural], lambda fault: f"precision, {fault.dtype}"))
    lines += ["The structural ones in bfloat16, by how large they are in float64 (of the norm of the tensor that shows them most). A limit above a fifth of a norm counts as blind, so that is what every"
              " fixture which is judged must show:", ""]
    lines += table(("difference", "wrong runs", "caught", "missed", "miss rate", "blind fixture: refused"),
                   verdict_rows(sorted((fault for fault in faults if fault.structural and fault.dtype == "bfloat16"), key=lambda fault: -fault.difference),
                                lambda fault: next(name for least, name in SIZES if fault.difference >= least)))
    missed = grouped([fault for fault in faults if fault.outcome == "same"], lambda fault: (fault.key, fault.dtype))
    if not missed:
        return lines
    everything = collections.Counter((fault.key, fault.dtype) for fault in faults if fault.outcome != "blind")
    lines += ["What was missed, how large it is in float64 (of the norm of the tensor that shows it most), and how near it came to a limit:", ""]
    return lines + table(("wrong value", "dtype", "missed", "of", "difference in float64", "of the limit, at most", "such as"),
                         [(f"`{key}`", dtype, len(group), everything[key, dtype],
                           f"{min(f.difference for f in group):.1e} … {max(f.difference for f in group):.1e}",
                           f"{max(f.excess for f in group):.2f}",
                           (lambda f: f"{f.fixture.removesuffix('.h5')}, cp {f.ranks}, {f.exchange}, {f.layout}")(max(group, key=lambda f: f.excess)))
                          for (key, dtype), group in sorted(missed.items())])


def power(powers):
    lines = ["## Power", "",
             "What is caught of one wrong gradient, all else being right, in 95 % of the golden fixtures that are not blind in that dtype: the smallest e of a factor 1 + e, and the smallest share"
             " of the contribution of one of two ranks that is lost. *whole*: how often even losing all of it is not seen.", ""]
    rows = []
    for kind in [kind for kind, _ in KINDS if any(kind_of(row.name.removeprefix("grads/")) == kind for row in powers)]:
        row = [kind]
        for dtype in DTYPES:
            own = [p for p in powers if p.dtype == dtype and kind_of(p.name.removeprefix("grads/")) == kind]
            lost = [p for p in own if p.part > 0]
            row += [len(own), number(quantile([p.factor for p in own], 0.95)), number(quantile([p.share for p in lost], 0.95)),
                    percent(sum(p.share == math.inf for p in lost) / len(lost)) if lost else "-"]
        rows.append(row)
    return lines + table(("gradient of", *(title for dtype in DTYPES for title in (dtype, "factor", "share", "whole"))), rows)


def number(value):
    return "more than all" if value == math.inf else f"{value:.1e}" if value < 0.001 else f"{value:.2g}"


def conclusion(pairs, faults):
    judged = [pair for pair in pairs if pair.judged and pair.dtype != "float64"]
    own = [pair for pair in judged if pair.source == "cpeq"]
    others = [pair for pair in judged if pair.source != "cpeq"]
    alarms = sum(pair.outcome != "same" for pair in pairs if pair.judged)
    lines = ["## What the factor is", "",
             f"Limits are {FACTOR} times the largest error of the replicates. Of {len(own)} clean runs of cpeq in float32 and bfloat16 the worst came to"
             f" {max((pair.largest for pair in own), default=0):.2f} times it"
             + (f", of {len(others)} runs of transformers to {max(pair.largest for pair in others):.2f}" if others else "")
             + f"; judged different: {alarms}. With 1.1 it would have been {sum(pair.largest > 1.1 for pair in judged)},"
             f" with 1.25 {sum(pair.largest > 1.25 for pair in judged)}."]
    near = [fault for fault in faults if fault.structural and fault.outcome == "different" and fault.excess * FACTOR < 2 and fault.dtype == "bfloat16"]
    saved = [fault for fault in faults if fault.structural and fault.outcome == "same" and fault.excess * FACTOR > 1.1]
    return lines + [f"A factor of 2 would miss {len(near)} more structural faults in bfloat16; one of 1.1 would catch {len(saved)} that are missed.", ""]


def report(notes, pairs, faults, powers):
    lines = ["# Error rates", "", "How often the judge is wrong: counted, by `scripts/error-rates`, which wrote this page. Bounds are of Clopper and Pearson, two-sided, 95 %.", ""]
    lines += table(("", ""), [note.partition("=")[::2] for note in notes])
    lines += conclusion(pairs, faults) + own_runs(pairs) + independent_runs(pairs)
    return "\n".join(lines + (misses(faults) if faults else []) + (power(powers) if powers else [])).rstrip() + "\n"


def main():
    notes = [argument for argument in sys.argv[1:] if "=" in argument]
    try:
        pairs, faults, powers = read([argument for argument in sys.argv[1:] if "=" not in argument])
    except ValueError as error:
        print(f"report.py: {error}", file=sys.stderr)
        return 3
    sys.stdout.write(report(notes, pairs, faults, powers))
    return 1 if any(pair.judged and pair.outcome != "same" for pair in pairs) else 0


if __name__ == "__main__":
    sys.exit(main())
