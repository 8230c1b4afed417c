"""How what is said of adapters is judged: by the bits that they hold for each of their trained numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from capax.papers import evidence as ev
from capax.papers.evidence import Density
from capax.papers.recipe import Evidence, Unjudged, Verdict, agrees, cannot, differs
from capax.results import Measurement
from capax.specs import Facts, Lora, Sequences
from capax.text import counted

TOKENS = 1.71, 2.75
"""Bits a parameter of Tan et al. 2026: rank 1 on their smaller base, and rank 16 (as others state them)."""
PLACES = 1.30, 2.43
"""Of adapters on attention alone and on the FFN alone, 37,000 parameters each (as others state them)."""
SENTENCES = 0.05, 0.44
"""Bits a parameter of Nguyen 2026: on the smallest of its bases, and on the largest (read in its data)."""
BY_PARAMETERS = 1.08
"""The power of an adapter's parameters that its capacity grows by, of Nguyen 2026."""
ALIKE = 2.0
"""Two tasks are alike that differ by no more than this factor (ours)."""
RUINED = 1.0
"""Nats a token by which a base is worse on text that it never saw (ours)."""


def density(run: Measurement) -> Density:
    """Bits that an adapter holds for each of its trained numbers."""
    return ev.density(run, run.parameters.trainable)


def _of(of: Evidence, task: type, weights: str = "checkpoint", targets: str | None = None) -> list[Measurement]:
    """The runs of a task over a base of such weights, of some layers, smallest adapter first.

    Raises:
        Unjudged: where there are none.
    """
    runs = [
        run
        for run in of.runs
        if isinstance(run.spec.task, task)
        and isinstance(run.spec.model, Lora)
        and run.spec.model.base_weights == weights
        and targets in (None, run.spec.model.targets)
    ]
    if not runs:
        raise Unjudged(f"no adapter{'' if targets is None else f' on {targets}'} learned {task.__name__.lower()}")
    return sorted(runs, key=lambda run: run.parameters.trainable)


def _said(runs: Sequence[Measurement]) -> str:
    return "; ".join(f"{run.spec.model.columns()['targets']} rank {_rank(run)}: {density(run)}" for run in runs)


def _rank(run: Measurement) -> int:
    return int(run.spec.model.columns()["r"])


def _within(runs: Sequence[Measurement], low: float, high: float) -> Verdict:
    """Whether each adapter's interval meets a published range."""
    found, measured = [density(run) for run in runs], _said(runs)
    if any(one.low > high or one.most < low for one in found):
        return differs(f"the interval of an adapter is outside of {low} to {high}", measured)
    if not all(one.converged and one.high is not None for one in found):
        return cannot("an adapter did not converge, or has no upper end", measured)
    return agrees(f"the interval of every adapter meets {low} to {high}", measured)


def tokens(of: Evidence) -> Verdict:
    """Random tokens, adapters on all layers."""
    return _within(_of(of, Sequences, targets="attention,mlp"), *TOKENS)


def _placed(of: Evidence, task: type) -> tuple[Measurement, Measurement]:
    """An adapter on attention and one on the FFN of as many parameters.

    Raises:
        Unjudged: where there are none.
    """
    for one in _of(of, task, targets="attention"):
        for other in _of(of, task, targets="mlp"):
            if one.parameters.trainable == other.parameters.trainable:
                return one, other
    raise Unjudged("no adapters on attention and on the FFN have as many parameters")


def _more(larger: Measurement, smaller: Measurement, what: str) -> Verdict:
    """Whether one adapter holds more than another, by intervals that do not meet."""
    a, b, measured = density(larger), density(smaller), f"{density(larger)} against {density(smaller)}"
    if a.low > b.most:
        return agrees(f"the interval of {what} is above the other's", measured)
    if a.most < b.low:
        return differs(f"the interval of {what} is below the other's", measured)
    return cannot("the intervals meet", measured)


def tokens_by_place(of: Evidence) -> Verdict:
    """Random tokens, the FFN's adapter against attention's."""
    attention, ffn = _placed(of, Sequences)
    return _more(ffn, attention, "the FFN's")


def sentences_by_place(of: Evidence) -> Verdict:
    """Sentences, the FFN's adapter against attention's."""
    attention, ffn = _placed(of, Facts)
    return _more(ffn, attention, "the FFN's")


