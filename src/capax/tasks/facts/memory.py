"""A trained memory of facts, asked in words."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from capax.errors import shown
from capax.models.ensemble import TokenEnsemble
from capax.results import FactRecall, Measurement
from capax.tasks.facts.encoding import Encoding, prepared
from capax.tasks.facts.fact import FactsError
from capax.tasks.facts.library import draw
from capax.tasks.facts.sentences import Sentences
from capax.tasks.facts.table import Table


@dataclass(frozen=True)
class FactMemory:
    """The best restart of a run on facts: its measurement, its model, and the facts that it learned."""

    run: Measurement
    model: TokenEnsemble[Any]
    library: Table
    encoding: Encoding | Sentences

    @classmethod
    def of(cls, run: Measurement, model: TokenEnsemble[Any], generator: np.random.Generator) -> FactMemory:
        """With the facts read, and drawn, again."""
        task: Any = run.spec.task
        return cls(run, model, draw(task, run.library_size, generator), prepared(task).encoding)

    def asked(self, words: Sequence[str]) -> FactRecall:
        """`recall` of a key and, where it is needed, a relation.

        Raises:
            FactsError: for no word or more than two, and as `recall`.
        """
        if not 1 <= len(words) <= 2:
            raise FactsError(f"question: a key, and a relation where there are several; got {len(words)} words")
        return self.recall(*words)

    def recall(self, key: str, relation: str = "") -> FactRecall:
        """What it answers to a key and a relation, token by token the most probable.

        Args:
            relation: may be left out where the file has one only.

        Raises:
            FactsError: for a key that is empty or has no tokens of its own, a relation that the file lacks, or one that
                is missing.
        """
        table, encoding = self.library, self.encoding
        for name, word in (("key", key), ("relation", relation)):
            if not isinstance(word, str):
                raise FactsError(f"{name}: a text, got {shown(word)}")
        key = unicodedata.normalize("NFC", key.strip())
        number = self._relation(unicodedata.normalize("NFC", relation.strip()))
        if not key:
            raise FactsError("key: is empty")
        row = encoding.question(table, key, number)
        nats, width = 0.0, self.run.spec.task.sizes()["context"]
        if len(row) > width:
            raise FactsError(f"key: with its relation at most {width} tokens, got {len(row)}")
        answer: list[int] = []
        longest, scored = encoding.widest(table)[1], self.run.spec.task.scored("recall")
        while len(answer) < longest and len(row) <= width:
            filled = row + [encoding.padding] * (width - len(row))
            with torch.no_grad():
                every = self.model.logits(torch.tensor(filled).view(1, 1, -1), scored)[0, 0]
            logits = every[-1 if scored == "last" else len(row) - 1]
            token = int(logits.argmax())
            nats -= float(logits.double().log_softmax(-1)[token])
            row.append(token)
            answer.append(token)
            if encoding.over(table, number, answer):
                break
        else:
            if len(answer) < longest:
                raise FactsError(
                    f"key: too long: {len(answer)} of {longest} tokens of an answer fit beside it into the {width} "
                    "that the model reads"
                )
        said = encoding.words(table, answer)
        known = self._known(key, number)
        return FactRecall(
            answer=said,
            probability=float(np.exp(-nats)),
            file_answers=known,
            agrees=said in known if known else None,
        )

    def _relation(self, relation: str) -> int:
        names = self.library.relations
        if not relation and len(names) == 1:
            return 0
        if names == [""]:
            raise FactsError(f"relation: the file names none, got {relation!r:.80}")
        if relation not in names:
            some = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
            said = f"one of {some}, got {relation!r:.80}" if relation else f"is required; one of {some}"
            raise FactsError(f"relation: {said}")
        return names.index(relation)

    def _known(self, key: str, relation: int) -> tuple[str, ...]:
        table = self.library
        if key not in table.entities:
            return ()
        rows = (table.keys == table.entities.index(key)) & (table.relation == relation)
        return tuple(table.entities[one] for one in table.answers[rows])
