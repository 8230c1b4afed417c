"""Facts as arrays of numbers: what is asked, what is ambiguous, and how much information the answers have."""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, replace
from textwrap import shorten
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from capax import working
from capax.specs.facts import Ambiguous
from capax.tasks.facts.fact import Fact, FactsError

LONGEST_WORDS = 60
"""Letters of a name, where a fact is said in words."""

REPORT_EVERY = 20_000
"""Facts after which it is said how many have been read."""


@dataclass(frozen=True)
class Table:
    """Distinct facts in the order of their first appearance; names are numbers.

    Attributes:
        entities: what is a key or an answer.
        relations: their names; one that is empty where the file names none.
        keys, relation, answers: of each fact, places in these lists.
        weights: of each fact; those of repeats are added up, where they are not all 1.
        repeats: facts that were read again, and left out.
    """

    entities: list[str]
    relations: list[str]
    keys: Int[np.ndarray, " facts"]
    relation: Int[np.ndarray, " facts"]
    answers: Int[np.ndarray, " facts"]
    weights: Float[np.ndarray, " facts"]
    repeats: int = 0

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: Any) -> Table:
        """Some of the facts; names keep their numbers."""
        names = ("keys", "relation", "answers", "weights")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def compacted(self) -> Table:
        """With the entities and relations that occur alone, numbered anew in their order."""
        used, which = np.unique(np.concatenate([self.keys, self.answers]), return_inverse=True)
        keys, answers = np.split(which.ravel(), 2)
        named, relation = np.unique(self.relation, return_inverse=True)
        return replace(
            self,
            entities=[self.entities[one] for one in used],
            relations=[self.relations[one] for one in named],
            keys=keys,
            relation=relation.ravel(),
            answers=answers,
        )

    @property
    def pairs(self) -> Int[np.ndarray, " facts"]:
        """The number of each fact's pair of key and relation: what is asked."""
        codes = self.keys.astype(np.int64) * len(self.relations) + self.relation
        return np.unique(codes, return_inverse=True)[1].ravel()

    def words(self, row: int) -> str:
        """A fact in words."""
        parts = (self.entities[self.keys[row]], self.relations[self.relation[row]], self.entities[self.answers[row]])
        return " · ".join(shorten(part, LONGEST_WORDS, placeholder="…") for part in parts if part)

    def text(self) -> str:
        """All facts, a line each, parted by tabs."""
        rows = zip(self.keys.tolist(), self.relation.tolist(), self.answers.tolist(), strict=True)
        names = self.entities
        return "".join(f"{names[key]}\t{self.relations[kind]}\t{names[answer]}\n" for key, kind, answer in rows)

    @property
    def named_relations(self) -> bool:
        """Whether there is more than one relation, so that a question has to name it."""
        return len(self.relations) > 1

    def content_hash(self) -> str:
        """Sha256 of the facts: the same from files of any kind."""
        found = hashlib.sha256()
        for name in (*self.entities, "", *self.relations):
            data = name.encode()
            found.update(len(data).to_bytes(4, "little") + data)
        for part in (self.keys, self.relation, self.answers, self.weights):
            found.update(part.astype("<f8" if part.dtype.kind == "f" else "<i8").tobytes())
        return found.hexdigest()


def collect(facts: Iterable[Fact]) -> Table:
    """Facts, read once and held as numbers.

    Raises:
        FactsError: where there is none, or weights whose sum may be infinite.
    """
    entities: dict[str, int] = {}
    relations: dict[str, int] = {}
    keys, relation, answers, weights = array("q"), array("q"), array("q"), array("d")
    for number, fact in enumerate(facts):
        keys.append(entities.setdefault(fact.key, len(entities)))
        relation.append(relations.setdefault(fact.relation, len(relations)))
        answers.append(entities.setdefault(fact.answer, len(entities)))
        weights.append(fact.weight)
        if number % REPORT_EVERY == 0:
            working.say("facts read", number)
    if not keys:
        raise FactsError("library: holds no facts")
    subject, kind, target = (np.array(column, dtype=np.int64) for column in (keys, relation, answers))
    codes = (subject * len(relations) + kind) * len(entities) + target
    _, first, which = np.unique(codes, return_index=True, return_inverse=True)
    told = np.array(weights)
    # a fact that is said again counts once; where weights are told, a list of occurrences, it counts that much more
    summed = np.bincount(which.ravel(), told, len(first)) if (told != 1).any() else np.ones(len(first))
    if math.isinf(float(summed.max()) * len(summed)):
        raise FactsError(f"weight: too large for {len(summed)} facts: their sum would be infinite")
    order = np.argsort(first)
    rows = first[order]
    return Table(
        list(entities),
        list(relations),
        subject[rows],
        kind[rows],
        target[rows],
        summed[order],
        repeats=len(codes) - len(rows),
    )


class Ambiguity(NamedTuple):
    """Pairs of key and relation with several answers.

    Attributes:
        pairs: of key and relation.
        ambiguous: those with more than one answer.
        facts: of those.
        ceiling: most of all facts that any model recalls that gives one answer to each pair.
    """

    pairs: int
    ambiguous: int
    facts: int
    ceiling: int


