"""Queries and contexts of the attention of a Hugging Face model of text or of images, block by block.

Models come from local paths only; a config alone gives random weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from capax import working
from capax.checks import image_files
from capax.checks.assumptions import AssumptionReport, Precision, report
from capax.errors import EmbeddingError
from capax.inputs import read_text
from capax.models.hf_files import NEEDED, UNREADABLE, WEIGHTS, quiet, refuse_code, transformers

BATCH = 16
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model")
Query = Literal["first", "last"]


@dataclass(frozen=True)
class Family:
    """Where the models of a family keep the residual stream after attention.

    Attributes:
        attended: a module of a block whose input or output is the residual stream after attention.
        side: which of the two.
        query: the token that sees the whole sequence.
    """

    attended: str
    side: Literal["input", "output"]
    query: Query


FAMILIES = {
    "bert": Family("attention", "output", "first"),
    "roberta": Family("attention", "output", "first"),
    "gpt2": Family("ln_2", "input", "last"),
    "llama": Family("post_attention_layernorm", "input", "last"),
    "mistral": Family("post_attention_layernorm", "input", "last"),
    "qwen2": Family("post_attention_layernorm", "input", "last"),
    "vit": Family("layernorm_after", "input", "first"),
    "deit": Family("layernorm_after", "input", "first"),
}


@dataclass(frozen=True)
class Embedded:
    """One representation of all sequences; the query is also one of the tokens of its context."""

    name: str
    queries: Float[np.ndarray, "items channels"]
    contexts: Float[np.ndarray, "items context_size channels"]


@dataclass(frozen=True)
class Embeddings:
    """Every representation, and what was assumed to get them."""

    representations: tuple[Embedded, ...]
    notes: tuple[str, ...]


def check_blocks(
    model: Path,
    text: Path | None = None,
    *,
    images: Path | None = None,
    layer: int = 1,
    query: Query | None = None,
    context_size: int | None = None,
    precision: Precision = "float32",
    samples: int = 5000,
    seed: int = 0,
    curve: bool = False,
) -> AssumptionReport:
    """Check what the memorization bound assumes, block by block (see `read` and `assumptions.represent`).

    Raises:
        EmbeddingError: as `read`.
        LibraryError: as `assumptions.represent`.
    """
    found = read(
        model,
        text,
        images=images,
        layer=layer,
        query=query,
        context_size=context_size,
        precision=precision,
        seed=seed,
    )
    sets = [(one.name, one.queries, one.contexts) for one in found.representations]
    source = f"{model}, {text or images}"
    return report(source, sets, samples=samples, seed=seed, precision=precision, curve=curve, notes=found.notes)


def read(
    model: Path,
    text: Path | None = None,
    *,
    images: Path | None = None,
    layer: int = 1,
    query: Query | None = None,
    context_size: int | None = None,
    precision: Precision = "float32",
    seed: int = 0,
) -> Embeddings:
    """Embeddings of each line, or image: as they enter the first block, after attention in a block, after that block.

    After attention: the residual stream, in BERT and RoBERTa after its normalization. Models of kinds other than
    `FAMILIES` go without it, and need `query`. Without a tokenizer, tokens are the line's bytes modulo the vocabulary.
    Tokens of an image are CLS and its patches.

    Args:
        model: a folder with config.json and maybe weights and a tokenizer, or a config.json.
        text: one sequence a line, for a model of text.
        images: for a model of images: a folder of .png and .jpg files, or a .npy array (`image_files.read`).
        layer: the block, from 1.
        query: the token that is the query; the first of an encoder and the last of a decoder when not given.
        context_size: tokens to which each line is cut; those of the shortest line when not given.
        precision: in which the model runs.
        seed: of random weights.

    Raises:
        EmbeddingError: when transformers is missing, the model cannot be read or has no such block, or a line is short;
            it names the line (from 1).
    """
    if transformers is None:
        raise EmbeddingError(f"hf: {NEEDED}")
    with quiet():
        config = _config(model)
        kind = str(config.model_type)
        family = FAMILIES.get(kind)
        if query is None:
            if family is None:
                raise EmbeddingError(f"query: say first or last; which token of {kind!r} sees all others is not known")
            query = family.query
        network, notes = _network(model, config, precision, seed)
        name, inputs, said = _inputs(model, config, text, images, query, context_size)
    notes += said
    longest = getattr(config, "max_position_embeddings", None)
    if images is None and longest is not None and inputs.shape[1] > longest:
        raise EmbeddingError(f"context_size: at most the model's {longest} positions, got {inputs.shape[1]}")
    blocks = _blocks(network, config)
    if not 1 <= layer <= len(blocks):
        raise EmbeddingError(f"layer: 1 to {len(blocks)}, got {layer}")
    if family is None:
        notes += (f"after attention: left out, as its place in {kind!r} is not known; known: {', '.join(FAMILIES)}",)
    with quiet():
        found = _run(network, blocks, layer, family, {name: inputs})
    at = 0 if query == "first" else -1
    return Embeddings(
        tuple(Embedded(name, vectors[:, at], vectors) for name, vectors in found),
        (*notes, f"the query is the {query} token, which is in the context too"),
    )


def _config(model: Path) -> Any:
    refuse_code(model, "hf", EmbeddingError)
    try:
        config = transformers.AutoConfig.from_pretrained(str(model), local_files_only=True, trust_remote_code=False)
    except UNREADABLE as error:
        raise EmbeddingError(f"hf: cannot read the config of {model}: {_line(error)}") from None
    if getattr(config, "is_encoder_decoder", False) or not (_reads_text(config) or _reads_images(config)):
        raise EmbeddingError(f"hf: encoders or decoders of text, or encoders of images, got {config.model_type!r}")
    return config


def _reads_text(config: Any) -> bool:
    return getattr(config, "vocab_size", None) is not None


def _reads_images(config: Any) -> bool:
    return all(getattr(config, name, None) is not None for name in ("image_size", "patch_size", "num_channels"))


def _inputs(
    model: Path, config: Any, text: Path | None, images: Path | None, query: Query, context_size: int | None
) -> tuple[str, torch.Tensor, tuple[str, ...]]:
    """What the model is called with, the name of that argument, and notes.

    Raises:
        EmbeddingError: where text is given to a model of images, or the other way round.
    """
    kind = config.model_type
    if _reads_text(config):
        if text is None or images is not None:
            raise EmbeddingError(f"text: needed for a model of text such as {kind!r}, without images")
        tokens, said = _tokens(model, text, int(config.vocab_size), query, context_size)
        return "input_ids", torch.from_numpy(tokens), said
    if images is None or text is not None:
        raise EmbeddingError(f"images: needed for a model of images such as {kind!r}, without text")
    if context_size is not None:
        raise EmbeddingError(f"context_size: of images it follows from their patches, got {context_size}")
    size = config.image_size if isinstance(config.image_size, int) else tuple(config.image_size)
    height, width = (size, size) if isinstance(size, int) else size
    pixels, said = image_files.read(images, (int(config.num_channels), int(height), int(width)))
    return "pixel_values", torch.from_numpy(pixels), said


def _network(model: Path, config: Any, precision: str, seed: int) -> tuple[nn.Module, tuple[str, ...]]:
    weights = model.is_dir() and any(model.glob(WEIGHTS))
    try:
        if weights:
            network = transformers.AutoModel.from_pretrained(
                str(model), config=config, local_files_only=True, trust_remote_code=False, use_safetensors=True
            )
        else:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                network = transformers.AutoModel.from_config(config, trust_remote_code=False)
    except UNREADABLE as error:
        raise EmbeddingError(f"hf: cannot make the model of {model}: {_line(error)}") from None
    notes = () if weights else (f"weights are random (seed {seed}): {model} has only a config",)
    return network.to(getattr(torch, precision)).eval(), notes


def _tokens(
    model: Path, text: Path, vocab_size: int, query: Query, context_size: int | None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Token ids (items, context size)."""
    lines = read_text(text, "text", EmbeddingError).removesuffix("\n").split("\n")
    if lines == [""]:
        raise EmbeddingError(f"text: {text} is empty")
    if context_size is not None and context_size < 1:
        raise EmbeddingError(f"context_size: at least 1, got {context_size}")
    if model.is_dir() and any((model / name).is_file() for name in TOKENIZERS):
        rows, notes = _tokenized(model, lines, context_size)
    else:
        first = [vocab_size - 1] if query == "first" else []
        kinds = vocab_size - len(first)
        if kinds < 1:
            raise EmbeddingError(f"hf: a vocabulary of at least {1 + len(first)}, got {vocab_size}")
        rows = [[*first, *(byte % kinds for byte in line.encode())] if line else [] for line in lines]
        added = f"; token {kinds} stands first" if first else ""
        notes = (f"tokens are bytes modulo {kinds}, as there is no tokenizer{added}",)
    shortest = min(range(len(rows)), key=lambda at: len(rows[at]))
    wanted = context_size or max(len(rows[shortest]), 1)
    if len(rows[shortest]) < wanted:
        raise EmbeddingError(
            f"text: line {shortest + 1} of {text} has {len(rows[shortest])} tokens, fewer than the context's {wanted}"
        )
    tokens = np.array([row[:wanted] for row in rows], np.int64)
    repeated = len(tokens) - len(np.unique(tokens, axis=0))
    if repeated:
        notes += (f"{repeated} lines are equal to others once they are cut to {wanted} tokens",)
    return tokens, notes


