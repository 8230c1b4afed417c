"""Facts as rows of tokens: key, relation, answer, and padding behind them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from capax.inputs import is_folder, stamps, whole_path
from capax.specs.facts import LONGEST_ROW, Facts, FactsFile
from capax.tasks.facts.fact import FactsError
from capax.tasks.facts.files import read
from capax.tasks.facts.files.columns import Names
from capax.tasks.facts.rows import Rows, Strings
from capax.tasks.facts.sentences import Sentences, sentences
from capax.tasks.facts.table import Table, ambiguity, answers, asked, bits_of_any, collect, guess
from capax.tasks.tokenization import BytePairs, Bytes, Pretrained, file_of, read_tokenizer


@dataclass(frozen=True)
class Encoding:
    """How entities and relations are tokens.

    Numbers below `base` are those of entities or their text; then one for each relation, where a question has to name
    it or has to say where the key ends; then the end of an answer, where answers differ in length.

    Attributes:
        entities: the tokens of each.
        base: tokens of the entities' vocabulary.
        relations: tokens of relations; none where lengths are alike and there is one relation.
        ends: whether each answer has an end token.
        text: what makes tokens of text; None where entities have tokens of their own.
    """

    entities: Strings
    base: int
    relations: int
    ends: bool
    text: Bytes | BytePairs | None = None

    @property
    def vocab_size(self) -> int:
        """All tokens."""
        return self.base + self.relations + self.ends

    @property
    def padding(self) -> int:
        """What fills up a row: the last token, which is the end where there is one."""
        return self.vocab_size - 1

    @property
    def lengths(self) -> Int[np.ndarray, " entities"]:
        """Tokens of each entity."""
        return self.entities.lengths

    def tokens_of(self, entity: int) -> list[int]:
        """An entity's tokens."""
        return self.entities.tokens(entity)

    def rows(self, table: Table, width: int) -> Rows:
        """The rows of some facts, filled up to a width."""
        keys, answers = self.lengths[table.keys], self.lengths[table.answers]
        begin = keys + (self.relations > 0)
        stop = begin + answers + self.ends
        tokens = np.full((len(table), width), self.padding, dtype=np.int64)
        self.entities.put(tokens, np.zeros_like(begin), table.keys)
        if self.relations:
            tokens[np.arange(len(table)), keys] = self.base + table.relation
        self.entities.put(tokens, begin, table.answers)
        return Rows(tokens, begin, stop)

    def widest(self, table: Table) -> tuple[int, int]:
        """Tokens of the longest row and of the longest answer."""
        answers = self.lengths[table.answers] + self.ends
        return int((self.lengths[table.keys] + (self.relations > 0) + answers).max()), int(answers.max())

    def question(self, table: Table, key: str, relation: int) -> list[int]:
        """The tokens of a question; of text any key has tokens.

        Raises:
            FactsError: for a key that has none.
        """
        named = [self.base + relation] if self.relations else []
        if self.text is not None:
            return [*self.text.encode([key])[0].tolist(), *named]
        if key not in table.entities:
            raise FactsError(
                f"key: {key!r:.80} is no entity of the file's facts that were asked, so that it has no tokens"
            )
        return [*self.tokens_of(table.entities.index(key)), *named]

    def over(self, table: Table, relation: int, said: list[int]) -> bool:
        """Whether an answer ends here."""
        return self.ends and said[-1] == self.padding

    def words(self, table: Table, said: list[int]) -> str:
        """An answer in words; tokens that stand for nothing are shown as they are."""
        answer = said[:-1] if self.ends and said[-1:] == [self.padding] else said
        if self.text is not None:
            if all(token < self.base for token in answer):
                return self.text.decode(answer)
        else:
            rows = np.flatnonzero((self.entities.flat.reshape(-1, int(self.lengths[0])) == answer).all(1))
            if len(rows):
                return table.entities[rows[0]]
        return f"no entity (tokens {' '.join(map(str, answer))})"


def encoding(spec: Facts, table: Table, pretrained: Pretrained | None = None) -> Encoding | Sentences:
    """How a spec puts the facts of a table into tokens.

    Args:
        pretrained: in whose tokens they are sentences.

    Raises:
        FactsError: where a row would be too long, and as `sentences`.
    """
    if pretrained is not None:
        return sentences(table, pretrained, spec.template)
    entities, relations = len(table.entities), len(table.relations)
    if spec.tokenization in ("words", "code"):
        length = 1 if spec.tokenization == "words" else spec.code_len
        flat, base = _codes(entities, length)
        named = relations if table.named_relations else 0
        each = np.arange(entities)
        return Encoding(Strings(flat, each * length, np.full(entities, length)), base, named, ends=False)
    text = Bytes() if spec.tokenization == "bytes" else BytePairs.trained(table.entities, spec.bpe_size)
    made = Encoding(Strings.of(text.encode(table.entities)), text.vocab_size, relations, ends=True, text=text)
    if (longest := made.widest(table)[0]) > LONGEST_ROW:
        raise FactsError(f"library: a fact takes {longest} tokens; at most {LONGEST_ROW} are read")
    return made


