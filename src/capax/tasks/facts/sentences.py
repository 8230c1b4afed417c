"""Facts as sentences in the tokens of a model that exists: question, answer, and padding behind them."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from capax.specs.facts import LONGEST_ROW
from capax.tasks.facts.fact import FactsError
from capax.tasks.facts.rows import Rows, Strings
from capax.tasks.facts.table import Table
from capax.tasks.tokenization import Pretrained


@dataclass(frozen=True)
class Template:
    """A sentence in two: the question, and what goes on from it, the space before the answer with it.

    Attributes:
        question: with places for key and relation.
        before: white space before the answer.
        end: what is behind the answer, and is said with it.
    """

    question: str
    before: str
    end: str

    @classmethod
    def of(cls, text: str) -> Template:
        """The parts of a template that a spec has checked."""
        head, end = text.split("{answer}")
        question = head.rstrip()
        return cls(question, head[len(question) :], end)

    def asked(self, key: str, relation: str) -> str:
        """The question; without a relation the space behind it falls away, too."""
        text = self.question if relation else re.sub(r"\{relation\} ?", "", self.question).rstrip()
        return re.sub(r"\{(key|relation)\}", lambda found: key if found[1] == "key" else relation, text)

    def said(self, answer: str) -> str:
        """What goes on from the question."""
        return f"{self.before}{answer}{self.end}"


@dataclass(frozen=True)
class Sentences:
    """How facts are sentences. Question and answer are encoded each for itself and joined.

    Attributes:
        asked: the tokens of questions.
        pairs: of each question its pair of key and relation, key × relations + relation, in their order.
        answers: the tokens of each entity as an answer, what ends it with it; of one that is none no tokens.
    """

    text: Pretrained
    template: Template
    asked: Strings
    pairs: Int[np.ndarray, " questions"]
    answers: Strings

    @property
    def vocab_size(self) -> int:
        """All tokens of the tokenizer."""
        return self.text.vocab_size

    @property
    def padding(self) -> int:
        """What fills up a row: any token will do, as it is never looked at."""
        return 0

    @property
    def lengths(self) -> Int[np.ndarray, " entities"]:
        """Tokens of each answer, what ends it with it."""
        return self.answers.lengths

    def rows(self, table: Table, width: int) -> Rows:
        """The rows of some facts, filled up to a width."""
        which = self._questions(table)
        begin = self.asked.lengths[which]
        tokens = np.full((len(table), width), self.padding, dtype=np.int64)
        self.asked.put(tokens, np.zeros_like(begin), which)
        self.answers.put(tokens, begin, table.answers)
        return Rows(tokens, begin, begin + self.lengths[table.answers])

    def widest(self, table: Table) -> tuple[int, int]:
        """Tokens of the longest row and of the longest answer."""
        answers = self.lengths[table.answers]
        return int((self.asked.lengths[self._questions(table)] + answers).max()), int(answers.max())

    def question(self, table: Table, key: str, relation: int) -> list[int]:
        """The tokens of a question, of any key."""
        return [int(token) for token in self.text.encode([self.template.asked(key, table.relations[relation])])[0]]

    def over(self, table: Table, relation: int, said: list[int]) -> bool:
        """Whether an answer ends here: it is one of the relation's, or begins none and ends as all do."""
        known = [self.answers.tokens(one) for one in np.unique(table.answers[table.relation == relation])]
        if any(one[: len(said)] == said for one in known):
            return said in known
        end = self.template.end.strip() or self.template.end
        return bool(end) and self.text.decode(said).endswith(end)

    def words(self, table: Table, said: list[int]) -> str:
        """An answer in words: as the file has it, or as its tokens are read."""
        for one in np.unique(table.answers):
            if self.answers.tokens(one) == said:
                return table.entities[one]
        return self.text.decode(said).strip().removesuffix(self.template.end.strip()).strip()

    def _questions(self, table: Table) -> Int[np.ndarray, " facts"]:
        return np.searchsorted(self.pairs, _pairs(table))


def sentences(table: Table, text: Pretrained, template: str) -> Sentences:
    """Facts as sentences.

    Raises:
        FactsError: for questions or answers that tokens do not tell apart, answers without an end, or too long a row.
    """
    if "{relation}" not in template and table.named_relations:
        raise FactsError(f"template: needs {{relation}}, as the file has {len(table.relations)}; got {template!r:.80}")
    parts = Template.of(template)
    pairs = np.unique(_pairs(table))
    keys, relations = np.divmod(pairs, len(table.relations))
    questions = [
        parts.asked(table.entities[key], table.relations[relation])
        for key, relation in zip(keys.tolist(), relations.tolist(), strict=True)
    ]
    told = np.unique(table.answers)
    encoded = dict(zip(told.tolist(), text.encode_on([parts.said(table.entities[one]) for one in told]), strict=True))
    none = np.zeros(0, dtype=np.int64)
    found = Sentences(
        text,
        parts,
        Strings.of(text.encode(questions)),
        pairs,
        Strings.of([encoded.get(one, none) for one in range(len(table.entities))]),
    )
    _refuse_alike(found, table, questions)
    if (longest := found.widest(table)[0]) > LONGEST_ROW:
        raise FactsError(f"library: a fact takes {longest} tokens; at most {LONGEST_ROW} are read")
    return found


def _pairs(table: Table) -> Int[np.ndarray, " facts"]:
    return table.keys.astype(np.int64) * len(table.relations) + table.relation


def _refuse_alike(found: Sentences, table: Table, questions: list[str]) -> None:
    """Refuse what could not be asked, or of which more could be known than there is to know."""
    by_tokens: dict[tuple[int, ...], str] = {}
    for number, question in enumerate(questions):
        tokens = tuple(found.asked.tokens(number))
        if not tokens:
            raise FactsError(f"tokenizer: has no tokens for the question {question!r:.80}")
        if (other := by_tokens.setdefault(tokens, question)) is not question:
            raise FactsError(f"tokenizer: has the same tokens for the questions {other!r:.80} and {question!r:.80}")
    lengths = found.lengths[table.answers]
    if not found.template.end and lengths.min() < lengths.max():
        raise FactsError(
            "template: should end with something behind {answer}, such as a full stop, as answers have "
            f"{lengths.min()} to {lengths.max()} tokens"
        )
    pairs = np.unique(np.stack([table.relation, table.answers], 1), axis=0).tolist()
    said = sorted(([relation, *found.answers.tokens(one)], one) for relation, one in pairs)
    for (begin, one), (more, other) in itertools.pairwise(said):
        if more[: len(begin)] == begin:  # then the probabilities of all answers could add up to more than one
            raise FactsError(
                f"template: the tokens of the answer {table.entities[one]!r:.80} begin those of "
                f"{table.entities[other]!r:.80}; another end, such as a line break, may tell them apart"
            )
    if not lengths.min():
        raise FactsError(f"tokenizer: has no tokens for {table.entities[table.answers[lengths.argmin()]]!r:.80}")
