"""What P trainable weights of w bits can store at all, and how many bits a measured count shows to be stored.

Weights take 2^(wP) values, whatever the architecture, the training and the arithmetic are: with the frozen parameters,
which are drawn without the library, each is one function, so there are at most 2^(wP) ways to answer. Of a random
library each way recalls few items with near certainty; that many ways recall it cannot be unless 2^(wP) makes up for
the odds. All of this is ours.
"""

from __future__ import annotations

from math import ceil, floor, log, log1p

import numpy as np
from scipy.special import xlogy

from capax.tasks.graph_classes import log2_choose
from capax.theory.bounds.bound import bound

LN2 = log(2)
SLACK = 64
"""Bits that a count has to show beyond those stored to be called impossible: luck then has a chance of 2^-64."""


@bound(
    kind="upper",
    unit="items",
    formula=lambda bits: f"{bits} P / b, P trainable weights of {bits} bits, b bits an item",
    criterion="items of a random library recalled, trained weights (more only with probability 2^(w P − M b))",
    scope="model",
    source="capax: weights counted",
    standing="derived",
    assumptions=("answers are independent and uniform", "frozen weights are drawn without the library"),
    bits=lambda trainable, bits: bits * trainable,
    proved_for_recall=True,
)
def stored_bits(trainable: int, bits_per_item: float, bits: int) -> int | str:
    """⌊wP/b⌋ items of b bits: P(a random library of M items is recalled whole) ≤ 2^(wP − M b).

    Args:
        trainable: P.
        bits_per_item: b: log2 of how many answers an item could have, all as likely.
        bits: w.
    """
    if bits_per_item == 0:
        return "there is one answer only: nothing to store"
    return floor(bits * trainable / bits_per_item)


def recall_information(memorized: int, library_size: int, guess: float) -> float:
    """Bits that k of M recalled show to be stored: M KL(k/M ‖ q), 0 up to the M q that a guess recalls; M b for all.

    For one fixed way to answer, each item is right with probability q at most, independently, so by Chernoff's bound
    P(k or more) ≤ 2^(−M KL); for one of 2^(wP) ways P ≤ 2^(wP − M KL). It is below the `bits` of a measurement, which
    for a part of a library also count what luck may have added.

    Args:
        memorized: k.
        library_size: M.
        guess: q, the probability that a guess recalls an item; 0 stands for the least number above it.
    """
    share, guess = memorized / library_size, max(guess, 5e-324)
    if share <= guess:
        return 0.0
    wrong = float(xlogy(1 - share, 1 - share)) - ((1 - share) * log1p(-guess) if share < 1 else 0.0)
    return library_size * (float(xlogy(share, share)) - share * log(guess) + wrong) / LN2


def distinct_information(library_size: int, log_prefixes: float) -> float:
    """−log2 P(M uniform prefixes are distinct): the bits that a library has from being drawn with distinct prefixes.

    Answers that are part of a prefix are not independent; they are, given that all prefixes turn out distinct, which
    raises probabilities by 1/P at most.

    Args:
        library_size: M.
        log_prefixes: ln of how many prefixes there are.
    """
    prefixes = np.exp(min(log_prefixes, 600.0))
    return float(-np.log1p(-np.arange(library_size) / prefixes).sum() / LN2)


def graph_information(n_items: int, n_edges: int, graph_bits: float, recalled: int, predicted: int) -> float:
    """Bits that a channel shows of a graph: log2|F| − log2 C(p, k) − log2 C(m(m − 1) − p, m' − k).

    What is left to tell is which k of the p predicted pairs are edges, and which m' − k of the other pairs are. For one
    fixed way to answer so many graphs at most have k edges among its p pairs, each with probability 1/|F| at most.

    Args:
        n_items: m.
        n_edges: m'.
        graph_bits: log2|F|, or any b such that no graph is drawn with a probability above 2^−b.
        recalled: k.
        predicted: p.
    """
    pairs = n_items * (n_items - 1)
    return graph_bits - float(log2_choose(predicted, recalled) + log2_choose(pairs - predicted, n_edges - recalled))


def f1_information(n_items: int, n_edges: int, graph_bits: float, f1: float) -> float:
    """The least `graph_information` of any answer with so high an F1 = 2k/(p + m') over all pairs."""
    pairs = n_items * (n_items - 1)
    first = ceil(f1 * n_edges / (2 - f1) - 1e-9)
    last = min(floor(n_edges * (2 - f1) / f1 + 1e-9), pairs)  # rounding loses no F1 that is just reached
    predicted = np.arange(first, last + 1, dtype=float)
    recalled = np.ceil(f1 * (predicted + n_edges) / 2 - 1e-9)
    usual = np.ceil(predicted * n_edges / pairs)  # where most graphs have their count
    recalled = np.maximum(recalled, np.minimum(usual, n_edges))
    possible = (recalled <= predicted) & (recalled <= n_edges) & (n_edges - recalled <= pairs - predicted)
    p, k = predicted[possible], recalled[possible]
    left = log2_choose(p, k) + log2_choose(pairs - p, n_edges - k)
    return graph_bits - float(left.max())
