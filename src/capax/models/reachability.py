"""Which tokens a frozen read-out can never put first, whatever the network feeds it.

Token t is reachable when some vector h gives (w_t − w_s)·h > 0 for every other row w_s of the read-out: a linear
programme per token (docs/protocols.md; the trap was measured for this project, it is not in the paper).
"""

from __future__ import annotations

import numpy as np
import scipy
from jaxtyping import Bool, Float

RIVALS_PER_ROUND = 64
TURNS = 40
"""Tried before programmes are."""
MARGIN = 1e-9
BLOCK = 2**24
"""Scores that are computed together."""


def unreachable_tokens(readout: Float[np.ndarray, "vocab d_model"], tokens: list[int]) -> list[int]:
    """Those of `tokens` that no hidden vector makes the arg-max.

    Args:
        readout: one row per token of the vocabulary.
        tokens: token numbers to check.
    """
    readout = np.asarray(readout, dtype=np.float64)
    scale = max(float(np.abs(readout).max()), np.finfo(np.float64).tiny)  # a read-out of zeros reaches nothing
    scaled = readout / scale
    left = np.array(tokens, dtype=np.int64)[~_first_by_own(scaled, tokens)]
    return [token for token in left.tolist() if not _reachable(scaled, token)]


def _first_by_own(readout: Float[np.ndarray, "vocab d_model"], tokens: list[int]) -> Bool[np.ndarray, " tokens"]:
    """Which tokens are put first by their own row as the hidden vector: most are, and need no programme."""
    found = np.empty(len(tokens), dtype=bool)
    at_once = max(BLOCK // len(readout), 1)
    for begin in range(0, len(tokens), at_once):
        some = np.array(tokens[begin : begin + at_once])
        rows = readout[some]
        scores = rows @ readout.T
        own = scores[np.arange(len(some)), some].copy()
        scores[np.arange(len(some)), some] = -np.inf
        margin = MARGIN * np.maximum(np.abs(rows).max(1), MARGIN)
        found[begin : begin + len(some)] = own - scores.max(1, initial=-np.inf) > margin
    return found


def _reachable(readout: Float[np.ndarray, "vocab d_model"], token: int) -> bool:
    """Constraint generation: only rivals that win against the best vector so far enter the programme.

    A programme over some rivals that has no positive margin proves the token unreachable; a vector that beats all
    rivals proves it reachable.
    """
    differences = np.delete(readout[token] - readout, token, axis=0)
    hidden = _turned(differences, readout[token])
    active = np.zeros(len(differences), dtype=bool)
    while True:
        margins = differences @ hidden
        losing = np.flatnonzero((margins <= MARGIN) & ~active)
        if len(losing) == 0:
            return True
        active[losing[np.argsort(margins[losing])[:RIVALS_PER_ROUND]]] = True
        hidden, margin = _widest_margin(differences[active])
        if margin <= MARGIN:
            return False


def _turned(
    differences: Float[np.ndarray, "rivals d_model"], hidden: Float[np.ndarray, " d_model"]
) -> Float[np.ndarray, " d_model"]:
    """A vector of the unit box, turned again and again against the rival that it loses to most (a perceptron).

    Most tokens that can be reached are so within a few turns, each of which costs a hundredth of a programme.
    """
    sizes = np.maximum((differences**2).sum(1), MARGIN)
    for _ in range(TURNS):
        hidden = hidden / max(float(np.abs(hidden).max()), MARGIN)
        margins = differences @ hidden
        worst = int(np.argmin(margins))
        if margins[worst] > MARGIN:
            break
        hidden = hidden + (0.1 * np.sqrt(sizes[worst]) - margins[worst]) / sizes[worst] * differences[worst]
    return hidden


def _widest_margin(differences: Float[np.ndarray, "rivals d_model"]) -> tuple[Float[np.ndarray, " d_model"], float]:
    """The vector in the unit box with the largest smallest product, and that product."""
    rivals, width = differences.shape
    answer = scipy.optimize.linprog(
        c=np.append(np.zeros(width), -1.0),
        A_ub=np.hstack([-differences, np.ones((rivals, 1))]),
        b_ub=np.zeros(rivals),
        bounds=[(-1, 1)] * width + [(None, None)],
        method="highs",
    )
    assert answer.x is not None, answer.message  # bounded and feasible (the zero vector): there is an optimum
    return answer.x[:-1], float(answer.x[-1])
