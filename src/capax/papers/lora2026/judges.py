"""How what is said of adapters is judged: by the bits that they hold for each of their trained numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from capax.papers import evidence as ev
from capax.papers.evidence import Density, Estimate
from capax.papers.recipe import Evidence, Unjudged, Verdict, agrees, cannot, differs
from capax.results import Measurement
from capax.specs import Facts, Lora, Sequences
from capax.text import counted

TOKENS = 1.71, 2.75
"""Bits a parameter of Tan et al. 2026: rank 1 on their smaller base, and rank 16 (as others state them)."""
PLACES = 1.30, 2.43
"""Of adapters on attention alone and on the FFN alone, 37,000 parameters each (as others state them)."""
SENTENCES = 0.044, 0.44
"""Bits a parameter of Nguyen 2026: rank 16 on the smallest base, rank 16 on the largest (read in its data)."""
BY_PARAMETERS = 1.08
"""Exponent of capacity in the adapter's parameters, of Nguyen 2026."""
NARROW = 2.0
"""An interval whose ends are further apart than this factor agrees with nothing (ours)."""
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
        place = "" if targets is None else f" on {targets}"
        raise Unjudged(f"no adapter{place} over the base ({weights} weights) learned {task.__name__.lower()}")
    return sorted(runs, key=lambda run: run.parameters.trainable)


def _adapter(run: Measurement) -> tuple[str, int]:
    """Layers and rank."""
    model = run.spec.model
    assert isinstance(model, Lora)
    return model.targets, model.rank


def _said(runs: Sequence[Measurement]) -> str:
    return "; ".join(f"{_adapter(run)[0]} rank {_adapter(run)[1]}: {density(run)}" for run in runs)


def _ratio(a: float, b: float) -> float:
    """Of two numbers of bits; nothing is infinitely less than something."""
    return a / b if b else math.inf


def _times(a: Density, b: Density) -> Estimate:
    """How many times as much one holds as another, across their intervals.

    Raises:
        Unjudged: where one did not converge.
    """
    if not (a.converged and b.converged):
        raise Unjudged(f"an adapter did not converge: {a} against {b}")
    return Estimate(_ratio(a.value, b.value), _ratio(a.low, b.most), _ratio(a.most, b.low))


def _within(runs: Sequence[Measurement], low: float, high: float) -> Verdict:
    """Whether each adapter's interval meets a published range."""
    found, measured = [density(run) for run in runs], _said(runs)
    which = counted(len(runs), "adapter") + " of this base"
    if any(one.low > high or one.most < low for one in found):
        return differs(f"an interval is outside of {low} to {high}, {which}", measured)
    if any(one.most > NARROW * one.low for one in found):
        return cannot(f"an adapter did not converge, or its interval is wider than a factor of {NARROW:g}", measured)
    return agrees(f"every interval meets {low} to {high}, {which}", measured)


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
    """Whether one adapter holds more than another, by intervals that do not meet; what was reached is a lower bound."""
    a, b = density(larger), density(smaller)
    measured = f"{a} against {b}"
    if a.low > b.most:
        return agrees(f"the interval of {what} is above the other's", measured)
    if a.most < b.low:
        return differs(f"the interval of {what} is below the other's", measured)
    if not (a.converged and b.converged):
        return cannot("an adapter did not converge", measured)
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
    expected, found = PLACES[1] / PLACES[0], _times(ffn, attention)
    if not found.holds(expected):
        return differs(f"the intervals do not allow {expected:.2f}", str(found))
    if found.holds(1.0):
        return cannot(f"the intervals allow {expected:.2f}, and 1 as well", str(found))
    return agrees(f"the intervals allow {expected:.2f}, and not 1", str(found))


def sentences(of: Evidence) -> Verdict:
    """Sentences, all adapters."""
    return _within(_of(of, Facts), *SENTENCES)


