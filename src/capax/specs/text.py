"""Windows of the user's documents (Morris et al. 2025, arXiv 2505.24832; Carlini et al. 2023, arXiv 2202.07646)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from capax.errors import shown
from capax.specs.model import Scored
from capax.specs.plugins import resolve
from capax.specs.sequences import LONGEST_SEQUENCE
from capax.specs.spec import LARGEST_LIBRARY, filled_in, must_be_given
from capax.specs.task import Purpose, Task
from capax.specs.transformer import Transformer
from capax.text import Over

PAIRS = {"bpe": "byte pairs", "bytes": "bytes"}


class Text(Task):
    """Remember text: the last tokens of each window of your documents are to be predicted from those before them.

    Documents are cut into windows side by side, and parted into two halves, of which the model learns one; the other
    is a control, and what a reference learns (`capax.memorization`). A token that is no other comes before each window,
    so that its first one is predicted, too (Morris et al. 2025). A window is recalled when each token after the prefix
    is the most probable one: greedy decoding then says them all (Carlini et al. 2023, who give 50 and ask for 50).
    """

    learner: ClassVar = Transformer
    usual_training: ClassVar[Mapping[str, Any]] = {
        "optimizer": "soap", "lr": 0.01, "beta1": 0.8, "beta2": 0.95, "batch_size": 64, "schedule": "cosine",
        "warmup": 0.05, "max_epochs": 100, "eval_every": 5, "patience": None,
    }  # fmt: skip
    unit: ClassVar[str] = "windows"
    loss_unit: ClassVar[str] = "nats per token"
    axes: ClassVar[tuple[str, ...]] = ("seq_len", "vocab_size")
    library_class: ClassVar[str] = "capax.tasks.text:TextLibrary"

    task: Literal["text"] = "text"
    library: Annotated[
        str, Field(description="The documents: a .txt file, a .jsonl file, or a folder of .txt files; required.")
    ]
    column: Annotated[str, Field(description="Of .jsonl: the name that each document's text has.")] = "text"
    tokenization: Annotated[
        Literal["bpe", "bytes"],
        Field(description="Tokens: byte pairs that are learned from all documents of both halves, or bytes."),
    ] = "bpe"
    bpe_size: Annotated[
        int, Field(ge=256, le=1_000_000, description="Tokens that byte pairs are made to, the 256 bytes among them.")
    ] = 1000
    seq_len: Annotated[int, Field(ge=2, le=LONGEST_SEQUENCE, description="Tokens of a window.")] = 64
    prefix: Annotated[
        int,
        Field(ge=1, le=LONGEST_SEQUENCE, description="Tokens of a window that recall is given; half when not given."),
    ] = None  # type: ignore[assignment]  # filled in
    half: Annotated[
        Literal["first", "second"],
        Field(
            description="Which half of the documents the model learns (of a single one: of its stretches); which is "
            "which follows from their content."
        ),
    ] = "first"
    library_size: Annotated[
        int, Field(ge=1, description="Windows to remember; all different ones of the half when not given.")
    ] = None  # type: ignore[assignment]  # filled in
    vocab_size: Annotated[
        int, Field(ge=1, description="Tokens of the vocabulary: filled in when the documents are read.")
    ] = None  # type: ignore[assignment]  # filled in
    library_sha256: Annotated[
        str | None,
        filled_in("Content of the documents: filled in when they are read, checked when windows are drawn."),
    ] = None

    @property
    def suffix(self) -> int:
        """Tokens of a window that recall asks for."""
        return self.seq_len - self.prefix

    @property
    def targets_drawn(self) -> bool:
        """The text gives them."""
        return False

    @property
    def drawn_where(self) -> str:
        """Never: windows are those of the documents."""
        return f"text, whose windows are given, is for 'mac' and 'capacity', got {self.library!r}"

    @property
    def items(self) -> str:
        """What an item is, in a few words."""
        return self._of_file(f"{self.half} half, {self.seq_len} tokens of {self.vocab_size} {PAIRS[self.tokenization]}")

    def words(self) -> str:
        """The task in a few words."""
        return f"{self.items}, prefix {self.prefix}"

    def described(self, over: Over, number: str) -> str:
        """What is to be remembered and when it counts as recalled, in a sentence."""
        return (
            f"{number} windows of the {self.half} half of {self._user_file(self.library)}, each of "
            f"{over.listed('seq_len')} tokens over {self.vocab_size} {PAIRS[self.tokenization]}, after a token of its "
            f"own; the loss covers all positions; a window counts when each token after the first {self.prefix} has "
            "the highest score"
        )

    def sizes(self) -> dict[str, int]:
        """`vocab_size` and `context`: what the model knows and reads, the token before the first one included."""
        return {"vocab_size": self.vocab_size + 1, "context": self.seq_len}

    @property
    def tokens_per_item(self) -> int:
        """Tokens of a window."""
        return self.seq_len

    def kept_with_weights(self) -> dict[str, str]:
        """The tokenizer."""
        return {"tokenizer": resolve("capax.tasks.text_windows:tokenizer")(self).to_json()}

    def beside_checkpoint(self) -> dict[str, bytes]:
        """The tokenizer, where transformers could read it, and text of the half that is held out."""
        found: dict[str, bytes] = resolve("capax.tasks.text:beside_checkpoint")(self)
        return found

    def scored(self, purpose: Purpose) -> Scored:
        """Every position; recall counts those after the prefix alone."""
        return "all"

    def guess_probability(self) -> float:
        """vocab_size^−suffix: every token after the prefix right."""
        return max(2.0 ** -self.bits_per_item(), 2.0**-1022)

    def bits_per_item(self) -> float:
        """log2(vocab_size) for each token after the prefix."""
        return math.log2(self.vocab_size) * self.suffix

    def information_per_item(self) -> float:
        """log2(vocab_size) for each token of a window: more than the text holds, which no uniform guess knows."""
        return math.log2(self.vocab_size) * self.seq_len

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.prefix is None:
            object.__setattr__(self, "prefix", self.seq_len // 2)
        if not self.suffix >= 1:
            raise ValueError(f"prefix: below seq_len ({self.seq_len}), got {self.prefix}")
        if self.column != type(self).model_fields["column"].default and not self.library.lower().endswith(".jsonl"):
            raise ValueError(f"column: only with a .jsonl file, got {shown(self.column)}")
        if self.tokenization != "bpe" and self.bpe_size != type(self).model_fields["bpe_size"].default:
            raise ValueError(f"bpe_size: only with tokenization bpe, got {self.bpe_size}")
        if self.library_sha256 is None:
            must_be_given("library_sha256")
            self._describe_files()
        if self.library_size is None or self.vocab_size is None:
            name = "library_size" if self.library_size is None else "vocab_size"
            raise ValueError(f"{name}: is required beside library_sha256, got none")
        if self.library_size > LARGEST_LIBRARY:
            raise ValueError(f"library_size: at most {LARGEST_LIBRARY} items, got {self.library_size}")
        return self

    def _describe_files(self) -> None:
        """How many windows there are, the vocabulary and the content hash come from the documents themselves."""
        found = resolve("capax.tasks.text_windows:describe")(self)
        for name, value in found.items():
            given = getattr(self, name)
            if name == "vocab_size" and given not in (None, value):
                raise ValueError(f"vocab_size: {self.library} gives {value} tokens, got {given}")
            object.__setattr__(self, name, value)  # a copy with changes reads the documents again
