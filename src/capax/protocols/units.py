"""One run in every unit: items above chance, bits, tokens, information, and each per parameter.

The definitions of others count what the loss covers of each item: all next tokens, or the last. A uniform guess codes
it in H = log2(vocab_size) bits a token (log2(n_classes) for a class), a model in its cross-entropy CE.

- Morris et al. 2025 (arXiv 2505.24832): Σ max(0, H − CE) over items. Their models predict the first token, too;
  ours are given it, so an item has seq_len − 1 tokens, or seq_len where the task has `bos`.
- Allen-Zhu and Li 2024 (arXiv 2404.05405), theorem 3.2 and its capacity ratio R: of its three terms the one for values,
  Σ (H − CE); names and the diversity set have no counterpart in random sequences; of biographies names count, too.
  Over all items, so that it may be negative, and never above the bits of the weights but by luck.

Where the items are a user's, H stays that of a uniform guess, and part of both is what the items have in common;
`bits` counts the entropy of such targets where that is smaller.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from capax.protocols.mac import best_of_restarts_interval
from capax.results import Amount, Interval, Parameters, UnitName
from capax.specs import Task


def worth_of_item(task: Task, entropy: float | None) -> float:
    """Bits that an item counts: `Task.bits_per_item`, or the entropy of the user's targets where that is smaller.

    Drawn targets are uniform whatever a small library's own frequencies are: theirs stays log2 of their number.

    Args:
        entropy: of the library's targets, bits per item.
    """
    uniform = task.bits_per_item()
    return uniform if entropy is None or task.targets_drawn else min(uniform, entropy)


def above_chance(memorized: float, chance: float, library_size: float) -> float:
    """(memorized − chance) / (1 − chance / library_size): a complete library counts whole, pure luck counts zero.

    Where luck alone recalls everything, nothing is above it.
    """
    if chance >= library_size:
        return 0.0
    return (memorized - chance) / (1 - chance / library_size)


@dataclass(frozen=True)
class LibraryInformation:
    """What each restart knows of the library, in bits (`training.stopping.Information`), and how much there is."""

    clipped: tuple[float, ...]
    signed: tuple[float, ...]
    most: float


def amounts(
    task: Task,
    memorized: float,
    interval: Interval | None,
    chance_of: Callable[[float], float],
    bits_of: Callable[[float], float],
    information: LibraryInformation | None,
    parameters: Parameters,
) -> tuple[Amount, ...]:
    """A run by every definition.

    Args:
        interval: of `memorized`.
        chance_of, bits_of: items above chance, and bits, of a number of items.
        information: of the restarts whose outputs are finite probabilities; the amount is the best restart's.
    """
    scales: dict[UnitName, Callable[[float], float]] = {"items": lambda items: items, "items_above_chance": chance_of}
    if (length := task.tokens_per_item) is not None:
        scales["tokens"] = lambda items: length * items
    scales["bits"] = bits_of
    rows: list[tuple[UnitName, float, Interval | None]] = [
        (name, scale(memorized), scaled(interval, scale)) for name, scale in scales.items()
    ]
    if information is not None:
        restarts = interval is not None  # of one training, or of restarts that begin alike, there is no range
        bits: dict[UnitName, tuple[tuple[float, ...], float]] = {
            "morris_bits": (information.clipped, 0.0),
            "allen_zhu_bits": (information.signed, -math.inf),
        }
        for name, (each, least) in bits.items():
            range_ = best_of_restarts_interval(each, information.most, least) if restarts else None
            rows.append((name, max(each), range_))
    return tuple(
        Amount(
            name=name,
            amount=amount,
            interval=range_,
            per_trainable_parameter=amount / parameters.trainable,
            per_parameter=amount / parameters.total,
            per_effective_parameter=None if parameters.effective is None else amount / parameters.effective,
        )
        for name, amount, range_ in rows
    )


def scaled(interval: Interval | None, by: Callable[[float], float]) -> Interval | None:
    """An interval of something else, with both ends on a rising scale; None stays None."""
    if interval is None:
        return None
    high = None if interval.high is None else by(interval.high)
    return interval.model_copy(update={"low": by(interval.low), "high": high})


def tokens_per_parameter(memorized: float, seq_len: int, trainable: int) -> float:
    """N·C / P (Härmä et al. 2024, eq. 12; P is the number of trainable parameters, the paper gives no definition)."""
    return seq_len * memorized / trainable
