"""Decoders of the library x-transformers, with every option that it has."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from capax.errors import SpecError
from capax.specs.libraries import DEEPEST, LibraryModel, Options, said
from capax.specs.model import heads
from capax.specs.spec import LARGEST_SIZE, Size
from capax.specs.transformer import HEAD, Transformer
from capax.text import counted

OURS = {
    "dim": "d_model",
    "depth": "n_layers",
    "heads": "n_heads",
    "attn_dim_head": "d_head",
    "num_tokens": "the task's vocab_size",
    "max_seq_len": "the task's seq_len",
    "attn_layers": "the options of its Decoder",
    "causal": "true of a Decoder",
}
"""Its names for what capax says by others."""

POSITIONS = (
    "rotary_pos_emb",
    "rotary_emb_dim",
    "alibi_pos_bias",
    "alibi_num_heads",
    "use_abs_pos_emb",
    "disable_abs_pos_emb",
)
"""Its options that say how positions are known."""
COUNTED = ("rotary_emb_dim", "alibi_num_heads")
"""Those of them that are numbers."""


SWITCHES: dict[str, dict[str, Any]] = {
    "attn_one_kv_head": {"n_kv_heads": 1},
    "attn_flash": {},
    "use_rmsnorm": {"norm": "rms"},
    "ff_glu": {"gated": True},
    "ff_swish": {"activation": "silu"},
}
"""Its options that are on or off, and what a variant of capax's transformer has for them."""

NUMBERS = {
    "attn_kv_heads": ("n_kv_heads", 0),
    "attn_value_dim_head": ("d_value", 0),
    "attn_max_attend_past": ("window", 1),
}
"""Its options that are numbers, a variant's for them, and how much more that is."""


class XTransformers(LibraryModel):
    """A decoder of x-transformers, with every option of the library.

    `TransformerWrapper(num_tokens, max_seq_len, attn_layers=Decoder(dim, depth, heads, attn_dim_head, ...))`: what
    `set` names goes to the one of the two that has such an argument. Without options it is capax's transformer with
    trained tables. Differs from the library's defaults in one: the output of attention is projected in any case
    (`attn_project_out`), which the library leaves out where there is one head.
    """

    package: ClassVar[str] = "x-transformers"
    extra: ClassVar[str] = "x-transformers"
    home: ClassVar[str] = "capax.models.x_transformers"
    options: ClassVar[str] = "set"
    axes: ClassVar[tuple[str, ...]] = Transformer.axes

    model: Literal["x-transformers"] = "x-transformers"
    set: Options
    n_layers: Annotated[int, Field(ge=1, le=DEEPEST, description="Blocks.")] = 1
    n_heads: Annotated[Size, Field(description="Attention heads per block.")] = 1
    d_model: Annotated[Size, Field(description="Width: channels of a token vector.")] = 32
    d_head: Annotated[
        int, Field(ge=1, le=LARGEST_SIZE, description="Channels of a query and a key, whatever the width.")
    ] = HEAD

    @property
    def name(self) -> str:
        """What it is told."""
        sizes = f"{counted(self.n_layers, 'layer')}, {heads(self)}, width {self.d_model}"
        return ", ".join((sizes, *said(self.set)))

    def remarks(self, **sizes: int) -> tuple[str, ...]:
        """The library, and the variant of capax's transformer that it equals, where there is one."""
        try:
            same = self.native()
        except SpecError:
            return (f"model: by {self.library}",)
        chosen = same.model_dump(exclude={"model", "n_layers", "n_heads", "d_model", "d_head"}, exclude_defaults=True)
        words = ", ".join(f"{name} {value}" for name, value in chosen.items())
        return (f"model: by {self.library}; --native takes the same network as capax computes it ({words})",)

    def effective_parameters(self, **sizes: int) -> int:
        """Those of the same network by capax, where there is one; otherwise all of its trained numbers."""
        try:
            return self.native().effective_parameters(**sizes)
        except SpecError:
            return super().effective_parameters(**sizes)

    def native(self) -> Transformer:
        """The variant of capax's transformer that is the same network.

        The same scores, that is, from the same weights, and the same distributions of first weights; x-transformers
        gives the keys of grouped heads to queries in turn, capax one after the other, which is another order of heads.

        Raises:
            SpecError: that names the options that no variant has.
        """
        left = dict(self.set)
        found: dict[str, Any] = {"embeddings": "trained", "readout": "trained"}
        found |= _positions(left, self.d_head, self.n_heads)
        for theirs, chosen in SWITCHES.items():
            if isinstance(left.get(theirs), bool) and left.pop(theirs):
                found |= chosen
        for theirs, (ours, more) in NUMBERS.items():
            value = left.get(theirs)
            if isinstance(value, int) and not isinstance(value, bool):
                found[ours] = value + more
                del left[theirs]
        if left.get("tie_embedding") is True and left.get("tie_embedding_scale") == 1:
            found["readout"] = "tied"
            del left["tie_embedding"], left["tie_embedding_scale"]
        if left.get("pre_norm") is False:
            found["norm_place"] = "post"
            del left["pre_norm"]
        if left.get("attn_project_out") is True:
            del left["attn_project_out"]
        if left:
            raise SpecError(f"native: no variant of capax's transformer has {', '.join(said(left))}")
        sizes = {name: getattr(self, name) for name in ("n_layers", "n_heads", "d_model", "d_head")}
        return Transformer(**sizes, **found)


def _positions(left: dict[str, Any], d_head: int, n_heads: int) -> dict[str, str]:
    """How positions are known, of options that are taken away; what no variant has stays."""
    given = {name: left[name] for name in POSITIONS if name in left}
    if not all(isinstance(value, bool) for name, value in given.items() if name not in COUNTED):
        return {}
    for name in given:
        del left[name]
    rotary, alibi = given.get("rotary_pos_emb", False), given.get("alibi_pos_bias", False)
    table = given.get("use_abs_pos_emb", True) and not given.get("disable_abs_pos_emb", rotary)
    if table and not rotary and not alibi:
        return {}
    if table:
        raise SpecError("native: no variant of capax's transformer has a table of positions beside others")
    if rotary and alibi:
        raise SpecError("native: no variant of capax's transformer has rotary positions and alibi")
    if rotary:
        turned = given.get("rotary_emb_dim", d_head // 2)
        if turned != d_head:
            raise SpecError(f"native: rotary positions turn all {d_head} channels (rotary_emb_dim), got {turned}")
        return {"positions": "rotary"}
    if alibi:
        if given.get("alibi_num_heads", n_heads) != n_heads:
            raise SpecError(
                f"native: alibi is of all {n_heads} heads (alibi_num_heads), got {given['alibi_num_heads']}"
            )
        return {"positions": "alibi"}
    return {"positions": "none"}
