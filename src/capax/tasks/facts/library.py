"""Libraries of facts: rows with masked answers, what counts as recalled, and what is known of each answer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from capax import devices
from capax.errors import LibraryError
from capax.models.ensemble import TokenEnsemble
from capax.models.operations import cross_entropy, likeliest
from capax.results import Breakdown, GroupRecall
from capax.specs import Facts
from capax.specs.task import Purpose
from capax.tasks.facts.encoding import columns_by_place, prepared
from capax.tasks.facts.table import Table, ambiguity, answers, constant, one_of_pair, shuffled
from capax.tasks.library import Constant, Evaluation, Library
from capax.text import counted


def draw(spec: Facts, size: int, generator: np.random.Generator) -> Table:
    """So many facts of a spec's file, in its order; all of them where that is as many.

    Args:
        generator: chooses among them, and shuffles a control's answers.

    Raises:
        LibraryError: when the file, or the tokenizer, has changed.
    """
    found = prepared(spec)
    if found.sha256 != spec.library_sha256 or len(found.table) != spec.known.facts:
        raise LibraryError(f"library: {spec.library} has changed since it was read")
    if found.tokenizer_sha256 != spec.tokenizer_sha256:
        raise LibraryError(f"tokenizer: {spec.tokenizer} has changed since it was read")
    table = found.table
    if size < len(table):
        if spec.ambiguous == "any":  # whole pairs, but for the last: chance and bits follow from the answers of each
            order = generator.permutation(int(table.pairs.max()) + 1)[table.pairs]
            rows = np.argsort(order, kind="stable")[:size]
        else:
            rows = generator.choice(len(table), size, replace=False)
        table = table.take(np.sort(rows))
    return shuffled(table, generator) if spec.control == "shuffled" else table


class Batch(NamedTuple):
    """Some rows of each member's library."""

    tokens: Int[Tensor, "e b n"]
    scored: Bool[Tensor, "e b p"]
    uniform: Float[Tensor, "e b"]
    weight: Float[Tensor, "e b"]


