"""How what is said of Changalidis and Härmä 2025 is judged: by counts, by ceilings, and by training with the fault."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from capax.checks.model import check_model
from capax.models.factory import seeded
from capax.models.module_traits import tolerance
from capax.papers import evidence as ev
from capax.papers.changalidis2025.fault import PLANS, Trained, trained
from capax.papers.changalidis2025.model import Network
from capax.papers.evidence import field
from capax.papers.recipe import Evidence, Unjudged, Verdict, agrees, cannot, differs
from capax.results import Measurement
from capax.specs import Facts, Sequences

PARAMETERS = 27_654_864
"""Of one layer of width 128, as the notebook of the first experiment prints them."""
RECALLED = {1_000: 99.90, 10_000: 98.74, 50_000: 93.87, 100_000: 88.24}
"""Percent of so many rows recalled by one layer after 500 epochs, mean of widths 16 to 128 and 3 seeds: the table in
the notebook of the third experiment."""
WITHIN = 0.01
"""Share of the facts by which a recall may be beside a ceiling (ours)."""
ALL = 0.99
"""Share that counts as all facts (ours)."""
READ_ONCE = Sequences(seq_len=3, vocab_size=50, loss="last", recall="last")
"""A concept, a property and an answer, of which the network scores the answer alone."""


def _counted(vocab_size: int) -> int:
    """Parameters of the code's network."""
    with seeded(0):
        return sum(one.numel() for one in Network(vocab_size).parameters())


def _tokens() -> tuple[int, int, int]:
    """Tokens that the printed count has room for, parameters of each (in embedding and read-out), and what is left."""
    one = _counted(1)
    each = _counted(2) - one
    more, rest = divmod(PARAMETERS - one, each)
    return 1 + more, each, rest


def parameters(of: Evidence) -> Verdict:
    """Whether a whole number of tokens gives the printed count: of 257 remainders one is 0."""
    tokens, each, rest = _tokens()
    measured = f"{PARAMETERS - rest:,} with {tokens:,} tokens"
    return ev.exactly(rest == 0, measured, f"{each} parameters a token, and {rest} left")


def embedding_share(of: Evidence) -> Verdict:
    """Embedding and read-out of that network."""
    tokens, each, _ = _tokens()
    share = tokens * each / PARAMETERS
    return ev.exactly(
        round(100 * share, 1) == 97.6,
        f"{tokens * each:,} of {PARAMETERS:,}: {share:.2%}",
        "of the network of that count",
    )


def grows_with_rows(of: Evidence) -> Verdict:
    """The exponent of what is not recalled in the rows."""
    missed = [100 - share for share in RECALLED.values()]
    return ev.has_exponent(ev.exponent(list(RECALLED), missed), 1.0, "the share not recalled in the rows")


def _runs(of: Evidence, property_read: bool, ambiguous: str) -> Sequence[Measurement]:
    """The runs whose questions have their property or lack it.

    Raises:
        Unjudged: where there are none.
    """
    runs = [
        run
        for run in of.runs
        if isinstance(run.spec.task, Facts)
        and (run.spec.task.relation is not None) == property_read
        and run.spec.task.ambiguous == ambiguous
    ]
    if not runs:
        raise Unjudged(f"no run with{'' if property_read else 'out'} property and several answers: {ambiguous}")
    return runs


def _by_width(runs: Iterable[Measurement]) -> str:
    return ", ".join(
        f"{' and '.join(map(str, sorted(set(run.memorized_per_restart))))} of {run.library_size} "
        f"(width {field(run, 'd_model')})"
        for run in runs
    )


def at_ceiling(of: Evidence) -> Verdict:
    """Every restart of every width, without the property."""
    runs = _runs(of, False, "keep")
    below = max((run.recallable - min(run.memorized_per_restart)) / run.library_size for run in runs)
    ceilings = sorted({run.recallable for run in runs})
    measured = f"{_by_width(runs)}; ceiling {' and '.join(map(str, ceilings))}"
    if any(max(run.memorized_per_restart) > run.recallable for run in runs):
        return differs("a network recalls more than its ceiling", measured)
    if below <= WITHIN:
        return agrees(
            f"no restart misses the ceiling by more than {WITHIN:.0%} of the facts, and none is above it", measured
        )
    return differs(f"a restart misses the ceiling by more than {WITHIN:.0%} of the facts", measured)