def ambiguity(table: Table) -> Ambiguity:
    """How many pairs have several answers; facts are alike where a control gave a pair the same answer twice."""
    pairs, n = table.pairs, len(table.entities)
    told, times = np.unique(pairs * n + table.answers, return_counts=True)
    several = np.bincount(told // n) > 1
    most = np.zeros(len(several), dtype=np.int64)
    np.maximum.at(most, told // n, times)
    return Ambiguity(len(several), int(several.sum()), int(several[pairs].sum()), int(most.sum()))


def asked(table: Table, ambiguous: Ambiguous) -> Table:
    """The facts that are learned: with `drop` those of pairs with one answer, with `first` the first of each pair.

    Entities of no such fact are left out.

    Raises:
        FactsError: with `refuse`, where a pair has several answers; the line has the first one, the counts and the
            ceiling.
    """
    if ambiguous in ("any", "keep"):
        return table
    pairs = table.pairs
    counts = np.bincount(pairs)
    if ambiguous == "drop":
        found = table.take(counts[pairs] == 1)
        if not len(found):
            raise FactsError("ambiguous: 'drop' leaves no fact, as every key and relation has several answers")
        return found.compacted()
    if ambiguous == "first":
        return table.take(np.sort(np.unique(pairs, return_index=True)[1])).compacted()
    if counts.max() > 1:
        row = int(np.flatnonzero(counts[pairs] > 1)[0])
        of = ", ".join(filter(None, (table.entities[table.keys[row]], table.relations[table.relation[row]])))
        several = ambiguity(table)
        raise FactsError(
            f"ambiguous: {several.ambiguous} of {several.pairs} pairs of key and relation have several answers "
            f"({of:.80} has {counts[pairs[row]]}): no model recalls more than {several.ceiling} of {len(table)} facts; "
            "drop, first, any or keep says what to do with them"
        )
    return table


class Answers(NamedTuple):
    """What answers have of information, by relation.

    Attributes:
        counts: facts of each relation.
        different: different answers of each.
        commonest: facts that the best constant answer to each recalls.
        entropy: of the answers' own distribution, bits.
    """

    counts: Int[np.ndarray, " relations"]
    different: Int[np.ndarray, " relations"]
    commonest: Int[np.ndarray, " relations"]
    entropy: Float[np.ndarray, " relations"]

    @property
    def uniform_bits(self) -> Float[np.ndarray, " relations"]:
        """log2 of the different answers of each relation: what a fact is at most worth."""
        return np.log2(np.maximum(self.different, 1))

    @property
    def bits_per_fact(self) -> float:
        """The mean over facts of the uniform guess's bits."""
        return float((self.counts * self.uniform_bits).sum() / self.counts.sum())

    @property
    def entropy_per_fact(self) -> float:
        """The mean over facts of the entropy of their relation's answers, bits."""
        return float((self.counts * self.entropy).sum() / self.counts.sum())


def answers(table: Table) -> Answers:
    """What the answers have of information."""
    n = len(table.relations)
    codes = table.relation.astype(np.int64) * len(table.entities) + table.answers
    unique, times = np.unique(codes, return_counts=True)
    of = unique // len(table.entities)
    counts = np.bincount(table.relation, minlength=n)
    commonest = np.zeros(n, dtype=np.int64)
    np.maximum.at(commonest, of, times)
    share = times / counts[of]
    return Answers(counts, np.bincount(of, minlength=n), commonest, np.bincount(of, -share * np.log2(share), n))


def guess(table: Table, *, any_counts: bool) -> float:
    """Share of the facts that a uniform guess among the different answers of their relation recalls.

    Args:
        any_counts: whether one answer of a pair recalls all facts of it.
    """
    pairs = table.pairs
    right = np.bincount(pairs)[pairs] if any_counts else np.ones(len(table))
    return float((right / answers(table).different[table.relation]).mean())


def bits_of_any(table: Table) -> float:
    """Mean over facts of what recalling one is worth where any of its pair's k answers does: log2(n / k) of k facts."""
    pairs = table.pairs
    alike = np.bincount(pairs)[pairs]
    different = answers(table).different[table.relation]
    return float((np.log2(np.maximum(different / alike, 1)) / alike).mean())


def constant(table: Table, *, any_counts: bool) -> int:
    """Facts that the best constant answer of each relation recalls.

    Args:
        any_counts: whether one answer of a pair recalls all facts of it.
    """
    if not any_counts:
        return int(answers(table).commonest.sum())
    pairs, n = table.pairs, len(table.entities)
    size = np.bincount(pairs)
    kind = np.zeros(len(size), dtype=np.int64)
    kind[pairs] = table.relation
    pair, answer = np.divmod(np.unique(pairs * n + table.answers), n)
    codes, which = np.unique(kind[pair] * n + answer, return_inverse=True)
    most = np.zeros(len(table.relations))
    np.maximum.at(most, codes // n, np.bincount(which.ravel(), size[pair]))
    return int(most.sum())


def shuffled(table: Table, generator: np.random.Generator) -> Table:
    """The same questions and, relation by relation, the same answers in another order."""
    found = table.answers.copy()
    for number in range(len(table.relations)):
        rows = np.flatnonzero(table.relation == number)
        found[rows] = found[generator.permutation(rows)]
    return replace(table, answers=found)


def one_of_pair(table: Table, right: Bool[np.ndarray, " facts"]) -> Bool[np.ndarray, " facts"]:
    """Whether any answer of each fact's pair is given."""
    pairs = table.pairs
    return np.bincount(pairs, right)[pairs] > 0
