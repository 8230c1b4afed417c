"""Claims of Härmä et al. 2024 that arithmetic judges: a thought experiment, parameter counts, the printed law."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from capax.laws.ecm import ECM
from capax.literature import stated_by
from capax.papers.evidence import exactly, field, whatever
from capax.papers.recipe import Evidence, Verdict
from capax.specs import Transformer

NODES = 175e9


def hopfield(of: Evidence) -> Verdict:
    """Sequences by n / (2 ln n), n = 175 billion."""
    found = NODES / (2 * math.log(NODES))
    return exactly(round(found / 1e9, 1) == 3.4, f"{found / 1e9:.3g} billion", "n / (2 ln n) at n = 175e9")


def hopfield_share(of: Evidence) -> Verdict:
    """500 billion tokens, as a share of the tokens of so many sequences of 2048."""
    share = 500e9 / (NODES / (2 * math.log(NODES)) * 2048)
    return exactly(round(share, 2) == 0.07, f"{share:.1%}", "500e9 / (2048 n / (2 ln n))")


def hopfield_nodes(of: Evidence) -> Verdict:
    """The same with couplings for parameters: a network of n nodes has n²."""
    nodes = math.sqrt(NODES)
    found = nodes / (2 * math.log(nodes))
    return exactly(
        found > 3e9,
        f"{found:.3g} sequences",
        f"175e9 parameters are the couplings of {nodes:.3g} nodes: the paper counts parameters as nodes",
    )


def parameters(of: Evidence) -> Verdict:
    """The formula against the tensors of every run, less those of positions where they are trained."""
    wrong = []
    for run in of.runs:
        layers, heads, d_head, width, n = (
            field(run, name) for name in ("n_layers", "n_heads", "d_head", "d_model", "seq_len")
        )
        formula = layers * (8 * width**2 + 4 * d_head * heads * width + 7 * width) + width
        if run.parameters.trainable - (n - 1) * width * (field(run, "positions") == "trained") != formula:
            wrong.append(f"{run.parameters.trainable} for {formula}")
    measured = f"{len(of.runs) - len(wrong)} of {len(of.runs)} networks"
    if wrong:
        return exactly(False, measured, f"counted from the tensors, less positions: {', '.join(wrong[:3])}")
    return exactly(True, measured, "counted from the tensors, less (N − 1)B of positions where they are trained")


def frozen(of: Evidence) -> Verdict:
    """Token table and read-out, and positions where they are frozen, are all that is not trained."""
    right = [
        run.parameters.total - run.parameters.trainable
        == field(run, "d_model")
        * (2 * field(run, "vocab_size") + (field(run, "seq_len") - 1) * (field(run, "positions") == "frozen"))
        for run in of.runs
    ]
    what = "frozen numbers counted: 2·T·B, and (N − 1)B of positions where they are frozen"
    return exactly(all(right), f"{sum(right)} of {len(right)} networks", what)


COEFFICIENTS: Mapping[str, Callable[[int, int], float]] = {
    "as the network's tensors": lambda total, heads: width_of(total, heads),
    "as a B × B W_QK and W_V for each head": lambda total, heads: math.sqrt(total / (2 * heads)),
}
"""What a coefficient may be, which the paper does not define: the width of so many in so many heads."""


def figure_11(of: Evidence) -> Verdict:
    """Table 1 at two million coefficients and 64 tokens, against the numbers of Fig. 11."""
    law, printed = ECM.published(), stated_by("harma2024")["figure_11"]
    verdicts = {}
    for count, width in COEFFICIENTS.items():
        found = {
            heads: float(law.slope(np.array([float(printed["seq_len"])]), np.array([float(heads)]))[0])
            * width(printed["parameters"], heads)
            for heads in (2, 4)
        }
        near = all(abs(found[heads] / printed["sequences"][str(heads)] - 1) < 0.1 for heads in (2, 4))
        reason = f"Table 1 is {'within' if near else 'off by more than'} 10 %"
        verdicts[count] = exactly(near, f"{found[2]:.0f} and {found[4]:.0f}", reason)
    return whatever("what a coefficient is, which is not defined", verdicts)


def width_of(parameters: int, n_heads: int) -> int:
    """The width of one layer with about so many trainable parameters (positions apart)."""

    def distance(width: int) -> int:
        spec = Transformer(n_heads=n_heads, d_model=width, positions="frozen")
        return abs(spec.parameter_counts(vocab_size=2, context=1)["trainable"] - parameters)

    return min(range(1, math.isqrt(parameters) + 1), key=distance)


def two_layers(of: Evidence) -> Verdict:
    """Whether the printed row of two layers gives a capacity at all, at 64 tokens and one head."""
    slope = float(ECM.published(n_layers=2).slope(np.array([64.0]), np.array([1.0]))[0])
    return exactly(slope > 0, f"{slope:.3g} sequences per channel", "the row as printed, at 64 tokens and one head")