@dataclass(frozen=True)
class FactLibrary(Library[TokenEnsemble[Any]]):
    """The facts of an ensemble's members on a device.

    Attributes:
        tables: the facts of each member, or of all (one).
        tokens: their rows; those from a member's size on are padding.
        begin, stop: where answers begin and end.
        uniform: bits of a uniform guess among the answers of each fact's relation.
        weight: of each fact in the loss; 1 on average.
        answer_len: tokens of an answer of each library, on average, by which the loss is a mean.
    """

    breaks_down: ClassVar[bool] = True
    spec: Facts
    tables: tuple[Table, ...]
    tokens: Int[Tensor, "g items n"]
    begin: Int[Tensor, "g items"]
    stop: Int[Tensor, "g items"]
    uniform: Float[Tensor, "g items"]
    weight: Float[Tensor, "g items"]
    answer_len: Float[Tensor, " g"]
    sizes: tuple[int, ...]

    @classmethod
    def build(
        cls,
        spec: Facts,
        model: Any,
        sizes: tuple[int, ...],
        generators: list[np.random.Generator],
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        padded_to: int | None = None,
    ) -> FactLibrary:
        """Draw one library per generator; a single generator for several sizes means that all members share it."""
        tables = tuple(draw(spec, size, generator) for size, generator in zip(sizes, generators, strict=False))
        encoding, width, bits = prepared(spec).encoding, spec.known.seq_len, answers(prepared(spec).table).uniform_bits
        n = padded_to or max(sizes)
        found: dict[str, list[np.ndarray]] = {name: [] for name in ("tokens", "begin", "stop", "uniform", "weight")}
        for table in tables:
            rows = encoding.rows(table, width)
            parts = (rows.tokens, rows.begin, rows.stop, bits[table.relation], table.weights / table.weights.mean())
            for name, part in zip(found, parts, strict=True):
                found[name].append(np.concatenate([part, np.zeros((n - len(part), *part.shape[1:]), part.dtype)]))
        stacked = {name: torch.from_numpy(np.stack(parts)).to(device) for name, parts in found.items()}
        lengths = [
            (stop[:size] - begin[:size]).mean()
            for begin, stop, size in zip(found["begin"], found["stop"], sizes, strict=False)
        ]
        stacked["answer_len"] = torch.tensor(lengths, device=device)
        for name in ("uniform", "weight", "answer_len"):
            stacked[name] = stacked[name].to(dtype)
        return cls(spec=spec, tables=tables, **stacked, sizes=sizes)

    @classmethod
    def remarks(cls, spec: Facts, size: int, generator: np.random.Generator | None) -> tuple[int, tuple[str, ...]]:
        """Facts that no model recalls beside others; what was done with several answers, and repeats."""
        found, notes = prepared(spec), []
        if found.table.repeats:
            notes.append(f"{counted(found.table.repeats, 'repeat')} of facts in the file: each fact counts once")
        columns = columns_by_place(spec)
        if columns is not None:
            notes.append(f"the first line was taken for the names of the columns: {columns}")
        if not spec.known.entropy_per_fact:
            notes.append("each relation has one answer only, so its facts have no bits: any network recalls them")
        recallable = size
        if generator is not None and spec.ambiguous in ("any", "keep"):  # else each library has other pairs
            table = draw(spec, size, generator)
            pairs = ambiguity(table)
            if spec.ambiguous == "keep":
                recallable = pairs.ceiling
            most = f"at most {recallable} of {size} facts can be recalled" if spec.ambiguous == "keep" else "any counts"
            if pairs.ambiguous:
                have = f"{pairs.ambiguous} of {pairs.pairs} pairs of key and relation have several answers"
                notes.append(f"{have}: {most}")
        return recallable, tuple(notes)

    @property
    def uniform_loss(self) -> float:
        """Cross-entropy of a uniform guess of a token, in nats."""
        return math.log(self.spec.known.vocab_size)

    @property
    def uniform_nats(self) -> float:
        """Cross-entropy of a uniform guess among the answers of a fact's relation, on average."""
        return self.spec.known.bits_per_fact * math.log(2)

    @property
    def rows(self) -> int:
        """Rows of the largest library, padding included."""
        return self.tokens.shape[1]

    def table(self, member: int) -> Table:
        """The facts of a member."""
        return self.tables[0 if len(self.tables) == 1 else member]

    def targets(self, member: int) -> list[int]:
        """The different tokens of answers."""
        place = 0 if len(self.tables) == 1 else member
        tokens = self.tokens[place][: self.sizes[member]]
        at = torch.arange(tokens.shape[1], device=tokens.device)
        begin, stop = (part[place][: self.sizes[member], None] for part in (self.begin, self.stop))
        found: list[int] = tokens[(at >= begin) & (at < stop)].unique().tolist()
        return found

    def constant(self, member: int) -> Constant:
        """The best constant answer of each relation, and the entropy of the answers of each."""
        table = self.table(member)
        return Constant(constant(table, any_counts=self.spec.ambiguous == "any"), answers(table).entropy_per_fact)

    def batch(self, rows: Int[Tensor, "e b"]) -> Batch:
        """The facts at `rows` of each member's library."""
        offset = torch.arange(len(self.tokens), device=rows.device)[:, None] * self.rows
        at = rows + offset
        tokens = self.tokens.flatten(0, 1)[at]
        begin, stop, uniform, weight = (
            part.flatten()[at] for part in (self.begin, self.stop, self.uniform, self.weight)
        )
        place = torch.arange(1, tokens.shape[2], device=rows.device)  # of the tokens that are predicted
        begin, stop = begin[..., None], stop[..., None]
        return Batch(tokens, (place >= begin) & (place < stop), uniform, weight)

    def shared(self, model: TokenEnsemble[Any], purpose: Purpose, n_rows: int) -> dict[str, Tensor]:
        """What the model computes once for all facts of a step."""
        return model.shared(self.spec.scored(purpose), n_rows)

    def outputs(
        self, model: TokenEnsemble[Any], batch: Batch, purpose: Purpose, shared: dict[str, Tensor]
    ) -> Float[Tensor, "e b p vocab"]:
        """Next-token scores; of one-token answers at the last position alone."""
        return model.logits(batch.tokens[:, :, :-1], self.spec.scored(purpose), shared, training=purpose == "loss")

    def losses(
        self, logits: Float[Tensor, "e b p vocab"], batch: Batch, weight: Float[Tensor, "e b"]
    ) -> Float[Tensor, " e"]:
        """Each member's weighted sum over facts of the cross-entropy of what the loss covers, per answer token."""
        each = self._each(logits, batch)
        if self.spec.loss == "all":  # padding is behind the last answer token that is scored
            covered = batch.scored.flip(2).cumsum(2).flip(2) > 0
            return ((each * covered).sum(2) / covered.sum(2).clamp_min(1) * batch.weight * weight).sum(1)
        return (self.nats(logits, batch, each) * batch.weight * weight).sum(1) / self.answer_len

    def nats(
        self, logits: Float[Tensor, "e b p vocab"], batch: Batch, each: Float[Tensor, "e b p"] | None = None
    ) -> Float[Tensor, "e b"]:
        """Cross-entropy of each whole answer."""
        each = self._each(logits, batch) if each is None else each
        return each.masked_fill(~batch.scored[:, :, -each.shape[2] :], 0).sum(2)

    def known_bits(self, logits: Float[Tensor, "e b p vocab"], batch: Batch) -> Float[Tensor, "e b"]:
        """What is known of each answer against a uniform guess among those of its relation."""
        return devices.wide(batch.uniform) - devices.wide(self.nats(logits, batch)) / math.log(2)

    def _each(self, logits: Float[Tensor, "e b p vocab"], batch: Batch) -> Float[Tensor, "e b p"]:
        return cross_entropy(logits, batch.tokens[:, :, -logits.shape[2] :])

    def recalled(self, logits: Float[Tensor, "e b p vocab"], batch: Batch) -> Bool[Tensor, "e b"]:
        """Whether every token of the answer is the arg-max."""
        right = likeliest(logits) == batch.tokens[:, :, -logits.shape[2] :]
        return (right | ~batch.scored[:, :, -logits.shape[2] :]).all(2)

    def row_metrics(self, logits: Float[Tensor, "e b p vocab"], batch: Batch) -> dict[str, Float[Tensor, "e b"]]:
        """Cross-entropy of each answer; where any answer will do, which ones are given."""
        found = {"answer_nats": self.nats(logits, batch)}
        if self.spec.ambiguous == "any":
            found["right"] = self.recalled(logits, batch).to(logits.dtype)
        return found

    def evaluation(self, member: int, memorized: int, rows: dict[str, Float[Tensor, " rows"]]) -> Evaluation:
        """Facts recalled, and those whose answer has a probability above one half."""
        nats = devices.wide(rows["answer_nats"])
        if "right" in rows:
            memorized = int(one_of_pair(self.table(member), rows["right"].cpu().numpy() > 0).sum())
        metrics = {"answer_nats": float(nats.mean()), "probable": float((nats < math.log(2)).sum())}
        score = -metrics["answer_nats"] if math.isfinite(metrics["answer_nats"]) else -math.inf
        return Evaluation(memorized, metrics, (float(memorized), score), memorized == self.sizes[member])

    @classmethod
    def breakdown(cls, spec: Facts, size: int, generator: np.random.Generator, right: list[np.ndarray]) -> Breakdown:
        """What is recalled of each relation, tenth of frequency and length of answers, and what is missed most."""
        table, encoding = draw(spec, size, generator), prepared(spec).encoding
        if spec.ambiguous == "any":
            right = [one_of_pair(table, one) for one in right]
        grouping = _Grouping(table, right[0])
        groups = [*grouping.relations(), *grouping.frequencies()]
        lengths = encoding.lengths[table.answers]
        if lengths.min() < lengths.max():
            groups += grouping.ranges("answer_len", lengths)
        missed = len(right) - np.sum(right, 0)
        worst = np.lexsort((-table.weights, -missed))[:MOST_MISSED].tolist()  # of those, the frequent ones first
        return Breakdown(groups=tuple(groups), missed=tuple(table.words(row) for row in worst if missed[row]))


