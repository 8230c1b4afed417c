"""What a run is: a task, a model, a training, a protocol and a seed.

Every spec is frozen, refuses unknown fields, and is the same thing as a Python object, JSON, a TOML table and the
command line's flags (which are made from these fields). Defaults are the ECM paper's values (Härmä et al. 2024,
arXiv 2407.15425) where it states them; the others are ours and say so.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from capax.errors import SpecError

LARGEST_LIBRARY = 10_000_000
"""Items that a library may hold: more would not fit in memory beside the training."""

LARGEST_VOCABULARY = 10_000_000
LONGEST_SEQUENCE = 100_000

Size = Annotated[int, Field(ge=1)]


def _one_line(error: ValidationError, allowed: list[str]) -> str:
    """The first problem of a pydantic error: the field, what is allowed, what was given."""
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    given = f"{first['input']!r:.80}"
    match first["type"]:
        case "extra_forbidden":
            return f"{field}: unknown field; allowed are {', '.join(allowed)}"
        case "missing":
            return f"{field}: is required"
        case "value_error":
            return str(first["ctx"]["error"]) if "ctx" in first else first["msg"]
        case _:
            said = first["msg"].removeprefix("Input ")
            said = said.replace("greater than or equal to", "at least").replace("less than or equal to", "at most")
            return f"{field}: {said}, got {given}"


class Spec(BaseModel):
    """Base of all specs: frozen, unknown fields refused, errors in one line.

    Raises `SpecError` that names the field, the value given and what is allowed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False, allow_inf_nan=False)

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise SpecError(_one_line(error, list(type(self).model_fields))) from None

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed, validated anew."""
        return type(self)(**{**{name: getattr(self, name) for name in self.model_fields_set}, **changes})


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

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.library == "random":
            self._check_random()
        elif self.library == "all":
            self._enumerate()
        elif self.library_sha256 is None:
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
    d_value: Annotated[int | None, Field(ge=1, description="Channels of a value; d_head when not given.")] = None
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


class Training(Spec):
    """How a member learns: Adam with PyTorch's defaults, and when it stops.

    A member stops when its library is complete, when `patience` evaluations brought neither one more recalled item nor
    a loss lower by the share `min_loss_drop` (the paper: the count "did not improve for several epochs"), or at a
    budget.
    """

    lr: Annotated[float, Field(gt=0, description="Adam's learning rate.")] = 1e-3
    batch_size: Annotated[Size, Field(description="Items in a step.")] = 512
    eval_every: Annotated[Size, Field(description="Epochs between evaluations of the whole library (ours).")] = 1
    patience: Annotated[Size, Field(description="Evaluations without improvement until a member stops (ours).")] = 30
    min_loss_drop: Annotated[
        float, Field(ge=0, lt=1, description="Share by which the loss must fall to count as an improvement (ours).")
    ] = 0.01
    max_epochs: Annotated[int | None, Field(ge=1, description="Budget of epochs; none when not given.")] = None
    time_limit: Annotated[float | None, Field(gt=0, description="Budget of seconds for the whole measurement.")] = None
    precision: Annotated[
        Literal["float32", "float64", "bfloat16"],
        Field(description="Arithmetic; bfloat16 means bfloat16 matrix products over float32 weights."),
    ] = "float32"
    compile: Annotated[bool, Field(description="Compile the step with torch.compile (needs a C++ compiler).")] = False


class Mac(Spec):
    """Maximum attainable capacity: the best count of several restarts on one library (paper: 5, the best is kept)."""

    protocol: Literal["mac"] = "mac"
    restarts: Annotated[
        Size, Field(description="Restarts: initial weights and batch order anew, the library the same.")
    ] = 5


class Mls(Spec):
    """Maximum library size: the largest library that is memorized whole, as the 50 % point of success against log size.

    `library_size` of the task is the largest size that is tried.
    """

    protocol: Literal["mls"] = "mls"
    first_size: Annotated[Size, Field(description="Library size where the search begins.")] = 16
    seeds: Annotated[int, Field(ge=2, description="Trainings per round of the search.")] = 16
    max_trainings: Annotated[int, Field(ge=8, description="Trainings after which the search ends.")] = 96
    tolerance: Annotated[
        float,
        Field(
            gt=0, lt=1, description="The search ends when its 95 % interval is narrower than this share of its centre."
        ),
    ] = 0.1


class Shatter(Spec):
    """Epochs until a library is memorized whole, over many trials.

    Paper: 1000 trials, 16 sequences, seq_len 8, d_model 16.
    """

    protocol: Literal["shatter"] = "shatter"
    trials: Annotated[int, Field(ge=2, description="Trials; library, weights and batch order are redrawn in each.")] = (
        1000
    )


PROTOCOLS: dict[str, type[Mac] | type[Mls] | type[Shatter]] = {"mac": Mac, "mls": Mls, "shatter": Shatter}
Protocol = Annotated[Mac | Mls | Shatter, Field(discriminator="protocol")]


class Run(Spec):
    """One measurement, whole: everything that can change its result, and nothing else."""

    task: Sequences
    model: Transformer
    training: Training = Training()
    protocol: Protocol = Mac()
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0

    @model_validator(mode="after")
    def _protocol_suits_task(self) -> Self:
        if not isinstance(self.protocol, Mac) and self.task.library != "random":
            raise ValueError(
                f"protocol: {self.protocol.protocol!r} redraws the library, so library should be 'random', "
                f"got {self.task.library!r}"
            )
        return self

    def canonical_json(self) -> str:
        """Sorted, compact JSON of every field; a user's file counts by its content, not its path."""
        fields = self.model_dump(mode="json")
        if fields["task"]["library_sha256"] is not None:
            fields["task"]["library"] = "file"
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    def key(self) -> str:
        """Sha256 of the canonical JSON: two runs with one key are the same run."""
        return hashlib.sha256(self.canonical_json().encode()).hexdigest()
