"""Do given queries and contexts satisfy what the memorization bound assumes (Mahdavi et al. 2024, arXiv 2306.02010)?

A1: the queries have Kruskal rank ≥ n: any n are linearly independent. A2: the n tokens of each context are. General
position, any d queries independent, is the assumption common for feed-forward networks; A1 is weaker, as n < d.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, get_args

import numpy as np
from jaxtyping import Float
from pydantic import Field
from scipy.stats import binomtest

from capax import working
from capax.checks.independence import Probe, Rank, count_dependent, probe_subsets, rank, scaled, share_below
from capax.errors import LibraryError, shown
from capax.results import LEVEL, Result
from capax.specs.spec import truth, whole
from capax.tasks.association_files import pairs

Precision = Literal["float32", "float64"]
Verdict = Literal["holds", "fails", "not refuted", "undecided"]
Name = Literal["A1", "A2", "general position", "A1 of query + context mean"]

FEWER = 10
"""General position, which the bound does not need, is sampled less by this factor: its subsets are the largest."""
WORDS = 8
"""Examples named in the evidence; the JSON has all."""


class Check(Result):
    """One assumption on one set of examples."""

    assumption: Name
    statement: str
    size: Annotated[int, Field(description="Vectors of a subset or of a context that must be independent.")]
    verdict: Annotated[
        Verdict,
        Field(
            description="Certain: holds, fails. Not refuted: no dependent subset among those sampled. Undecided: only "
            "subsets that are dependent within a factor 10 of the tolerance."
        ),
    ]
    exact: Annotated[bool, Field(description="Known of every subset or context, not of a sample.")]
    tested: Annotated[int, Field(description="Subsets or contexts; 0 where none had to be.")]
    dependent: Annotated[int, Field(description="Of those tested.")]
    share_below: Annotated[
        float, Field(description="Share of dependent ones: the share itself if exact, else its upper limit.")
    ]
    level: Annotated[float | None, Field(description="One-sided confidence of that limit; None if exact.")]
    smallest_rank: Annotated[int | None, Field(description="Of the dependent ones tested.")]
    close: Annotated[
        int, Field(description="Decisions with the smallest singular value within a factor 10 of the tolerance.")
    ]
    dependent_sets: Annotated[
        tuple[tuple[int, ...], ...],
        Field(description="A1, general position: sets of dependent queries; A2: contexts. Numbers count from 1."),
    ]
    evidence: str


class Subsets(Result):
    """How many subsets of so many queries are linearly independent: one point of a curve."""

    size: Annotated[int, Field(description="Queries of a subset.")]
    tested: int
    dependent: int
    independent_share: float
    interval: Annotated[
        tuple[float, float], Field(description="95 %, Clopper-Pearson; the share itself where it is exact.")
    ]
    exact: Annotated[bool, Field(description="Known of every subset, not of a sample.")]


class Representation(Result):
    """The checks of one set of queries and contexts."""

    name: str
    checks: tuple[Check, ...]
    curve: Annotated[
        tuple[Subsets, ...], Field(description="Share of independent subsets against their size, where asked for.")
    ] = ()

    @property
    def violations(self) -> tuple[str, ...]:
        """The bound's assumptions that fail, with the examples; empty where none was refuted."""
        failed = [check for check in self.checks if check.assumption in ("A1", "A2") and check.verdict == "fails"]
        return tuple(f"{check.assumption}: {check.evidence}" for check in failed)


class AssumptionReport(Result):
    """Assumptions checked, a representation each."""

    source: str
    library_size: int
    context_size: int
    d_model: int
    contexts: Literal["shared", "fresh"]
    samples: int
    seed: int
    tolerance: Annotated[str, Field(description="When singular values count as zero.")]
    representations: tuple[Representation, ...]
    notes: tuple[str, ...] = ()
    schema_version: Literal[1] = 1

    def require(self) -> None:
        """Refuse examples that violate A1 or A2, in any representation.

        Raises:
            LibraryError: that names the examples.
        """
        violations = [one for representation in self.representations for one in representation.violations]
        if violations:
            raise LibraryError(f"library: the bound does not apply: {'; '.join(violations)}")


def check_assumptions(
    queries: Any,
    contexts: Any,
    *,
    samples: int = 5000,
    seed: int = 0,
    precision: Precision | None = None,
    curve: bool = False,
    source: str = "given arrays",
) -> AssumptionReport:
    """Check what the memorization bound assumes of queries and contexts.

    Args:
        queries: (T, d).
        contexts: (T, n, d), or (n, d) or (1, n, d) where all share one.
        samples: as in `represent`, like what follows.
        seed: of the draws.
        precision: whose machine epsilon a rank is judged with; that of the arrays when not given.
        curve: count independent subsets of other sizes, too (`curve_of`).
        source: where they are from.

    Raises:
        LibraryError: as `represent`.
    """
    sets = [("given arrays", *pairs(queries, contexts))]
    return report(source, sets, samples=samples, seed=seed, precision=precision, curve=curve)


