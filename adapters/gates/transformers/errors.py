"""How far two dumps are from the float64 truth, tensor by tensor, and whether both are equally far."""

import numpy as np

from cpeq.fixture import open_h5, read_tree

# Errors of the same size: the ratio of their Frobenius norms.
LEAST, MOST = 0.5, 2.0


def results(tree):
    """name -> float64 array of what is compared, from /expected or a dump."""
    flat = {name: tree[name] for name in ("loss", "token_loss", "logits")}
    flat |= {f"grads/{name}": gradient for name, gradient in tree["grads"].items()}
    return {name: np.asarray(values, np.float64) for name, values in flat.items()}


def read(path):
    with open_h5(path) as file:
        return results(read_tree(file))


def real(fixture):
    """Positions that count."""
    return np.asarray(fixture.batch.get("attention_mask", np.ones(fixture.shape)), bool)


def norms(actual, truth, mask):
    """name -> Frobenius norm of the error, at real positions where a tensor goes by position."""
    def judged(name, values):
        return values[mask] if name in ("token_loss", "logits") else values

    if actual.keys() != truth.keys():
        raise ValueError(f"tensors differ: {', '.join(sorted(actual.keys() ^ truth.keys()))}")
    return {name: float(np.linalg.norm(judged(name, actual[name] - truth[name]))) for name in truth}


def ratios(ours, theirs):
    """Ours by theirs; two errors of zero are the same, and not finite ones are infinitely apart."""
    def ratio(mine, other):
        if not np.isfinite(mine) or not np.isfinite(other):
            return np.inf
        if other == 0:
            return 1.0 if mine == 0 else np.inf
        return mine / other

    return [ratio(ours[name], theirs[name]) for name in theirs]


def share(values):
    """Of ratios that are of the same size."""
    return float(np.mean([LEAST <= value <= MOST for value in values])) if values else 0.0