def ratio_of_places(of: Evidence) -> Verdict:
    """How many times as much the FFN's adapter holds of random tokens."""
    attention, ffn = map(density, _placed(of, Sequences))
    expected = PLACES[1] / PLACES[0]
    low, high = ffn.low / attention.most, ffn.most / attention.low
    measured = f"{ffn.value / attention.value:.3g} ({low:.3g} to {high:.3g})"
    if not low <= expected <= high:
        return differs(f"the range of the ratio does not hold {expected:.2f}", measured)
    if not math.isfinite(high) or high > 2 * low:
        return cannot("the range of the ratio is wider than a factor of two", measured)
    return agrees(f"the range of the ratio holds {expected:.2f}", measured)


def sentences(of: Evidence) -> Verdict:
    """Sentences, all adapters."""
    return _within(_of(of, Facts), *SENTENCES)


def by_parameters(of: Evidence) -> Verdict:
    """The exponent of what adapters hold of sentences in their parameters, attention and FFN each at its own level."""
    runs = [run for run in _of(of, Facts) if density(run).converged]
    groups = [run.spec.model.columns()["targets"] for run in runs]
    held = [density(run).value * run.parameters.trainable for run in runs]
    power = ev.exponent([run.parameters.trainable for run in runs], held, groups)
    return ev.has_exponent(power, BY_PARAMETERS, f"capacity in parameters, {counted(len(runs), 'adapter')},")


def _same(of: Evidence) -> list[tuple[Measurement, Measurement]]:
    """Adapters of one shape that learned random tokens, and sentences.

    Raises:
        Unjudged: where there are none.
    """
    pairs = [
        (one, other)
        for one in _of(of, Sequences)
        for other in _of(of, Facts)
        if one.spec.model.columns()["targets"] == other.spec.model.columns()["targets"] and _rank(one) == _rank(other)
    ]
    if not pairs:
        raise Unjudged("no adapter learned both tasks")
    return pairs


def both_tasks(of: Evidence) -> Verdict:
    """Random tokens against sentences, adapter by adapter."""
    found = [(density(one), density(other)) for one, other in _same(of)]
    ratios = [one.value / other.value for one, other in found]
    low = min(one.low / other.most for one, other in found)
    high = max(one.most / other.low for one, other in found)
    measured = f"{', '.join(f'{ratio:.3g}' for ratio in ratios)} times ({low:.3g} to {high:.3g} over all ends)"
    if max(high, 1 / low if low else math.inf) <= ALIKE:
        return agrees(f"all ends of all intervals are within a factor of {ALIKE:g}", measured)
    if any(one.low > ALIKE * other.most or one.most * ALIKE < other.low for one, other in found):
        return differs(f"the intervals of an adapter are further apart than a factor of {ALIKE:g}", measured)
    return cannot(f"intervals hold ratios within a factor of {ALIKE:g} and beyond", measured)


def _knowledge(of: Evidence, task: type) -> Verdict:
    """The base's own weights against the same numbers shuffled."""
    control = _of(of, task, "shuffled")[0]
    there = [
        run
        for run in _of(of, task, targets=str(control.spec.model.columns()["targets"]))
        if _rank(run) == _rank(control)
    ]
    if not there:
        raise Unjudged("no adapter like that over the shuffled base")
    return _more(there[0], control, "the trained base's")


def knowledge_for_sentences(of: Evidence) -> Verdict:
    """Sentences over the trained base and over its shuffled weights."""
    return _knowledge(of, Facts)


def knowledge_for_tokens(of: Evidence) -> Verdict:
    """Random tokens over the trained base and over its shuffled weights."""
    return _knowledge(of, Sequences)


def ruins(of: Evidence) -> Verdict:
    """What the base loses on text that it never saw, by every adapter."""
    said = [run.metrics for run in (*_of(of, Sequences), *_of(of, Facts)) if "base_loss_after" in run.metrics]
    if not said:
        raise Unjudged("no run says what its base lost")
    lost = [one["base_loss_after"] - one["base_loss"] for one in said]
    measured = f"{min(lost):.2f} to {max(lost):.2f} nats a token more, {counted(len(said), 'adapter')}"
    if min(lost) >= RUINED:
        return agrees(f"at least {RUINED:g} nat a token by every adapter", measured)
    return differs(f"less than {RUINED:g} nat a token by one", measured)
