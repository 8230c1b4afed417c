"""Language models of Hugging Face's transformers, from a config and maybe the weights of a local checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, JsonValue, field_validator

from capax.specs.libraries import DEEPEST, LibraryModel, Options
from capax.specs.plugins import resolve
from capax.specs.spec import LARGEST_SIZE, filled_in, reads_data

OURS = {
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "d_model": "hidden_size",
    "d_head": "head_dim",
}
"""Its names for what capax says by others; a config may have further ones for them."""


def _size(description: str, most: int = LARGEST_SIZE) -> Any:
    return Field(ge=1, le=most, description=f"{description}; the config's when not given.")


class HuggingFace(LibraryModel):
    """Any `AutoModelForCausalLM` of transformers: GPT-2, Llama, Qwen, Gemma, Mistral, Phi, Mamba and others.

    Built from a config, whose content is kept in place of its path: sizes under capax's names, everything else in
    `config` under the library's, together with what `set` changes. The vocabulary is the task's, and no token has a
    role of its own (begin, end, padding). Nothing is downloaded, and no code but the installed library's is run.

    With `weights`, training starts from a local checkpoint (.safetensors) whose tensors are exactly the model's; of its
    vocabulary the first tokens stay, as many as the task has. All restarts start alike then.
    """

    package: ClassVar[str] = "transformers"
    extra: ClassVar[str] = "hf"
    home: ClassVar[str] = "capax.models.huggingface"
    options: ClassVar[str] = "config"
    pretrained: ClassVar[bool] = True
    axes: ClassVar[tuple[str, ...]] = ("n_layers", "n_heads", "d_model")

    model: Literal["hf"] = "hf"
    set: Options
    config: Annotated[
        dict[str, JsonValue] | None,
        Field(description="A config.json, or a folder with one; its content is kept. That of the weights by default."),
    ] = None
    weights: Annotated[
        str | None, Field(description="Folder of a checkpoint (.safetensors) from which training starts.")
    ] = None
    weights_sha256: Annotated[str | None, filled_in("Content of the weights: read with them, checked when used.")] = (
        None
    )
    n_layers: Annotated[int | None, _size("Blocks", DEEPEST)] = None
    n_heads: Annotated[int | None, _size("Attention heads per block")] = None
    d_model: Annotated[int | None, _size("Width: channels of a token vector")] = None
    d_head: Annotated[int | None, _size("Channels of a query and a key")] = None

    @field_validator("config", mode="before")
    @classmethod
    def _content(cls, value: Any) -> Any:
        """What a file holds, in its place; data holds the content, and no file is read for it."""
        if isinstance(value, str | Path) and not reads_data():
            cls.installed()
            return resolve("capax.models.huggingface:read_fields")(Path(value), "config")
        return value

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed; with another config, sizes that are not among them are that config's."""
        if "config" not in changes:
            return super().replace(**changes)
        kept = {name: getattr(self, name) for name in self.model_fields_set - OURS.keys()}
        return type(self)(**{**kept, **changes})

    @property
    def name(self) -> str:
        """What is built, and its sizes."""
        sizes = {"layer": self.n_layers, "head": self.n_heads}
        counts = [f"{count} {one}{'s' * (count > 1)}" for one, count in sizes.items() if count is not None]
        if self.n_heads is not None and self.d_head is not None:
            counts[-1] += f" of {self.d_head}"
        width = [] if self.d_model is None else [f"width {self.d_model}"]
        started = [] if self.weights is None else [f"from {Path(self.weights).name}"]
        return ", ".join([str((self.config or {}).get("model_type")), *counts, *width, *started])

    def remarks(self, **sizes: int) -> tuple[str, ...]:
        """The library, and where the weights are from."""
        unused = resolve("capax.models.huggingface:unused_positions")(self, sizes["vocab_size"], sizes["context"])
        found = (f"model: {(self.config or {}).get('model_type')} by {self.library}", *filter(None, (unused,)))
        if self.weights is None:
            return found
        return (*found, resolve("capax.models.huggingface:weights_in_words")(self, sizes["vocab_size"]))

    def columns(self) -> dict[str, Any]:
        """Its fields, and what of the config is a number or a truth value as columns of their own."""
        return {name: value for name, value in super().columns().items() if name != "set"}  # it is in the config

    def without_folders(self, name: Callable[[str], str]) -> Self:
        """A copy whose weights are named without their folder."""
        return self if self.weights is None else self.model_copy(update={"weights": name(self.weights)})

    def canonical(self) -> dict[str, Any]:
        """As of every spec; weights count by their content, not their path."""
        fields = super().canonical()
        return fields if self.weights is None else fields | {"weights": "file"}
