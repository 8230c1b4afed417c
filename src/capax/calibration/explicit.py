"""Attention weights that theory builds, at their limit: examples (Mahdavi et al. 2024) and relations (Adler 2025)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.optimize import brentq

from capax.calibration.system import KnownCapacity, Measured, Slack, System, one_by_one, sampling, search
from capax.specs import Associations
from capax.tasks.association_files import Examples
from capax.tasks.associations import draw
from capax.theory.associations import largest_library
from capax.theory.heads import query_and_key
from capax.theory.layer import attention, features
from capax.theory.relations import construct

# largest error of an exact read-out, over the largest label: rounding leaves 1e-11, one example too many 0.01
RECALLED = 1e-6
WIDTH = 0.05


def associations(n_heads: int = 4, context_size: int = 8, d_model: int = 16, d_head: int = 8) -> System:
    """Examples with one context for all: queries and keys by theory for T examples at most, read out by least squares.

    With d_head ≥ n the features of fixed queries and keys have rank H(n − 1) + 1 = T whatever the weights, so that one
    more example has no exact read-out, and T have one.
    """
    name = "attention-memory"
    bound = largest_library(n_heads, context_size, d_model, d_head)

    def recalled(size: int, generator: np.random.Generator) -> bool:
        task = Associations(context_size=context_size, entries="normal", labels="normal", library_size=size)
        examples = draw(task, size, d_model, generator)
        built_for = Examples(examples.queries[:bound], examples.contexts, examples.labels[:bound])
        query, key, _ = query_and_key(built_for, n_heads, d_head, generator)
        mixed = features(attention(query, key, examples), examples.contexts)
        read_out = np.linalg.lstsq(mixed, examples.labels, rcond=None)[0]
        error = np.abs(mixed @ read_out - examples.labels).max()
        return bool(error <= RECALLED * np.abs(examples.labels).max())

    searched = search(
        name,
        one_by_one(name, recalled),
        first_size=max(bound // 4, 1),
        largest_size=4 * bound,
        width=0.5 / bound,
    )

    def measured(seed: int) -> Measured:
        point = searched(seed)
        return replace(point, value=math.floor(point.value))  # the largest library, as protocol mls counts it

    return System(
        name=name,
        about=f"explicit attention weights, {n_heads} heads of {d_head}, one context of {context_size} tokens: real "
        "labels are exact",
        protocol="threshold search",
        unit="examples",
        known=KnownCapacity(
            value=float(bound),
            formula="H(min(n, d_head) − 1) + 1, reached and (one context, d_head ≥ n) not passed",
            source="Mahdavi et al. 2024, theorem 1 and proposition 2, as others restate them",
            standing="secondary",
        ),
        slack=(Slack(0.5 / bound, "rounding: success does not depend on luck, and counts are whole"),),
        measure=measured,
    )


def probability_distinct(d_head: float, n_items: int) -> float:
    """P(n random signatures of d_head signs are distinct) = Π_{i<n} (1 − i / 2^d_head)."""
    signatures = 2.0**d_head
    if signatures < n_items:
        return 0.0
    return math.exp(np.log1p(-np.arange(n_items) / signatures).sum())


def relations(n_items: int = 64) -> System:
    """One-hot items on one cycle, one head with a random signature of ±1 for each: is some threshold exact?

    An edge scores 1, any other pair less, but where two items have one signature. On a cycle of 3 items or more no such
    pair is on the diagonal, which does not count: recognition is exact just when all signatures are distinct.
    """
    name = "key-query"

    def recognized(d_head: int, generator: np.random.Generator) -> bool:
        cycle = generator.permutation(n_items)
        edges = np.stack([cycle, np.roll(cycle, -1)], 1)
        built = construct(edges, np.eye(n_items), generator=generator, method="onehot", d_head=d_head)
        return bool(built.recognition.margin is not None and built.recognition.margin > 0)

    def birthday(d_head: float) -> float:
        return probability_distinct(d_head, n_items) - 0.5

    lowest = math.log2(n_items)
    return System(
        name=name,
        about=f"explicit key-query channel, one head, {n_items} one-hot items on a cycle: all pairs are right",
        protocol="threshold search, success rising",
        unit="channels",
        known=KnownCapacity(
            value=float(brentq(birthday, lowest, 3 * lowest + 2)),
            formula="Π_{i<m} (1 − i / 2^d_head) = 1/2",
            source="birthday problem, for capax's weights: no constant of Adler 2025 is known to us",
            standing="derived",
        ),
        slack=(sampling(WIDTH),),
        measure=search(
            name,
            one_by_one(name, recognized),
            first_size=max(round(lowest), 1),
            largest_size=8 * n_items,
            width=WIDTH,
            rising=True,
        ),
    )