def _codes(entities: int, length: int) -> tuple[np.ndarray, int]:
    """Entities as numbers of so many digits, in no order: the least base in which there are enough."""
    base = max(int(np.ceil(entities ** (1 / length) - 1e-9)), 2)
    while base**length < entities:
        base += 1
    numbers = np.random.default_rng(0).permutation(base**length)[:entities]
    places = base ** np.arange(length - 1, -1, -1)
    return (numbers[:, None] // places % base).ravel(), base


@dataclass(frozen=True)
class Prepared:
    """A file of facts, read and put into tokens.

    Attributes:
        table: the facts that may be asked.
        sha256: of the whole file's facts.
        width, answer_len: tokens of the longest row, and of the longest answer.
        tokenizer_sha256: of the tokenizer's file, where there is one.
    """

    table: Table
    encoding: Encoding | Sentences
    sha256: str
    width: int
    answer_len: int
    tokenizer_sha256: str | None = None


def prepared(spec: Facts) -> Prepared:
    """The facts of a spec's file, in the tokens of its tokenizer; files are read once while they do not change.

    Raises:
        FactsError: for what `read` or `encoding` refuse.
        TokenizationError: for a tokenizer that cannot be read.
    """
    path = Path(spec.library)
    folder = is_folder(path, "facts", FactsError)
    files = sorted([*path.glob("data.*"), *path.glob("index.*")]) if folder else [path]
    tokens = None
    if spec.tokenizer is not None and spec.tokenization == "bpe":
        place = file_of(Path(spec.tokenizer))
        tokens = (place, stamps([place]))
    names = ("key", "relation", "answer", "weight", "tokenization", "code_len", "bpe_size", "ambiguous", "template")
    return _prepared(path, stamps(files), tokens, tuple((name, getattr(spec, name)) for name in names))


@lru_cache(maxsize=4)
def _prepared(path: Path, state: Any, tokens: tuple[Path, Any] | None, fields: tuple[tuple[str, Any], ...]) -> Prepared:
    given: Any = dict(fields)
    table = _table(path, state, *(given[name] for name in ("key", "relation", "answer", "weight")))
    chosen = asked(table, given["ambiguous"])
    pretrained, content = (None, None) if tokens is None else _pretrained(*tokens)
    made = encoding(Facts.model_construct(**given), chosen, pretrained)
    return Prepared(chosen, made, table.content_hash(), *made.widest(chosen), content)


@lru_cache(maxsize=2)
def _pretrained(path: Path, state: Any) -> tuple[Pretrained, str]:
    return read_tokenizer(path)


@lru_cache(maxsize=2)
def _table(
    path: Path, state: Any, key: str | None, relation: str | None, answer: str | None, weight: str | None
) -> Table:
    return collect(read.read(path, key=key, relation=relation, answer=answer, weight=weight))


def columns_by_place(spec: Facts) -> str | None:
    """What the first line of a spec's file calls its columns, where it may be a fact as well."""
    return read.columns_by_place(Path(spec.library), Names(*(getattr(spec, name) for name in Names._fields)))


def describe(spec: Facts) -> dict[str, Any]:
    """A spec's fields that follow from its file.

    Raises:
        FactsError: for what cannot be read or learned.
    """
    found = prepared(spec)
    information = answers(found.table)
    pairs = ambiguity(found.table)
    given = None if spec.tokenizer is None else whole_path(spec.tokenizer, "tokenizer", FactsError)
    return {
        "tokenizer": given,
        "tokenizer_sha256": found.tokenizer_sha256,
        "library": whole_path(spec.library, "library", FactsError),
        "library_sha256": found.sha256,
        "any_bits": round(bits_of_any(found.table), 9) if spec.ambiguous == "any" and pairs.ambiguous else None,
        "file": FactsFile(
            facts=len(found.table),
            relations=len(found.table.relations),
            entities=len(found.table.entities),
            vocab_size=max(found.encoding.vocab_size, 2),
            seq_len=found.width,
            answer_len=found.answer_len,
            # rounded, as they are part of a run's key: sums differ in their last digits from machine to machine
            guess=round(guess(found.table, any_counts=spec.ambiguous == "any"), 9),
            bits_per_fact=round(information.bits_per_fact, 9),
            entropy_per_fact=round(information.entropy_per_fact, 9),
            recallable=pairs.ceiling if spec.ambiguous == "keep" else len(found.table),
        ),
    }


def tokenizer(spec: Facts) -> dict[str, str]:
    """What makes tokens of text, as `capax.tasks.tokenization.from_json` reads it; empty where entities have tokens."""
    text = prepared(spec).encoding.text
    return {} if text is None else {"tokenizer": text.to_json()}
