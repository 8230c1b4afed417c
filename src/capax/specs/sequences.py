"""Sequences and the transformer that learns them (Härmä et al. 2024, arXiv 2407.15425)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from capax.specs.spec import LARGEST_LIBRARY, LARGEST_SIZE, Size, Spec, must_be_given

LARGEST_VOCABULARY = 10_000_000
LONGEST_SEQUENCE = 100_000


class Sequences(Spec):
    """Remember sequences: the last token of each is to be predicted from those before it.

    Tokens are independent and uniform over the vocabulary and prefixes are distinct, or the sequences are the user's.
    The paper does not state its vocabulary size, which positions its loss covers, or how duplicates were treated
    (`vocab_size`, `loss`, distinct prefixes are our choices; see docs/protocols.md).
    """

    task: Literal["sequences"] = "sequences"
    seq_len: Annotated[
        int, Field(ge=2, le=LONGEST_SEQUENCE, description="Tokens in a sequence; the last one is the target.")
    ] = 8
    vocab_size: Annotated[
        int,
        Field(ge=2, le=LARGEST_VOCABULARY, description="Different tokens (ours: the paper does not state it)."),
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
            ge=1, description="Sequences to remember; with 'all' or a file it follows from them. The paper's: 16000."
        ),
    ] = 16_000
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
    library_sha256: Annotated[
        str | None,
        Field(description="Content of the file: filled in when it is read, checked when the library is drawn."),
    ] = None

    @property
    def files(self) -> tuple[str, ...]:
        """Fields that name the user's files."""
        return () if self.library_sha256 is None else ("library",)

    @property
    def items(self) -> str:
        """What an item is, in a few words."""
        return f"{self.seq_len} tokens of {self.vocab_size}"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.library == "random":
            self._check_random()
        elif self.library == "all":
            self._enumerate()
        elif self.library_sha256 is None:
            must_be_given("library_sha256")
            self._describe_file()
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
        if prefixes is not None and self.library_size > prefixes:
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
        from capax.tasks.sequence_files import describe

        given = {name: getattr(self, name) for name in self.model_fields_set}
        described = describe(Path(self.library), given, self.duplicates)
        if described["vocab_size"] > LARGEST_VOCABULARY:
            token = described["vocab_size"] - 1
            raise ValueError(f"vocab_size: at most {LARGEST_VOCABULARY}, but {self.library} has token {token}")
        for name, value in described.items():
            object.__setattr__(self, name, value)
            self.model_fields_set.add(name)
        self.model_fields_set.discard("library_sha256")  # a copy with changes reads the file again


class Transformer(Spec):
    """The paper's network as x-transformers builds it, and what the paper and its successors vary.

    Pre-norm blocks of causal attention (no biases) and a 4× FFN, gains without biases in the norms, absolute positions
    scaled by 1/√d_model, a final norm and an untied read-out without bias. Initialisation as in x-transformers.
    """

    model: Literal["transformer"] = "transformer"
    n_layers: Annotated[Size, Field(description="Blocks.")] = 1
    n_heads: Annotated[Size, Field(description="Attention heads per block.")] = 1
    d_model: Annotated[Size, Field(description="Width: channels of a token vector.")] = 32
    d_head: Annotated[Size, Field(description="Channels of a query and a key, whatever the width.")] = 64
    d_value: Annotated[
        int | None, Field(ge=1, le=LARGEST_SIZE, description="Channels of a value; d_head when not given.")
    ] = None
    ffn: Annotated[
        Literal["mlp", "identity", "none"],
        Field(description="FFN: trained, frozen to the identity (x + norm(x)), or left out."),
    ] = "mlp"
    activation: Annotated[Literal["gelu", "relu", "silu", "softmax"], Field(description="Activation of the FFN.")] = (
        "gelu"
    )
    embeddings: Annotated[Literal["frozen", "trained"], Field(description="The token table.")] = "frozen"
    positions: Annotated[Literal["trained", "frozen"], Field(description="The position table (default ours).")] = (
        "trained"
    )
    readout: Annotated[Literal["frozen", "trained"], Field(description="The output matrix.")] = "frozen"
    norms: Annotated[bool, Field(description="Layer norms on or off.")] = True
    skips: Annotated[bool, Field(description="Skip connections on or off.")] = True

    @property
    def total_key_dim(self) -> int:
        """n_heads · d_head."""
        return self.n_heads * self.d_head