def report(
    source: str,
    sets: Sequence[tuple[str, np.ndarray, np.ndarray]],
    *,
    samples: int,
    seed: int,
    precision: Precision | None,
    curve: bool = False,
    notes: tuple[str, ...] = (),
) -> AssumptionReport:
    """The checks of named queries and contexts, all of one size.

    Raises:
        LibraryError: as `represent`.
    """
    _, queries, contexts = sets[0]
    return AssumptionReport(
        source=source,
        library_size=len(queries),
        context_size=contexts.shape[1],
        d_model=contexts.shape[2],
        contexts="shared" if len(contexts) == 1 else "fresh",
        samples=samples,
        seed=seed,
        tolerance=tolerance(epsilon(queries, contexts, precision)),
        representations=tuple(
            represent(name, *given, samples=samples, seed=seed, precision=precision, curve=curve)
            for name, *given in sets
        ),
        notes=notes,
    )


def represent(
    name: str,
    queries: Any,
    contexts: Any,
    *,
    samples: int = 5000,
    seed: int = 0,
    precision: Precision | None = None,
    curve: bool = False,
) -> Representation:
    """Check every assumption on one set of examples.

    Besides A1, A2 and general position this asks A1 of the query plus the mean of its context's tokens, as the authors'
    notebook does (its "Assumption 3").

    Args:
        name: what the examples are.
        queries: (T, d).
        contexts: (T, n, d), or (n, d) or (1, n, d) where all share one.
        samples: subsets drawn where there are too many to test all; of general position a tenth.
        seed: of the draws.
        precision: whose machine epsilon a rank is judged with; that of the arrays when not given.
        curve: count independent subsets of other sizes, too (`curve_of`).

    Raises:
        LibraryError: for arrays that are empty, not finite or of wrong shapes, and for n ≥ d; it names the array and
            the example (from 1).
    """
    queries, contexts = pairs(queries, contexts)
    eps = epsilon(queries, contexts, precision)
    (count, channels), size = queries.shape, contexts.shape[1]
    if size >= channels:
        raise LibraryError(f"contexts: fewer tokens than their {channels} channels (n < d), got {size}")
    whole("samples", samples, 1, LibraryError)
    whole("seed", seed, 0, LibraryError)
    truth("curve", curve, LibraryError)
    together = scaled(queries), scaled(contexts)
    moved = together_with_mean(queries, contexts)
    return Representation(
        name=name,
        checks=(
            _subsets("A1", together[0], min(size, count), eps, samples, seed),
            _contexts(together[1], eps),
            _subsets("A1 of query + context mean", moved, min(size, count), eps, samples, seed),
            _subsets("general position", together[0], min(channels, count), eps, max(samples // FEWER, 1), seed),
        ),
        curve=curve_of(together[0], size, eps, max(samples // FEWER, 1), seed) if curve else (),
    )


def curve_of(
    queries: Float[np.ndarray, "items channels"], context_size: int, eps: float, samples: int, seed: int
) -> tuple[Subsets, ...]:
    """The share of independent subsets of k queries against k: powers of two, n (A1) and d (general position).

    Args:
        samples: subsets of each size; fewer where there are no more.
    """
    count, channels = queries.shape
    most = min(channels, count)
    sizes = {min(context_size, most), most, *(2**power for power in range(most.bit_length()))}
    found = []
    for size in sorted(sizes):
        one = count_dependent(queries, size, eps, samples, seed)
        share = 1 - one.dependent / one.tested
        ends = binomtest(one.tested - one.dependent, one.tested).proportion_ci(LEVEL)
        found.append(
            Subsets(
                size=size,
                tested=one.tested,
                dependent=one.dependent,
                independent_share=share,
                interval=(share, share) if one.every else (float(ends.low), float(ends.high)),
                exact=one.every,
            )
        )
    return tuple(found)


def epsilon(queries: np.ndarray, contexts: np.ndarray, precision: Precision | None) -> float:
    """Machine epsilon of a precision, or of the less precise array.

    Raises:
        LibraryError: for arrays of another precision than float32 or float64.
    """
    for name, array in (("queries", queries), ("contexts", contexts)):
        if array.dtype.newbyteorder("=") not in (np.float32, np.float64):
            raise LibraryError(f"{name}: an array of float32 or float64, got {array.dtype}")
    if precision not in (None, *get_args(Precision)):
        raise LibraryError(f"precision: {' or '.join(get_args(Precision))}, got {shown(precision)}")
    if precision is not None:
        return float(np.finfo(precision).eps)
    return max(float(np.finfo(array.dtype).eps) for array in (queries, contexts))


def tolerance(eps: float) -> str:
    """The rule of `rank`, in words."""
    kind = "float32" if eps > np.finfo(np.float64).eps else "float64"
    return f"singular values up to max(k, d) · {eps:.3g} ({kind}) times the largest count as zero"


def together_with_mean(
    queries: Float[np.ndarray, "items channels"], contexts: Float[np.ndarray, "g tokens channels"]
) -> Float[np.ndarray, "items channels"]:
    """Each query plus the mean of its context's tokens, up to a common factor."""
    largest = max(np.abs(queries).max(), np.abs(contexts).max())
    exponent = -int(np.frexp(np.float64(largest))[1])
    return np.ldexp(np.float64(queries), exponent) + np.ldexp(np.float64(contexts), exponent).mean(1)


def _subsets(name: Name, rows: np.ndarray, size: int, eps: float, samples: int, seed: int) -> Check:
    found = probe_subsets(rows, size, eps, samples, seed)
    certain = found.span is not None or any(len(one) <= min(2, size) for one in found.sets)
    verdict: Verdict
    if certain or found.dependent > found.dependent_close:
        verdict = "fails"
    elif found.dependent:
        verdict = "undecided"
    else:
        verdict = "holds" if found.every else "not refuted"
    if found.span is not None:
        share = 1.0
    elif found.every:
        share = found.dependent / found.tested
    else:
        share = share_below(found.dependent, found.tested, LEVEL)
    sets = tuple(tuple(at + 1 for at in one) for one in found.sets)
    return Check(
        assumption=name,
        statement=f"any {size} {'vectors' if name == 'A1 of query + context mean' else 'queries'} are independent",
        size=size,
        verdict=verdict,
        exact=found.every,
        tested=found.tested,
        dependent=found.dependent,
        share_below=share,
        level=None if found.every else LEVEL,
        smallest_rank=found.smallest_rank,
        close=found.close,
        dependent_sets=sets,
        evidence="; ".join(_evidence(found, share, sets)),
    )


def _evidence(found: Probe, share: float, sets: tuple[tuple[int, ...], ...]) -> list[str]:
    """The evidence, in phrases."""
    parts = []
    zeros = [one[0] for one in sets if len(one) == 1]
    pairs_ = [one for one in sets if len(one) == 2]
    others = [one for one in sets if len(one) > 2]
    if zeros:
        parts.append(f"zero: {_numbers(zeros)}")
    if pairs_:
        shown = ", ".join(f"{one} and {other}" for one, other in pairs_[:3])
        parts.append(f"parallel: {shown}{f' and {len(pairs_) - 3} more pairs' if len(pairs_) > 3 else ''}")
    if found.span is not None:
        parts.append(f"all span {found.span} dimensions, so every {found.size} are dependent")
    if others:
        parts.append(f"dependent: {_numbers(min(others, key=len))}")
    if found.tested:
        counted = f"{found.dependent or 'none'} of {found.tested}"
        if found.every:
            parts.append(f"{counted} subsets dependent, every one tested")
        else:
            limit = f" (with {LEVEL:.0%} confidence below {share:.2%} of all)" if share < 0.995 else ""
            parts.append(f"{counted} sampled subsets dependent{limit}")
    if found.smallest_rank is not None:
        parts.append(f"smallest rank {found.smallest_rank} of {found.size}")
    if found.close:
        parts.append(f"{found.close} decisions close to the tolerance")
    return parts


def _contexts(contexts: Float[np.ndarray, "g tokens channels"], eps: float) -> Check:
    found: list[Rank] = [rank(context, eps) for context in working.through(contexts, "ranks of contexts")]
    size = contexts.shape[1]
    dependent = [at for at, one in enumerate(found, start=1) if one.rank < size]
    sure = [at for at in dependent if not found[at - 1].close]
    close = sum(one.close for one in found)
    smallest = min(one.rank for one in found) if dependent else None
    if not dependent:
        evidence = f"all {len(found)} contexts have rank {size}" if len(found) > 1 else f"the context has rank {size}"
    elif len(found) > 1:
        evidence = (
            f"{len(dependent)} of {len(found)} contexts have dependent tokens: {_numbers(dependent)}; smallest rank "
            f"{smallest} of {size}"
        )
    else:
        evidence = f"the context has rank {smallest} of {size}"
    return Check(
        assumption="A2",
        statement=f"the {size} tokens of each context are independent",
        size=size,
        verdict="fails" if sure else "undecided" if dependent else "holds",
        exact=True,
        tested=len(found),
        dependent=len(dependent),
        share_below=len(dependent) / len(found),
        level=None,
        smallest_rank=smallest,
        close=close,
        dependent_sets=tuple((at,) for at in dependent),
        evidence=evidence + (f"; {close} decisions close to the tolerance" if close else ""),
    )


def _numbers(examples: list[int] | tuple[int, ...]) -> str:
    more = f" and {len(examples) - WORDS} more" if len(examples) > WORDS else ""
    return f"{', '.join(map(str, examples[:WORDS]))}{more}"
