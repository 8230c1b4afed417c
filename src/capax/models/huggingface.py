"""Language models of Hugging Face's transformers as modules that give scores."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from capax.errors import SpecError, said, shown
from capax.inputs import Stamp, read_json, stamps
from capax.models.hf_config import built, config_class, refuse_many, refuse_none
from capax.models.hf_files import WEIGHTS, config_file, quiet, refuse_code, refuse_description, transformers
from capax.models.libraries import refuse_unknown
from capax.specs.huggingface import OURS, HuggingFace
from capax.specs.spec import refuse_unwritable

OF_THE_TASK = ("vocab_size",)
POSITIONS = re.compile(r"(^|[._])(wpe|pos\w*|embed_positions)([._]|$)")
"""How tables of positions are called."""
ROLES = ("bos_token_id", "eos_token_id", "pad_token_id")
"""Tokens with a role; padding would not be trained."""
NO_NETWORK = (
    *("transformers_version", "architectures", "dtype", "torch_dtype", "use_cache", "_name_or_path"),
    *("id2label", "label2id", "problem_type", "return_dict", "output_hidden_states", "output_attentions"),
)
"""What of a config makes no other network of scores."""


class Scores(nn.Module):
    """A language model that gives its scores alone."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores `(b, n, vocab_size)` of tokens `(b, n)`."""
        with quiet():  # it advises other kernels while it runs
            scores: Tensor = self.network(input_ids=tokens).logits
        return scores


def read_fields(path: Path, field: str) -> dict[str, Any]:
    """The content of a config.json, or of that in a folder.

    Raises:
        SpecError: for a file that is none, or names code.
    """
    refuse_code(path, field, SpecError)
    return read_json(config_file(path, field, SpecError), field, SpecError)


def check(spec: HuggingFace) -> None:
    """Fill in what follows from the files that a new spec names, and refuse what cannot be built.

    Raises:
        SpecError: for a config of no causal language model, options that it does not have, sizes that contradict each
            other, or weights that are not there, pickled, or of another kind.
    """
    if transformers is None:
        raise SpecError("model: cannot import transformers; is it broken?")
    given = spec.config if spec.config is not None else _config_of_weights(spec)
    refuse_unwritable("config", given)
    kind = config_class(given.get("model_type"), "config")
    with quiet():
        usual = kind()
        if getattr(usual, "is_encoder_decoder", False):
            raise SpecError(
                f"config: model_type: of a causal language model without an encoder, got {given['model_type']!r}"
            )
        fields, sizes = _told(spec, kind, usual, given)
        spec.fill(config=fields, set={}, **sizes)
        built_config(spec, vocab_size=int(getattr(usual, "vocab_size", None) or 1))
    _refuse_other_heads(spec, fields["model_type"], "head_dim" in dir(usual))
    if spec.weights is not None:
        folder = Path(spec.weights).resolve()
        refuse_no_weights(folder)
        spec.fill(weights=str(folder), weights_sha256=content(folder))
        spec.model_fields_set.discard("weights_sha256")  # a copy with changes reads them again


def _refuse_other_heads(spec: HuggingFace, kind: str, says_channels: bool) -> None:
    if spec.d_head is None or says_channels:
        return
    if spec.n_heads is None or spec.d_model is None:
        raise SpecError(f"d_head: {kind!r} has no heads, got {spec.d_head}")
    if spec.d_head * spec.n_heads != spec.d_model:
        each = spec.d_model / spec.n_heads
        raise SpecError(f"d_head: heads of {kind!r} have d_model / n_heads = {each:g} channels, got {spec.d_head}")


def _config_of_weights(spec: HuggingFace) -> dict[str, Any]:
    if spec.weights is None:
        raise SpecError("config: is required: a config.json, or a folder with one")
    return read_fields(Path(spec.weights), "weights")


def _told(
    spec: HuggingFace, kind: Any, usual: Any, given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, int | None]]:
    """A config without sizes, in the library's own names, and its sizes by capax's names."""
    own = dict(kind.attribute_map)
    known = {*usual.to_dict(), *own} - {*NO_NETWORK, *ROLES, "model_type", "auto_map"}
    for name in OF_THE_TASK:
        if name in spec.set:
            raise SpecError(f"set: {name} is the task's here, got {shown(spec.set[name])}")
    refuse_unknown(spec.set, known, f"the config of {given['model_type']!r} in {spec.library}")
    changes = {own.get(name, name): value for name, value in spec.set.items()}
    fields = {own.get(name, name): value for name, value in given.items()} | changes
    sizes = {}
    for ours, theirs in OURS.items():
        name, said_here = own.get(theirs, theirs), getattr(spec, ours)
        if said_here is not None and name in changes and changes[name] != said_here:
            raise SpecError(f"set: {name} is {ours} here, which is {said_here}, got {shown(changes[name])}")
        value = fields.pop(name, None if ours == "d_head" else getattr(usual, theirs, None))
        if said_here is not None and value is None and ours != "d_head":
            raise SpecError(f"{ours}: the config of {given['model_type']!r} has no {name}, got {shown(said_here)}")
        sizes[ours] = value if said_here is None else said_here
        if sizes[ours] is not None and (type(sizes[ours]) is not int or not 1 <= sizes[ours] < 2**31):
            raise SpecError(f"{ours}: the config's {name} should be a positive whole number, got {shown(value)}")
    for name in (*OF_THE_TASK, *NO_NETWORK, *ROLES):
        fields.pop(name, None)
    return fields, sizes


