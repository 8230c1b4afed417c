"""Transformers of any fields, every way to compute one, and the same one by x-transformers."""

from __future__ import annotations

from typing import Any, NamedTuple, get_args

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor
from x_transformers import Decoder, TransformerWrapper

from capax.models.mixers import softmax
from capax.models.transformer import Scored, TransformerEnsemble
from capax.specs import Sequences, Transformer
from capax.specs.attention import Kind
from capax.tasks.sequences import SequenceLibrary

ALL_TRAINED = {"embeddings": "trained", "readout": "trained", "positions": "trained"}
TIED = ALL_TRAINED | {"readout": "tied"}


class Path(NamedTuple):
    """One way to compute the attention of a model: what is scored and what is decided for it."""

    scored: Scored
    mixes: bool = False
    sequences: int = 1
    factors: bool = False
    sign: str | None = None  # the shared tensor that says the path is taken


MANY = 10**9
"""Sequences of a step with which every table pays."""

EVERY_QUERY = {
    "projected": Path("all"),
    "mixed": Path("all", mixes=True),
    "looked up": Path("all", mixes=True, sequences=MANY, sign="asked"),
}
LAST_OF_ONE = {"last": Path("last"), "last, factored": Path("last", factors=True, sign="token_part")}
LAST_OF_SEVERAL = {f"last of several, {name}": path._replace(scored="last") for name, path in EVERY_QUERY.items()}
PATHS = EVERY_QUERY | LAST_OF_ONE | LAST_OF_SEVERAL


def paths_of(spec: Transformer) -> dict[str, Path]:
    """The paths that exist at a depth: one layer may factor its only query, more need every query of the first."""
    paths = EVERY_QUERY | (LAST_OF_ONE if spec.n_layers == 1 else LAST_OF_SEVERAL)
    return {
        name: path for name, path in paths.items() if not path.sign or (spec.has_table and spec.attention == "softmax")
    }


def logits_by(path: Path, ensemble: TransformerEnsemble, tokens: Tensor) -> Tensor:
    """The logits along one path, whether it pays or not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(softmax, "factoring_pays", lambda *sizes: path.factors)
        patch.setattr(softmax, "mixes_inputs", lambda *sizes: path.mixes)
        shared = ensemble.shared(path.scored, path.sequences)
        assert {"asked", "token_part"} & shared.keys() == ({path.sign} if path.sign else set())
        return ensemble.logits(tokens, path.scored, shared)


def gradients(parameters: dict[str, Tensor], loss: Tensor) -> dict[str, Tensor]:
    """By name; zero where the loss does not depend on a parameter."""
    trained = {name: p for name, p in parameters.items() if p.requires_grad}
    found = torch.autograd.grad(
        loss, list(trained.values()), retain_graph=True, allow_unused=True, materialize_grads=True
    )
    return dict(zip(trained, found, strict=True))


def losses(spec: Transformer, logits: Tensor, batch: Tensor) -> Tensor:
    """Each member's mean loss, from the task."""
    vocab_size = logits.shape[-1]
    task = Sequences(seq_len=batch.shape[2], vocab_size=vocab_size, library_size=1)
    weight = torch.full(batch.shape[:2], 1 / batch.shape[1], dtype=logits.dtype)
    return SequenceLibrary(task, batch, (batch.shape[1],)).losses(logits, batch, weight)


# x-transformers


def x_transformers(spec: Transformer, vocab_size: int, context: int, dtype: torch.dtype, **options: Any) -> Any:
    """Its model of this shape, with gains and biases (and all the rest) moved from their initial values."""
    with torch.random.fork_rng():
        torch.manual_seed(context)
        decoder = Decoder(
            dim=spec.d_model,
            depth=spec.n_layers,
            heads=spec.n_heads,
            attn_dim_head=spec.d_head,
            attn_project_out=True,  # from version 2.17 on, one head has no output projection unless asked for
            **options,
        )
        model = TransformerWrapper(num_tokens=vocab_size, max_seq_len=context, attn_layers=decoder).to(dtype)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.3 * torch.randn_like(parameter)
    return model


# every fast path against the plain computation


@st.composite
def transformers(draw: st.DrawFn) -> Transformer:
    small, positions = (
        st.integers(1, 5),
        draw(st.sampled_from(get_args(Transformer.model_fields["positions"].annotation))),
    )
    heads, ffn = draw(st.integers(1, 4)), draw(st.sampled_from(["mlp", "identity", "none"]))
    norms, skips = draw(st.booleans()), draw(st.booleans())
    place = draw(st.sampled_from(["pre", "post"])) if norms else "pre"
    attention = "softmax" if positions == "alibi" else draw(st.sampled_from(get_args(Kind)))
    softmaxes = attention == "softmax"
    values, experts = not softmaxes or draw(st.booleans()), draw(st.integers(1, 3)) if ffn == "mlp" else 1
    return Transformer(
        n_layers=draw(st.integers(1, 3)),
        n_heads=heads,
        n_kv_heads=draw(st.none() | st.sampled_from([some for some in (1, 2, 3, 4) if heads % some == 0])),
        attention=attention,
        values=values,
        window=draw(st.none() | small) if softmaxes else None,
        stride=draw(st.none() | small) if softmaxes else None,
        d_model=draw(st.integers(3, 6)),
        d_head=draw(st.sampled_from([2, 4]) if positions == "rotary" else small),
        d_value=draw(st.none() | small) if values else None,
        ffn=ffn,
        gated=ffn == "mlp" and draw(st.booleans()),
        n_experts=experts,
        top_k=draw(st.integers(1, experts)),
        norm=draw(st.sampled_from(["layer", "rms"])) if norms else "layer",
        norm_place=place,
        activation=draw(st.sampled_from(["gelu", "relu", "silu", "softmax", "rrelu"])),
        embeddings=draw(st.sampled_from(["frozen", "trained"])),
        positions=positions,
        readout=draw(st.sampled_from(["frozen", "trained", "tied"])),
        norms=norms,
        skips=skips,
        parallel=place == "pre" and skips and ffn != "none" and draw(st.booleans()),
    )
