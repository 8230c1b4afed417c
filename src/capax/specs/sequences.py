"""Sequences of tokens (Härmä et al. 2024, arXiv 2407.15425)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from capax.specs.model import Scored
from capax.specs.plugins import resolve
from capax.specs.spec import LARGEST_LIBRARY, filled_in, must_be_given, since
from capax.specs.task import Purpose, Task
from capax.specs.transformer import Transformer
from capax.text import Over

LARGEST_VOCABULARY = 10_000_000
LONGEST_SEQUENCE = 100_000


class Sequences(Task):
    """Remember sequences: the last token of each is to be predicted from those before it.

    Tokens are independent and uniform over the vocabulary and prefixes are distinct, or the sequences are the user's.
    The paper's vocabulary size, which positions its loss covers, and how duplicates were treated are not known to us
    (`vocab_size`, `loss`, distinct prefixes are our choices; see docs/protocols.md).
    """

    learner: ClassVar = Transformer
    unit: ClassVar[str] = "sequences"
    loss_unit: ClassVar[str] = "nats per token that it covers"
    axes: ClassVar[tuple[str, ...]] = ("seq_len", "vocab_size")
    library_class: ClassVar[str] = "capax.tasks.sequences:SequenceLibrary"

    task: Literal["sequences"] = "sequences"
    seq_len: Annotated[
        int, Field(ge=2, le=LONGEST_SEQUENCE, description="Tokens in a sequence; the last one is the target.")
    ] = 8
    vocab_size: Annotated[
        int,
        Field(ge=2, le=LARGEST_VOCABULARY, description="Different tokens (ours: the paper's is not known)."),
    ] = 100
    library: Annotated[
        str,
        Field(
            description="Where the sequences come from: 'random', 'all' (every prefix once), or a .npy or .txt file."
        ),
    ] = "random"
    library_size: Annotated[
        int,
        Field(
            ge=1,
            description="Sequences to remember (ours; the paper's: 16000); with 'all' or a file it follows from them; "
            "when not given, never more than there are prefixes.",
        ),
    ] = 1000
    loss: Annotated[
        Literal["all", "last"], Field(description="Positions that the training loss covers (default ours).")
    ] = "all"
    recall: Annotated[
        Literal["last", "all"], Field(description="What counts as recalled: the last token, or every next token.")
    ] = "last"
    duplicates: Annotated[
        Literal["refuse", "keep"],
        Field(description="What to do when a file repeats a prefix: refuse it, or keep all and report."),
    ] = "refuse"
    bos: Annotated[
        bool,
        since(
            "0.1",
            description="Whether a token that is no other (of number vocab_size) comes before each sequence, so that "
            "its first token is predicted, too.",
        ),
    ] = False
    library_sha256: Annotated[
        str | None,
        filled_in("Content of the file: filled in when it is read, checked when the library is drawn."),
    ] = None

    @property
    def items(self) -> str:
        """What an item is, in a few words."""
        return self._of_file(f"{self.seq_len} tokens of {self.vocab_size}")

    @property
    def targets_drawn(self) -> bool:
        """Whether targets are drawn, as those of every prefix are, too."""
        return self.library in ("random", "all")

    @property
    def largest_library(self) -> int:
        """As many as there are prefixes, and no more than any library can hold."""
        return min(self._prefixes() or LARGEST_LIBRARY, LARGEST_LIBRARY)

    def words(self) -> str:
        """The task in a few words."""
        positions = f"{self.loss} position{'s' * (self.loss == 'all')}"
        first = ", one before the first" if self.bos else ""
        return self._of_file(f"{self.seq_len} tokens from {self.vocab_size}{first}, loss on {positions}")

    def described(self, over: Over, number: str) -> str:
        """What is to be remembered and when it counts as recalled, in a sentence."""
        known = {"random": "random sequences", "all": "sequences (every prefix)"}
        origin = known.get(self.library) or f"sequences of {self._user_file(self.library)}"
        repeated = ", repeated prefixes kept," if self.duplicates == "keep" else ""
        covered = "the last position" if self.loss == "last" else "all positions"
        recalled = "its last token" if self.recall == "last" else "every next token"
        first = ", each after a token of its own" if self.bos else ""
        return (
            f"{number} {origin}{repeated} of {over.listed('seq_len')} tokens over {self.vocab_size} tokens{first}; "
            f"the loss covers {covered}; a sequence counts when {recalled} has the highest score"
        )

    def sizes(self) -> dict[str, int]:
        """`vocab_size` and `context`: what the model knows and reads, the token before the first one included."""
        return {"vocab_size": self.vocab_size + self.bos, "context": self.seq_len - 1 + self.bos}

    @property
    def tokens_per_item(self) -> int:
        """Tokens of a sequence."""
        return self.seq_len

    def scored(self, purpose: Purpose) -> Scored:
        """Positions that count: `recall` for what is recalled, `loss` for the rest."""
        return self.recall if purpose == "recall" else self.loss

    def _scored_tokens(self, purpose: Purpose) -> int:
        return 1 if self.scored(purpose) == "last" else self.seq_len - 1 + self.bos

    def guess_probability(self) -> float:
        """1/T for the last token, T^−(seq_len−1) for every next token (Härmä et al. 2024, eq. 7: q = 1/T)."""
        return float(self.vocab_size) ** -self._scored_tokens("recall")

    def bits_per_item(self) -> float:
        """log2(vocab_size) for each token that recall counts."""
        return math.log2(self.vocab_size) * self._scored_tokens("recall")

    def uniform_nats(self) -> float:
        """Ln v."""
        return math.log(self.vocab_size)

    def information_per_item(self) -> float:
        """log2(vocab_size) for each token that the loss covers."""
        return math.log2(self.vocab_size) * self._scored_tokens("loss")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.library == "random":
            self._check_random()
        elif self.library == "all":
            self._enumerate()
        elif self.library_sha256 is None:
            must_be_given("library_sha256")
            self._describe_file()
        if self.bos and self.recall == "all":
            raise ValueError(
                "recall: 'last' with bos, as all sequences begin alike and one first token is right, got 'all'"
            )
        if self.library in ("random", "all") and self.library_sha256 is not None:
            raise ValueError(f"library_sha256: only for a file, but library is {self.library!r}")
        if self.library_size > LARGEST_LIBRARY:
            raise ValueError(f"library_size: at most {LARGEST_LIBRARY} items, got {self.library_size}")
        return self

    def _prefixes(self) -> int | None:
        """How many prefixes exist; None when they are more than any library can hold."""
        if (self.seq_len - 1) * math.log(self.vocab_size) > math.log(LARGEST_LIBRARY) + 1:
            return None
        return int(self.vocab_size ** (self.seq_len - 1))

    def _check_random(self) -> None:
        prefixes = self._prefixes()
        if prefixes is None or self.library_size <= prefixes:
            return
        if "library_size" not in self.model_fields_set:
            object.__setattr__(self, "library_size", prefixes)
        else:
            raise ValueError(
                f"library_size: at most {prefixes} distinct prefixes exist "
                f"(vocab_size {self.vocab_size}, seq_len {self.seq_len}), got {self.library_size}"
            )

    def _enumerate(self) -> None:
        prefixes = self._prefixes()
        if prefixes is None:
            raise ValueError(
                f"library_size: at most {LARGEST_LIBRARY} items, but library='all' has "
                f"{self.vocab_size}^{self.seq_len - 1} prefixes"
            )
        if "library_size" in self.model_fields_set and self.library_size != prefixes:
            raise ValueError(f"library_size: library='all' has {prefixes} prefixes, got {self.library_size}")
        object.__setattr__(self, "library_size", prefixes)
        self.model_fields_set.discard("library_size")

    def _describe_file(self) -> None:
        """Size, length, vocabulary and content hash of a user's file come from the file itself."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        described = resolve("capax.tasks.sequence_files:describe")(Path(self.library), given, self.duplicates)
        if described["vocab_size"] > LARGEST_VOCABULARY:
            token = described["vocab_size"] - 1
            raise ValueError(f"vocab_size: at most {LARGEST_VOCABULARY}, but {self.library} has token {token}")
        if described["seq_len"] > LONGEST_SEQUENCE:
            raise ValueError(
                f"seq_len: at most {LONGEST_SEQUENCE}, but {self.library} has sequences of {described['seq_len']}"
            )
        self.fill(**described)
        self.model_fields_set.discard("library_sha256")  # a copy with changes reads the file again
