"""How symmetric each head's attention scores are: whether i scores j as j scores i."""

from __future__ import annotations

import math
from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from capax.models.transformer import TransformerEnsemble
from capax.results import Measurement, Result
from capax.seeds import torch_generator
from capax.specs import Transformer


class HeadSymmetry(Result):
    """η of one head; layers and heads count from 1."""

    layer: int
    head: int
    eta: Annotated[float | None, Field(description="Of W_Q W_Kᵀ; None where that is zero.")]
    initial: Annotated[
        float | None, Field(description="The same before training; None where the weights cannot be drawn again.")
    ]
    with_gains: Annotated[
        float | None,
        Field(description="Of diag(g) W_Q W_Kᵀ diag(g), g the gain of the norm before; None without one."),
    ]


class SymmetryProbe(Result):
    """Degree of symmetry η = Σ J_ij J_ji / Σ J_ij² of each head's J = W_Q W_Kᵀ: 1 symmetric, −1 antisymmetric."""

    heads: tuple[HeadSymmetry, ...]
    random: Annotated[float, Field(description="Expected of independent random W_Q and W_K: 1 / d_model.")]
    random_deviation: Annotated[float, Field(description="Its standard deviation, about √2 / d_model.")]


def degree_of_symmetry(matrix: Float[Tensor, "*batch c c"]) -> Float[Tensor, "*batch"]:
    """η = Σ J_ij J_ji / Σ J_ij²; nan for a zero matrix.

    The standard measure, after Krauth; as eq. 1 of Härmä et al. 2024 it is a reconstruction.

    A square matrix is the sum of a symmetric S and an antisymmetric A; η = (|S|² − |A|²) / (|S|² + |A|²), so it lies
    between −1 and 1. It does not change when the matrix is scaled, transposed or turned (J → R J Rᵀ).
    """
    return (matrix * matrix.mT).sum((-2, -1)) / matrix.square().sum((-2, -1))


def norm_before(spec: Transformer, layer: int) -> str | None:
    """The parameter with the gain of what a layer's attention (from 0) reads; None where no norm comes before it."""
    if not spec.norms:
        return None
    if spec.norm_place == "pre":
        return f"layers.{layer}.norm"
    return f"layers.{layer - 1}.{spec.last_norm}" if layer else None


def scoring(model: TransformerEnsemble, layer: int, gain: str | None = None) -> Float[Tensor, "h c c"]:
    """J = W_Q W_Kᵀ of each head of a layer (from 0), in float64; with the gain of this name on both sides."""
    query, key = (model.parameters[f"layers.{layer}.{name}"][0].detach().double() for name in ("query", "key"))
    if gain is not None:
        factors = model.parameters[gain][0].detach().double()[:, None]
        query, key = query * factors, key * factors
    return query @ key.repeat_interleave(len(query) // len(key), 0).mT  # several queries may share a key


def symmetry_probe(model: TransformerEnsemble, initial: TransformerEnsemble | None) -> SymmetryProbe:
    """η of every head, beside that of the same head before training and that of random matrices.

    For independent entries of mean zero and symmetric law the expectation is 1 / d_model exactly: a term off the
    diagonal changes sign with a row of W_Q, and the diagonal holds on average its share of the squares (derived; not in
    the paper).

    Args:
        initial: the model before training, where it can be drawn again.
    """
    spec = model.spec
    heads = []
    for layer in range(spec.n_layers):
        found = degree_of_symmetry(scoring(model, layer)).tolist()
        before = [None] * spec.n_heads if initial is None else degree_of_symmetry(scoring(initial, layer)).tolist()
        gain = norm_before(spec, layer)
        gained = [None] * spec.n_heads if gain is None else degree_of_symmetry(scoring(model, layer, gain)).tolist()
        for head, values in enumerate(zip(found, before, gained, strict=True)):
            eta, start, scaled = (None if value is None or math.isnan(value) else value for value in values)
            heads.append(HeadSymmetry(layer=layer + 1, head=head + 1, eta=eta, initial=start, with_gains=scaled))
    return SymmetryProbe(heads=tuple(heads), random=1 / spec.d_model, random_deviation=math.sqrt(2) / spec.d_model)


def drawn_again(run: Measurement, model: TransformerEnsemble) -> TransformerEnsemble | None:
    """The kept restart before training, from the run's seed; None where its frozen tables are not the kept ones.

    What is kept is the first of the restarts with the highest count, by protocol `capacity` with the most bits.
    """
    if run.capacity is None:
        best = max(run.members, key=lambda member: member.memorized)
    elif all(member.cycles for member in run.members):
        best = max(run.members, key=lambda member: max(end.bits for end in member.cycles))
    else:
        return None
    initial: TransformerEnsemble = TransformerEnsemble.initialize(
        model.spec,
        run.spec.task.sizes(),
        generators=[torch_generator(run.spec.seed, "weights", best.member)],
        dtype=model.parameters["token"].dtype,
    )
    frozen = initial.parameters.keys() - initial.trainable.keys()
    same = all(torch.equal(initial.parameters[name], model.parameters[name]) for name in frozen)
    return initial if same else None