def built_config(spec: HuggingFace, vocab_size: int) -> Any:
    """The library's config.

    Raises:
        SpecError: when the library refuses it.
    """
    assert spec.config is not None
    refuse_description(spec.config, "it", "config", SpecError)  # a store may hold anything
    if spec.config.get("quantization_config") is not None:
        raise SpecError("config: quantised weights are not trained (quantization_config)")
    refuse_many(spec.config, "config")
    kind = config_class(spec.config.get("model_type"), "config")
    own = dict(kind.attribute_map)
    refuse_none(spec.config, own, "config")
    sizes = {
        own.get(theirs, theirs): getattr(spec, ours)
        for ours, theirs in OURS.items()
        if getattr(spec, ours) is not None and (ours != "d_head" or hasattr(kind(), theirs))
    }
    fields = {name: value for name, value in spec.config.items() if name != "model_type"}
    try:
        return kind(**{**fields, **sizes, **dict.fromkeys(ROLES), "vocab_size": vocab_size, "use_cache": False})
    except Exception as error:  # of several libraries that check it
        raise SpecError(f"config: {spec.library} refuses it ({said(error)})") from None


def outline(spec: HuggingFace, vocab_size: int, context: int) -> nn.Module:
    """A module with first values of the library's own.

    Raises:
        SpecError: for more tokens than its positions.
    """
    with quiet():
        config = built_config(spec, vocab_size)
        longest = positions(config)
        if longest is not None and context > longest:
            raise SpecError(
                f"seq_len: the config has {longest} positions (max_position_embeddings), and the task has questions "
                f"of {context} tokens"
            )
    return Scores(built(config))


def positions(config: Any) -> int | None:
    """The most tokens that a config has positions for; None where any number goes, which XLNet says by −1."""
    longest = getattr(config, "max_position_embeddings", None)
    return longest if isinstance(longest, int) and longest > 0 else None


def unused_positions(spec: HuggingFace, vocab_size: int, context: int) -> str | None:
    """What of a trained table of positions lies beyond the context, in words; None where nothing does.

    Raises:
        SpecError: as `outline`.
    """
    with torch.device("meta"):
        module = outline(spec, vocab_size, context)
    for name, part in module.named_modules():
        if isinstance(part, nn.Embedding) and POSITIONS.search(name) and part.weight.requires_grad:
            rows, width = part.weight.shape
            if rows > context:
                return (
                    f"positions: {rows - context} of {rows} are beyond {context} tokens and never trained, and count "
                    f"as {width * (rows - context)} trainable parameters; fewer by max_position_embeddings"
                )
    return None


def make(spec: HuggingFace, vocab_size: int, context: int) -> nn.Module:
    """A module that maps tokens `(batch, n)` to scores `(batch, n, vocab_size)`.

    Raises:
        SpecError: as `outline`, and for weights that have changed, or are not those of the model.
    """
    fresh = outline(spec, vocab_size, context)  # whatever the weights: it checks sizes
    if spec.weights is None:
        return fresh
    folder = Path(spec.weights)
    refuse_no_weights(folder)
    if content(folder) != spec.weights_sha256:
        raise SpecError(f"weights: {folder} has changed since the run was made")
    known = vocabulary(folder)
    if vocab_size > known:
        raise SpecError(f"vocab_size: the weights in {folder} know {known} tokens, got {vocab_size}")
    with quiet():
        network, found = transformers.AutoModelForCausalLM.from_pretrained(
            str(folder),
            config=built_config(spec, known),
            dtype=torch.float32,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
        _refuse_others(found, folder)
        if vocab_size < known:
            network.resize_token_embeddings(vocab_size)
    return Scores(network)


def _refuse_others(found: Mapping[str, Any], folder: Path) -> None:
    """Refuse weights that are not exactly the model's."""
    for name, has, wanted in sorted(found["mismatched_keys"]):
        raise SpecError(f"weights: {name!r} in {folder} is {tuple(has)}, the config makes it {tuple(wanted)}")
    for kind, what in {"missing_keys": "lacks", "unexpected_keys": "holds what the model lacks:"}.items():
        if names := sorted(found[kind]):
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise SpecError(f"weights: {folder} {what} {names[0]!r}{more}")


def weights_in_words(spec: HuggingFace, vocab_size: int) -> str:
    """Where the first weights are from, and how much of their vocabulary is left."""
    known = vocabulary(Path(spec.weights or ""))
    cut = f", the first {vocab_size} of its {known} tokens" if vocab_size < known else ""
    return f"weights: from {Path(spec.weights or '').name} (sha256 {spec.weights_sha256:.8}…){cut}"


def vocabulary(folder: Path) -> int:
    """Tokens that the weights in a folder know.

    Raises:
        SpecError: where its config does not say.
    """
    said_there = read_fields(folder, "weights").get("vocab_size")
    if type(said_there) is not int or said_there < 1:
        raise SpecError(f"weights: {folder / 'config.json'}: vocab_size should be a number, got {shown(said_there)}")
    return said_there


def refuse_no_weights(folder: Path) -> None:
    """Refuse a folder without weights that may be read.

    Raises:
        SpecError: also as `refuse_code`.
    """
    refuse_code(folder, "weights", SpecError)
    if not folder.is_dir() or not any(folder.glob(WEIGHTS)):
        raise SpecError(f"weights: no .safetensors in {folder}")


def content(folder: Path) -> str:
    """Sha256 of all weights in a folder, by their names.

    Raises:
        SpecError: for a file that cannot be read.
    """
    files = sorted(folder.glob(WEIGHTS))
    return _hashed(stamps(files))


@lru_cache(maxsize=8)
def _hashed(files: tuple[Stamp, ...]) -> str:
    found = hashlib.sha256()
    for path, _ in files:
        try:
            with path.open("rb") as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
        except OSError as error:
            raise SpecError(f"weights: cannot read {path}: {error.strerror}") from None
        found.update(f"{path.name} {digest}\n".encode())
    return found.hexdigest()