def _recalls_all(runs: Sequence[Measurement]) -> Verdict:
    least = min(min(run.memorized_per_restart) / run.library_size for run in runs)
    if least >= ALL:
        return agrees(f"every restart recalls at least {ALL:.0%}", _by_width(runs))
    return differs(f"a restart recalls less than {ALL:.0%}", _by_width(runs))


def one_answer(of: Evidence) -> Verdict:
    """Concepts of one answer, without the property."""
    return _recalls_all(_runs(of, False, "drop"))


def with_property(of: Evidence) -> Verdict:
    """All facts, with the property."""
    return _recalls_all(_runs(of, True, "refuse"))


def _checked(name: str, batch_first: bool) -> tuple[bool, str]:
    """Whether a check of `capax check model` is passed by the network, and its evidence."""
    report = check_model(lambda: Network(READ_ONCE.vocab_size, batch_first=batch_first), READ_ONCE)
    (found,) = (one for one in report.checks if one.check == name)
    return found.verdict == "passed", found.evidence


def property_unread(of: Evidence) -> Verdict:
    """The largest change of a score when every property is exchanged."""
    changes = []
    for batch_first in (False, True):
        with seeded(0), torch.no_grad():
            network = Network(READ_ONCE.vocab_size, batch_first=batch_first).eval()
            tokens = torch.randint(READ_ONCE.vocab_size, (8, 2))
            other = tokens.clone()
            other[:, 1] = (other[:, 1] + 1) % READ_ONCE.vocab_size
            scores = network(tokens)
            changes.append(float((network(other) - scores).abs().max()))
    measured = f"scores change by {changes[0]:.2g}; with batch_first by {changes[1]:.2g}"
    return ev.exactly(
        changes[0] == 0 and changes[1] > tolerance(scores), measured, "capax check model: tokens reach the score"
    )


def mates_matter(of: Evidence) -> Verdict:
    """`capax check model` on the network with the fault and without."""
    (faulty, evidence), (repaired, _) = (_checked("batch independence", batch_first) for batch_first in (False, True))
    verdict = "passes" if repaired else "fails"
    reason = "capax check model: batch independence; capax measure refuses such a module"
    return ev.exactly(not faulty and repaired, f"{evidence}; with batch_first the check {verdict}", reason)


def _trained(of: Evidence) -> Trained:
    if of.scale not in PLANS:
        raise Unjudged(f"no network is trained at scale {of.scale}: the paper's triples need a licence")
    return trained(of.scale)


def fault_costs(of: Evidence) -> Verdict:
    """Recall without the fault against that with it."""
    found = _trained(of)
    return ev.larger(found.repaired, found.faulty, f"recall with batch_first, of {found.facts} facts,", "that without")


def fault_at_ceiling(of: Evidence) -> Verdict:
    """Recall with the fault against one answer for each concept."""
    found = _trained(of)
    mean, room = ev.mean(found.faulty), WITHIN * found.facts
    measured = f"{mean} of {found.facts} facts; one answer for each concept is {found.ceiling}"
    if found.ceiling - room <= mean.low and mean.high <= found.ceiling + room:
        return agrees(f"the interval of the mean is within {WITHIN:.0%} of the facts about the ceiling", measured)
    if mean.high < found.ceiling - room or mean.low > found.ceiling + room:
        return differs(f"the interval of the mean is more than {WITHIN:.0%} of the facts off the ceiling", measured)
    return cannot(f"the interval of the mean holds values within {WITHIN:.0%} of the ceiling and beyond", measured)


def repaired_recalls_all(of: Evidence) -> Verdict:
    """Recall without the fault."""
    found = _trained(of)
    measured = f"{min(found.repaired):g} to {max(found.repaired):g} of {found.facts} facts"
    if min(found.repaired) >= ALL * found.facts:
        return agrees(f"every seed recalls at least {ALL:.0%}", measured)
    return differs(f"a seed recalls less than {ALL:.0%}", measured)
