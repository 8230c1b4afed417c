"""Claims of Härmä et al. 2024 that arithmetic judges: a thought experiment, parameter counts, the printed law."""

from __future__ import annotations

import math

import numpy as np

from capax.laws.ecm import ECM
from capax.laws.published import data
from capax.papers import evidence as ev
from capax.papers.harma2024_verdicts import model, task
from capax.papers.recipe import Evidence, Verdict
from capax.specs import Transformer


def hopfield(of: Evidence) -> Verdict:
    """Sequences by n / (2 ln n), n = 175 billion."""
    n = 175e9
    found = n / (2 * math.log(n))
    return ev.exactly(round(found / 1e9, 1) == 3.4, f"{found / 1e9:.3g} billion", "n / (2 ln n) at n = 175e9")


def hopfield_share(of: Evidence) -> Verdict:
    """500 billion tokens, as a share of the tokens of so many sequences of 2048."""
    n = 175e9
    share = 500e9 / (n / (2 * math.log(n)) * 2048)
    return ev.exactly(round(share, 2) == 0.07, f"{share:.1%}", "500e9 / (2048 n / (2 ln n))")


def hopfield_nodes(of: Evidence) -> Verdict:
    """The same with couplings for parameters: a network of n nodes has n²."""
    nodes = math.sqrt(175e9)
    found = nodes / (2 * math.log(nodes))
    return ev.exactly(
        found > 3e9,
        f"{found:.3g} sequences",
        f"175e9 parameters are the couplings of {nodes:.3g} nodes: the paper counts parameters as nodes",
    )


def parameters(of: Evidence) -> Verdict:
    """The formula against the tensors of every run; ours trains the positions, too."""
    wrong = []
    for run in of.runs:
        m, n = model(run), task(run).seq_len
        formula = m.n_layers * (8 * m.d_model**2 + 4 * m.d_head * m.n_heads * m.d_model + 7 * m.d_model) + m.d_model
        if run.parameters.trainable - (n - 1) * m.d_model != formula:
            wrong.append(f"{run.parameters.trainable} for {formula}")
    measured = f"{len(of.runs) - len(wrong)} of {len(of.runs)} networks"
    if wrong:
        return ev.exactly(False, measured, f"counted from the tensors, less positions: {', '.join(wrong[:3])}")
    return ev.exactly(True, measured, "counted from the tensors, less (N − 1)B of our trained positions")


def frozen(of: Evidence) -> Verdict:
    """Token table and read-out are all that is not trained."""
    right = [
        run.parameters.total - run.parameters.trainable == 2 * task(run).vocab_size * model(run).d_model
        for run in of.runs
    ]
    return ev.exactly(all(right), f"{sum(right)} of {len(right)} networks", "frozen numbers counted: 2·T·B")


def figure_11(of: Evidence) -> Verdict:
    """Table 1 at two million coefficients and 64 tokens, against the numbers of Fig. 11."""
    law, printed = ECM.published(), data("harma2024")["figure_11"]
    found = {}
    for heads in (2, 4):
        width = width_of(printed["parameters"], heads)
        slope = float(law.slope(np.array([float(printed["seq_len"])]), np.array([float(heads)]))[0])
        found[heads] = slope * width
    right = all(abs(found[heads] / printed["sequences"][str(heads)] - 1) < 0.1 for heads in (2, 4))
    return ev.exactly(right, f"{found[2]:.0f} and {found[4]:.0f}", "Table 1 with the network's parameters, within 10 %")


def width_of(parameters: int, n_heads: int) -> int:
    """The width of one layer with about so many trainable parameters (positions apart)."""

    def count(width: int) -> int:
        spec = Transformer(n_heads=n_heads, d_model=width, positions="frozen")
        return spec.parameter_counts(vocab_size=2, context=1)["trainable"]

    width = 1
    while count(width + 1) <= parameters:
        width += 1
    return min(width, width + 1, key=lambda near: abs(count(near) - parameters))


def two_layers(of: Evidence) -> Verdict:
    """Whether the printed row of two layers gives a capacity at all, at 64 tokens and one head."""
    slope = float(ECM.published(n_layers=2).slope(np.array([64.0]), np.array([1.0]))[0])
    return ev.exactly(slope > 0, f"{slope:.3g} sequences per channel", "the row as printed, at 64 tokens and one head")
