"""Facts of the user's: the answer to a key and a relation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from capax.errors import SpecError, shown
from capax.specs.model import Scored
from capax.specs.plugins import resolve
from capax.specs.protocols import CYCLES, RECIPE
from capax.specs.spec import LARGEST_LIBRARY, Size, Spec, filled_in, must_be_given, since
from capax.specs.task import Purpose, Task
from capax.specs.transformer import Transformer
from capax.text import Over, counted

Tokenization = Literal["code", "words", "bpe", "bytes"]
Ambiguous = Literal["refuse", "drop", "first", "any", "keep"]
"""What is done with a key and relation that have several answers."""

SEVERAL: dict[Ambiguous, str] = {
    "drop": ", those with one answer alone",
    "first": ", of several answers the first",
    "any": ", any of several answers is right",
    "keep": ", several answers each by itself",
}
"""What is done, in words."""

OPTIONS: dict[Tokenization, tuple[str, str]] = {
    "code": ("code_len", "tokenization code"),
    "bpe": ("bpe_size", "tokenization bpe and no tokenizer"),
}
"""Fields of one kind of tokens alone, and with what they go."""

TEMPLATE = "{key} {relation} {answer}."
"""How a fact is said."""

LONGEST_ROW = 4096
"""Tokens of a key, a relation and an answer together."""


class FactsFile(Spec):
    """What follows from a file of facts and from how it is put into tokens: filled in when the file is read."""

    facts: Annotated[Size, Field(description="Facts that may be asked.")]
    relations: Annotated[Size, Field(description="Different relations.")]
    entities: Annotated[Size, Field(description="Different keys and answers.")]
    vocab_size: Annotated[Size, Field(description="Different tokens.")]
    seq_len: Annotated[Size, Field(description="Tokens of the longest fact.")]
    answer_len: Annotated[Size, Field(description="Tokens of the longest answer.")]
    guess: Annotated[float, Field(description="Share that a uniform guess among each relation's answers recalls.")]
    bits_per_fact: Annotated[float, Field(description="Mean log2 of the different answers of a fact's relation.")]
    entropy_per_fact: Annotated[float, Field(description="Mean entropy of the answers of a fact's relation, bits.")]
    recallable: Annotated[Size, Field(description="Facts that one model can recall.")]


class Facts(Task):
    """Remember facts: a key and a relation are given, and the whole answer is to be said.

    A row is the key's tokens, the relation's, and the answer's; shorter ones are filled up behind, where causal
    attention never looks and no loss is counted. Bits are those of the answers: log2 of the different answers of a
    fact's relation, less the model's cross-entropy.
    """

    learner: ClassVar = Transformer
    usual_training: ClassVar[Mapping[str, Any]] = {
        **CYCLES, **RECIPE, "lr": 0.02, "warmup": 0.1, "cycle_tolerance": None, "batch_size": 4096,
        "stop_when_complete": True, "max_epochs": 620, "min_steps": 3100,
    }  # fmt: skip
    unit: ClassVar[str] = "facts"
    share: ClassVar[str | None] = "recall"
    loss_unit: ClassVar[str] = "nats per token that it covers"
    axes: ClassVar[tuple[str, ...]] = ("seq_len", "vocab_size")
    library_class: ClassVar[str] = "capax.tasks.facts.library:FactLibrary"
    memory_class: ClassVar[str] = "capax.tasks.facts.memory:FactMemory"
    planner: ClassVar[str | None] = "capax.cli.plan_facts:plan"
    promise: ClassVar[str | None] = "capax.planning.facts:promised"

    task: Literal["facts"] = "facts"
    library: Annotated[
        str,
        Field(
            description="A file of facts: .tsv, .csv, .jsonl, .ndjson, .obo, .nt, .ttl (needs the extra facts), or a "
            "folder of WordNet's data.*."
        ),
    ]
    key: Annotated[str | None, Field(description="Column of the key (the subject).")] = None
    relation: Annotated[str | None, Field(description="Column of the relation.")] = None
    answer: Annotated[str | None, Field(description="Column of the answer (the object).")] = None
    weight: Annotated[str | None, Field(description="Column of how often a fact occurs: its share of the loss.")] = None
    tokenization: Annotated[
        Tokenization,
        Field(
            description="A code of a few tokens of a small vocabulary for each entity; one token for each; byte pairs "
            "trained on the file; or bytes."
        ),
    ] = "code"
    tokenizer: Annotated[
        str | None,
        since(
            "0.1",
            "A tokenizer.json, or a folder with one, such as a model's: facts are sentences in its tokens, in place of "
            "byte pairs that are trained on the file. It makes tokenization bpe.",
        ),
    ] = None
    tokenizer_sha256: Annotated[
        str | None, filled_in("Content of the tokenizer: filled in when it is read, checked when it is used.", "0.1")
    ] = None
    template: Annotated[
        str,
        since(
            "0.1",
            "The sentence of a fact, with a tokenizer: what is before {answer} is asked, what is behind ends the "
            "answer.",
            max_length=1000,
        ),
    ] = TEMPLATE
    code_len: Annotated[int, Field(ge=1, le=16, description="Tokens of an entity, of tokenization code.")] = 2
    bpe_size: Annotated[int, Field(ge=256, le=1_000_000, description="Byte pairs, of tokenization bpe.")] = 1000
    loss: Annotated[
        Literal["answer", "all"], Field(description="Tokens that the loss covers: the answer's, or every one.")
    ] = "answer"
    ambiguous: Annotated[
        Ambiguous,
        Field(
            description="Keys and relations with several answers: refuse the file; drop them; keep the first answer; "
            "learn all, any of which is right (any), or each for itself, which no model recalls whole (keep)."
        ),
    ] = "refuse"
    control: Annotated[
        Literal["none", "shuffled"],
        Field(
            description="Shuffled: answers change places within their relation, so that nothing is left to compress."
        ),
    ] = "none"
    library_size: Annotated[
        Size,
        Field(le=LARGEST_LIBRARY, description="Facts to remember, drawn from the file; all when not given."),
    ] = None  # type: ignore[assignment]  # filled in
    library_sha256: Annotated[
        str | None,
        filled_in("Content of the file: filled in when it is read, checked when the library is drawn."),
    ] = None
    any_bits: Annotated[
        float | None,
        filled_in("Of ambiguous any, where pairs have several answers: what recalling a fact is worth, bits.", "0.1"),
    ] = None
    file: Annotated[FactsFile | None, Field(description="What follows from the file: filled in when it is read.")] = (
        None
    )

    @classmethod
    def from_data(cls, source: Any, path: Path | str, **fields: Any) -> Self:
        """The facts of a data frame, of tuples or dictionaries, or of a networkx graph, written to a file.

        A run is known by its file, so the facts are written down first, as JSON lines.

        Args:
            source: a frame with columns that name themselves or are named by `key`, `answer`, `relation` and `weight`;
                (key, answer) or (subject, relation, object) tuples; dictionaries; or a graph, whose edges are facts.
            path: the file, ending in .jsonl, that is written, or written anew.
            fields: of the task.

        Raises:
            SpecError: for a path that does not end in .jsonl.
            FactsError: for a source that holds no facts.
        """
        if Path(path).suffix != ".jsonl":
            raise SpecError(f"path: a file that ends in .jsonl, got {str(path)!r:.80}")
        named = {name: fields.pop(name, None) for name in ("key", "answer", "relation", "weight")}
        resolve("capax.tasks.facts.files.iterables:write")(source, Path(path), **named)
        return cls(library=str(path), **fields)

    @property
    def known(self) -> FactsFile:
        """What follows from the file."""
        assert self.file is not None
        return self.file

    @property
    def drawn(self) -> bool:
        """Whether another seed draws other facts of the file."""
        return self.library_size < self.known.facts

    @property
    def drawn_where(self) -> str:
        """When its libraries are drawn, and what is so instead, as the end of a sentence."""
        return f"library_size should be below {self.known.facts}, the facts of the file, got {self.library_size}"

    @property
    def largest_library(self) -> int:
        """As many as the file has."""
        return min(self.known.facts, LARGEST_LIBRARY)

    @property
    def files(self) -> tuple[str, ...]:
        """The file of facts, and the tokenizer."""
        return super().files if self.tokenizer is None else (*super().files, "tokenizer")

    @property
    def targets_drawn(self) -> bool:
        """Never: answers are the file's."""
        return False

    @property
    def items(self) -> str:
        """What an item is, in a few words."""
        return self._of_file(f"{self._in_tokens()}{self._answers()}")

    def _answers(self) -> str:
        shuffled = ", answers shuffled within their relation" if self.control == "shuffled" else ""
        return f"{SEVERAL.get(self.ambiguous, '')}{shuffled}"

    def _in_tokens(self) -> str:
        return f"{self.words_of_tokens()}, up to {self.known.seq_len} tokens of {self.known.vocab_size}"

    def words_of_tokens(self) -> str:
        """How facts are tokens, in words."""
        if self.tokenizer is not None:
            name, content = Path(self.tokenizer).name, self.tokenizer_sha256 or ""
            return f"sentences ({self.template!r}) in the tokens of {name} (sha256 {content:.8}…)"
        return {
            "words": "entities as words",
            "code": f"entities as codes of {counted(self.code_len, 'token')}",
            "bpe": "text as byte pairs",
            "bytes": "text as bytes",
        }[self.tokenization]

    def words(self) -> str:
        """The task in a few words."""
        return f"facts of {self.items}"

    def described(self, over: Over, number: str) -> str:
        """What is to be remembered and when it counts as recalled, in a sentence."""
        covered = "the answer" if self.loss == "answer" else "every token"
        return (
            f"{number} facts of {self._user_file(self.library)}{self._answers()}, {self._in_tokens()}; the loss "
            f"covers {covered}; a fact counts when its whole answer has the highest score token by token"
        )

    def sizes(self) -> dict[str, int]:
        """`vocab_size` and `context`."""
        return {"vocab_size": self.known.vocab_size, "context": self.known.seq_len - 1}

    def columns(self) -> dict[str, Any]:
        """Its columns in a table: its fields, and what follows from the file."""
        fields = super().columns()
        del fields["any_bits"]
        found = fields.pop("file") or {}
        return fields | {name: value for name, value in found.items() if name not in ("facts", "recallable")}

    def kept_with_weights(self) -> dict[str, str]:
        """The tokenizer, where there is one."""
        return resolve("capax.tasks.facts.encoding:tokenizer")(self)

    def scored(self, purpose: Purpose) -> Scored:
        """The last position where the answer is one token and nothing else counts; else all, masked."""
        one = self.tokenization == "words" or (self.tokenization == "code" and self.code_len == 1)
        return "last" if one and (self.loss == "answer" or purpose != "loss") else "all"

    def guess_probability(self) -> float:
        """Mean over facts of one over the different answers of their relation."""
        return self.known.guess

    def bits_per_item(self) -> float:
        """Mean over facts of log2 of the different answers of their relation; of any of k answers less, once for all.

        Where any of k answers of a pair is right, out of n, saying one recalls k facts, and is worth log2(n / k) bits.
        """
        return self.known.bits_per_fact if self.any_bits is None else self.any_bits

    def information_per_item(self) -> float:
        """What an answer has, whatever the loss covers: where several are right, all of them are learned."""
        return self.known.bits_per_fact

    @model_validator(mode="after")
    def _read(self) -> Self:
        self._refuse_no_sentence()
        self._refuse_without_effect()
        if self.library_sha256 is None or self.file is None or (self.tokenizer and self.tokenizer_sha256 is None):
            must_be_given("library_sha256" if self.library_sha256 is None or self.file is None else "tokenizer_sha256")
            described = resolve("capax.tasks.facts.encoding:describe")(self)
            for name, value in described.items():
                object.__setattr__(self, name, value)
            for name in ("library_sha256", "tokenizer_sha256", "file", "any_bits"):
                self.model_fields_set.discard(name)  # a copy with changes reads the files again
        if self.library_size is None or "library_size" not in self.model_fields_set:
            object.__setattr__(self, "library_size", self.largest_library)
        if self.library_size > self.largest_library:
            raise ValueError(
                f"library_size: at most {self.largest_library}, the facts of {self.library}, got {self.library_size}"
            )
        return self

    def tokenized(self, kind: Tokenization) -> Self:
        """The same facts in other tokens, without the options that those do not have."""
        fields = type(self).model_fields
        others = {name: fields[name].default for of, (name, _) in OPTIONS.items() if of != kind}
        return self.replace(tokenization=kind, **others)

    def _refuse_without_effect(self) -> None:
        for kind, (name, needed) in OPTIONS.items():
            met = self.tokenization == kind and (kind != "bpe" or self.tokenizer is None)
            if not met and (given := getattr(self, name)) != type(self).model_fields[name].default:
                raise ValueError(f"{name}: only with {needed}, got {given}")

    def _refuse_no_sentence(self) -> None:
        """Set what a tokenizer makes of tokens, and refuse what does not go with one, or with none."""
        if self.tokenizer is None:
            for name, usual in {"template": TEMPLATE, "tokenizer_sha256": None}.items():
                if (given := getattr(self, name)) != usual:
                    raise ValueError(f"{name}: goes with a tokenizer, got {shown(given)} and none")
            return
        if "tokenization" not in self.model_fields_set:
            object.__setattr__(self, "tokenization", "bpe")
        if self.tokenization != "bpe":
            raise ValueError(f"tokenization: with a tokenizer it is 'bpe', got {self.tokenization!r}")
        places = re.findall(r"\{(\w*)\}", self.template)
        rest = re.sub(r"\{\w*\}", "", self.template)
        if sorted(places[:-1]) not in (["key"], ["key", "relation"]) or places[-1] != "answer" or {*"{}"} & {*rest}:
            raise ValueError(
                "template: should have {key}, maybe {relation}, and {answer} behind them, each once, and no other "
                f"braces, got {shown(self.template)}"
            )