def by_parameters(of: Evidence) -> Verdict:
    """The exponent of what adapters hold of sentences in their parameters, attention and FFN each at its own level.

    Its range is that of the values' own t-interval and of what the adapters' intervals allow: small ones at one end,
    large ones at the other.
    """
    every = [run for run in _of(of, Facts) if _adapter(run)[0] in ("attention", "mlp")]
    runs = [run for run in every if math.isfinite(density(run).most)]
    if len(runs) < len(every):
        raise Unjudged(f"{len(every) - len(runs)} of {len(every)} adapters did not converge")
    groups = [_adapter(run)[0] for run in runs]
    counts = [run.parameters.trainable for run in runs]
    middle = sum(map(math.log, counts)) / len(counts)

    def power(small: str, large: str) -> Estimate:
        ends = [
            getattr(density(run), small if math.log(n) < middle else large) for run, n in zip(runs, counts, strict=True)
        ]
        return ev.exponent(counts, [end * n for end, n in zip(ends, counts, strict=True)], groups)

    found = power("value", "value")
    low, high = power("most", "low").value, power("low", "most").value
    whole = Estimate(found.value, min(found.low, low), max(found.high, high))
    return ev.has_exponent(whole, BY_PARAMETERS, f"capacity in parameters ({counted(len(runs), 'adapter')})")


def _same(of: Evidence) -> list[tuple[Measurement, Measurement]]:
    """Adapters of one shape that learned random tokens, and sentences.

    Raises:
        Unjudged: where there are none.
    """
    learned = {_adapter(run): run for run in _of(of, Facts)}
    pairs = [(run, learned[_adapter(run)]) for run in _of(of, Sequences) if _adapter(run) in learned]
    if not pairs:
        raise Unjudged("no adapter learned both tasks")
    return pairs


def both_tasks(of: Evidence) -> Verdict:
    """Random tokens against sentences, adapter by adapter."""
    found = [_times(density(one), density(other)) for one, other in _same(of)]
    measured = "; ".join(f"{one} times" for one in found)
    if any(one.low > ALIKE or one.high < 1 / ALIKE for one in found):
        return differs(f"the intervals of an adapter are further apart than a factor of {ALIKE:g}", measured)
    if all(one.high <= ALIKE and one.low >= 1 / ALIKE for one in found):
        return agrees(f"all intervals are within a factor of {ALIKE:g}", measured)
    return cannot(f"intervals allow ratios within a factor of {ALIKE:g}, and beyond", measured)


def _knowledge(of: Evidence, task: type) -> Verdict:
    """The base's own weights against the same numbers shuffled."""
    (control, *_) = _of(of, task, "shuffled")
    for run in _of(of, task):
        if _adapter(run) == _adapter(control):
            return _more(run, control, "the trained base's")
    raise Unjudged("no adapter like the control's over the base's own weights")


def knowledge_for_sentences(of: Evidence) -> Verdict:
    """Sentences over the trained base and over its shuffled weights."""
    return _knowledge(of, Facts)


def knowledge_for_tokens(of: Evidence) -> Verdict:
    """Random tokens over the trained base and over its shuffled weights."""
    return _knowledge(of, Sequences)


def ruins(of: Evidence) -> Verdict:
    """What the base loses on text that it never saw, by every adapter that holds all it can."""
    full = [run for run in (*_of(of, Sequences), *_of(of, Facts)) if density(run).converged]
    losses = [(run.metrics.get("base_loss", math.nan), run.metrics.get("base_loss_after", math.nan)) for run in full]
    if not losses or not all(math.isfinite(after - before) for before, after in losses):
        raise Unjudged("no adapter converged, or one does not say what its base lost")
    lost = [after - before for before, after in losses]
    measured = f"{min(lost):.2f} to {max(lost):.2f} nats a token more, {counted(len(lost), 'adapter')}"
    if min(lost) >= RUINED:
        return agrees(f"at least {RUINED:g} nat a token by every adapter that converged", measured)
    return differs(f"less than {RUINED:g} nat a token by one", measured)
