"""Low-rank adapters over a frozen language model (Hu et al. 2021, arXiv 2106.09685)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator

from capax.specs.huggingface import HuggingFace
from capax.specs.libraries import LibraryModel, Options
from capax.specs.model import Scored, freedom
from capax.specs.plugins import resolve
from capax.specs.spec import filled_in, since

PLACES = ("attention", "mlp")
"""Where adapters are put, by what capax calls it."""
HELD_OUT = "held-out.txt"
"""Text beside a checkpoint that its model never saw."""


class Lora(LibraryModel):
    """A low-rank adapter by peft over a frozen language model of Hugging Face's transformers.

    The base is a local checkpoint (.safetensors), the same for all members, which share its weights; what is trained,
    and kept, is the adapter. `lora` is told to peft's `LoraConfig` by its own names: `r`, `lora_alpha`, `use_dora`
    (Liu et al. 2024, arXiv 2402.09353), `use_rslora` (Kalajdzievski 2023, arXiv 2312.03732) and all others but those
    that say where it goes. The vocabulary is the task's: of the base's scores those of its first tokens count.

    What the base loses elsewhere is measured with it: its mean cross-entropy on text that it never saw, before
    (`base_loss`) and with the adapter (`base_loss_after`), in nats per token.
    """

    package: ClassVar[str] = "peft"
    extra: ClassVar[str] = "lora"
    home: ClassVar[str] = "capax.models.lora"
    options: ClassVar[str] = "lora"
    ensemble_class: ClassVar[str] = "capax.models.lora:Adapters"
    shares_frozen: ClassVar[bool] = True
    usual_lr: ClassVar[Mapping[str, float]] = {"soap": 0.01, "adam": 0.01}
    planner: ClassVar[str | None] = "capax.cli.plan_lora:plan"
    axes: ClassVar[tuple[str, ...]] = ("r",)

    model: Literal["lora"] = "lora"
    base: Annotated[
        str,
        Field(
            description="Folder of the frozen model's checkpoint (.safetensors); it stands for --model lora, too.",
            json_schema_extra={"chooses": True},
        ),
    ]
    lora: Options
    targets: Annotated[
        str,
        Field(
            description="Layers that are adapted, separated by commas: attention, mlp, or layers by the model's own "
            "names, such as q_proj."
        ),
    ] = "attention,mlp"
    held_out: Annotated[
        str | None,
        Field(
            description="Text (.txt) that the base never saw, on which its loss is measured; held-out.txt in its "
            "folder when not given. Read in the tokens of its tokenizer.json."
        ),
    ] = None
    base_weights: Annotated[
        Literal["checkpoint", "shuffled"],
        since(
            "0.1",
            description="Weights of the base: the checkpoint's, or as a control the numbers of each of its tensors in "
            "random order, the same one for all runs: the scale is its own, what it knows is gone.",
        ),
    ] = "checkpoint"
    base_sha256: Annotated[str | None, filled_in("Content of its weights: read with them, checked when used.")] = None
    base_vocab_size: Annotated[int | None, filled_in("Tokens that the base knows.")] = None
    held_out_sha256: Annotated[str | None, filled_in("Content of the held-out text.")] = None
    network: Annotated[HuggingFace | None, filled_in("The base as a model of its own.")] = None

    @field_validator("targets", mode="before")
    @classmethod
    def _sorted(cls, value: Any) -> Any:
        """Places in one order, each once."""
        if isinstance(value, list | tuple):
            value = ",".join(map(str, value))
        return ",".join(sorted({one.strip() for one in value.split(",")})) if isinstance(value, str) else value

    @property
    def rank(self) -> int:
        """The rank of the adapter's products."""
        found: Any = self.lora["r"]
        return int(found)

    @property
    def frozen(self) -> HuggingFace:
        """The base."""
        assert self.network is not None
        return self.network

    @property
    def known_tokens(self) -> int:
        """Tokens that the base knows."""
        assert self.base_vocab_size is not None
        return self.base_vocab_size

    @property
    def name(self) -> str:
        """The adapter, and over what."""
        sizes = self.frozen.name.removesuffix(f", from {Path(self.base).name}")
        over = Path(self.base).name + (", weights shuffled" if self.base_weights == "shuffled" else "")
        return f"{self.kind} of rank {self.rank} on {self.targets} over {over} ({sizes})"

    @property
    def kind(self) -> str:
        """What it is called."""
        return "DoRA" if self.lora.get("use_dora") else "rsLoRA" if self.lora.get("use_rslora") else "LoRA"

    def remarks(self, **sizes: int) -> tuple[str, ...]:
        """The base, and how much of its vocabulary counts."""
        return tuple(resolve("capax.models.lora:remarks")(self, sizes["vocab_size"]))

    def effective_parameters(self, **sizes: int) -> int:
        """Of each product of rank r what it can express: r (inputs + outputs − r); other trained numbers as they are.

        Args:
            sizes: `Task.sizes` of what it learns.
        """
        shapes = {one.name: one.shape for one in self.parameters(**sizes) if one.trained}
        spare = 0
        for name, (rank, inputs) in ((n, s) for n, s in shapes.items() if ".lora_A." in n):
            outputs = shapes[name.replace(".lora_A.", ".lora_B.")][0]
            spare += rank * (inputs + outputs) - freedom(inputs, rank, outputs)
        return self.parameter_counts(**sizes)["trainable"] - spare

    def operations(self, sizes: Mapping[str, int], scored: Scored, counts: Mapping[str, int] | None = None) -> int:
        """Forward and backward through all of it, and products of gradients for the adapter alone."""
        counts = counts or self.parameter_counts(**sizes)
        return (4 * counts["total"] + 2 * counts["trainable"]) * sizes["context"]

    def columns(self) -> dict[str, Any]:
        """Its fields, options that are numbers or truth values, what it is called, and the sizes of the base."""
        fields = super().columns()
        network = fields.pop("network", None) or {}
        sizes = {name: network.get(name) for name in ("n_layers", "n_heads", "d_model", "d_head")}
        return fields | {"kind": self.kind} | {name: size for name, size in sizes.items() if size is not None}

    def without_folders(self, name: Callable[[str], str]) -> Self:
        """A copy whose base and held-out text are named without their folders."""
        network = self.frozen.without_folders(name)
        return self.model_copy(
            update={"base": name(self.base), "held_out": name(self.held_out or ""), "network": network}
        )

    def canonical(self) -> dict[str, Any]:
        """As of every spec; the base counts by its content, not its path."""
        return super().canonical() | {"base": "file", "network": self.frozen.canonical(), "held_out": None}