MOST_GROUPS, MOST_MISSED = 20, 20


class _Grouping(NamedTuple):
    """Facts, and which of them are recalled, in groups."""

    table: Table
    right: np.ndarray

    def group(self, by: str, of: str, rows: np.ndarray) -> GroupRecall:
        """One group."""
        weights = self.table.weights
        weight = None if weights.min() == weights.max() else float(weights[rows].mean() / weights.mean())
        return GroupRecall(by=by, of=of, items=int(rows.sum()), recalled=int(self.right[rows].sum()), weight=weight)

    def relations(self) -> list[GroupRecall]:
        """The relations with most facts, each by itself, and the others together."""
        table = self.table
        if not table.named_relations:
            return []
        counts = np.bincount(table.relation, minlength=len(table.relations))
        largest = np.argsort(-counts, kind="stable")[:MOST_GROUPS]
        found = [self.group("relation", table.relations[one], table.relation == one) for one in largest if counts[one]]
        others = ~np.isin(table.relation, largest)
        return [*found, self.group("relation", "others", others)] if others.any() else found

    def frequencies(self) -> list[GroupRecall]:
        """Tenths of the facts, from the rarest to the most frequent, where frequencies differ."""
        weights = self.table.weights
        if weights.min() == weights.max():
            return []
        return self.ranges("frequency", weights)

    def ranges(self, by: str, values: np.ndarray) -> list[GroupRecall]:
        """A group for each value where they are few, else for each tenth, named by its least and greatest value.

        Where one value is that of many tenths, what is above it is a group of its own.
        """
        edges = np.unique(values)
        if len(edges) > MOST_GROUPS:
            tenths = np.unique(np.quantile(values, np.arange(10) / 10))
            edges = np.union1d(tenths, edges[edges > tenths[-1]][:1])
        place, found = np.searchsorted(edges, values, side="right") - 1, []
        for number in np.unique(place).tolist():
            rows = place == number
            low, high = values[rows].min(), values[rows].max()
            found.append(self.group(by, f"{low:g}" if low == high else f"{low:g} to {high:g}", rows))
        return found