def _tokenized(model: Path, lines: list[str], context_size: int | None) -> tuple[list[list[int]], tuple[str, ...]]:
    """Ids of each line; special tokens stay where the tokenizer puts them, in lines that are cut, too."""
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            str(model), local_files_only=True, trust_remote_code=False
        )

        def ids(most: int | None) -> list[list[int]]:
            return [
                list(tokenizer(line, truncation=most is not None, max_length=most)["input_ids"])
                for line in working.through(lines, "lines in tokens")
            ]

        rows = ids(context_size)
        if context_size is None:
            rows = ids(min(map(len, rows)))
    except UNREADABLE as error:
        raise EmbeddingError(f"hf: cannot use the tokenizer of {model}: {_line(error)}") from None
    return rows, (f"tokens are those of {type(tokenizer).__name__}",)


def _blocks(network: nn.Module, config: Any) -> nn.ModuleList:
    lists = [
        one for one in network.modules() if isinstance(one, nn.ModuleList) and len(one) == config.num_hidden_layers
    ]
    if not lists:
        raise EmbeddingError(f"hf: no list of {config.num_hidden_layers} blocks in a {type(network).__name__}")
    return lists[0]


def _run(
    network: nn.Module, blocks: nn.ModuleList, layer: int, family: Family | None, inputs: dict[str, torch.Tensor]
) -> list[tuple[str, np.ndarray]]:
    """Each representation's name and vectors (items, context size, channels)."""
    names = ["raw embeddings", f"after attention in block {layer}", f"after block {layer}"]
    seen: dict[str, list[torch.Tensor]] = {name: [] for name in names}
    block = blocks[layer - 1]

    def taken(name: str, side: str) -> Any:
        def hook(_: nn.Module, arguments: Any, keywords: dict[str, Any], output: Any) -> None:
            value = output if side == "output" else (arguments[0] if arguments else keywords["hidden_states"])
            seen[name].append((value[0] if isinstance(value, tuple) else value).clone())

        return hook

    watched = [(names[0], blocks[0], "input"), (names[2], block, "output")]
    if family is not None:
        watched.append((names[1], block.get_submodule(family.attended), family.side))
    hooks = [module.register_forward_hook(taken(name, side), with_kwargs=True) for name, module, side in watched]
    try:
        with torch.no_grad():
            ((name, given),) = inputs.items()
            for batch in working.through(given.split(BATCH), "batches through the model"):
                network(**{name: batch.to(network.dtype) if batch.is_floating_point() else batch})
    except UNREADABLE as error:
        raise EmbeddingError(f"hf: a {type(network).__name__} cannot run on these inputs: {_line(error)}") from None
    finally:
        for hook in hooks:
            hook.remove()
    return [(name, torch.cat(seen[name]).numpy()) for name in names if seen[name]]


def _line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
