"""Low-rank adapters of peft over one frozen language model, which all members share."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.func import functional_call

from capax.errors import SpecError, said, shown
from capax.inputs import read_text
from capax.models import huggingface
from capax.models.hf_files import quiet
from capax.models.huggingface import Scores
from capax.models.libraries import build, refuse_unknown
from capax.models.module import inputs_first
from capax.models.module_traits import TriedModules, some
from capax.models.operations import cross_entropy
from capax.specs.huggingface import HuggingFace
from capax.specs.lora import HELD_OUT, PLACES, Lora

peft: Any
Tokenizer: Any
try:
    import peft
    from tokenizers import Tokenizer
except ImportError:
    peft = None

WINDOW, MOST_WINDOWS = 64, 256
"""Tokens of a held-out window, and the windows that are read at most."""
AT_ONCE = 8
"""Held-out windows whose scores are in memory together: a large vocabulary has many."""
OF_CAPAX = (
    *("target_modules", "exclude_modules", "layers_to_transform", "layers_pattern", "target_parameters"),
    *("peft_type", "task_type", "inference_mode", "auto_mapping", "peft_version", "revision", "runtime_config"),
    *("base_model_name_or_path", "megatron_config", "megatron_core", "modules_to_save", "trainable_token_indices"),
    "layer_replication",
)
"""What of a config of peft is not the user's here: where adapters go is `targets`, and the base is left as it is."""
FOUND = {"attention": re.compile(r"attn|attention", re.IGNORECASE), "mlp": re.compile(r"mlp|ffn|feed_forward|^fc\d")}
"""How the modules that hold a place's layers are called."""
_BUILDABLE: set[str] = set()
"""Adapters that were built once."""


class AdaptedScores(Scores):
    """A language model that gives the scores of its first tokens alone."""

    def __init__(self, network: nn.Module, vocab_size: int) -> None:
        super().__init__(network)
        self.vocab_size = vocab_size

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores `(b, n, vocab_size)` of tokens `(b, n)`."""
        return super().forward(tokens)[..., : self.vocab_size]


AS_IT_IS = (True, False, "gaussian", "orthogonal")
"""Initial weights of peft that do not change the base's, so that its loss without the adapter is its own."""


class Adapters(TriedModules):
    """Adapters of a pack, and what the base loses by them elsewhere."""

    def also_measured(self, weights: Mapping[str, Tensor]) -> dict[str, float]:
        """The loss on the base's held-out text without and with a member's adapter, nats per token."""
        spec: Any = self.spec
        network: Any = self.template.network
        self.template.eval()
        whole = Scores(network)  # all tokens of the base, whatever the task's are
        found = held_out_tokens(spec).to(next(iter(weights.values())).device)

        def loss() -> float:
            nats = [self._nats(whole, weights, rows) for rows in found.split(AT_ONCE)]
            return float(torch.cat(nats).double().mean())

        after = loss()
        with network.disable_adapter():
            return {"base_loss": loss(), "base_loss_after": after}

    def _nats(self, whole: Scores, weights: Mapping[str, Tensor], rows: Int[Tensor, "b n"]) -> Tensor:
        """Cross-entropy of each token after the first of some windows."""
        with torch.no_grad():
            scores = functional_call(whole, (dict(weights), self.common), (rows,))
            return cross_entropy(scores[None, :, :-1], rows[None, :, 1:]).flatten()


def check(spec: Lora) -> None:
    """Fill in what follows from the files that a new spec names, and refuse what cannot be built.

    Raises:
        SpecError: for options that peft does not have or refuses, a rank above the base's width, targets that match no
            layer, a base that is none, or held-out text that is missing or cannot be read.
    """
    if peft is None:
        raise SpecError("model: cannot import peft; is it broken?")
    rank = _refuse_options(spec)
    try:
        network = HuggingFace(weights=spec.base, set={})
    except SpecError as error:  # which names its own fields
        raise SpecError(f"base: {str(error).removeprefix('weights: ')}") from None
    folder = Path(spec.base).resolve()
    if network.d_model is not None and rank > network.d_model:
        raise SpecError(f"lora: r: at most the base's width {network.d_model}, got {rank}")
    held_out = Path(spec.held_out) if spec.held_out is not None else folder / HELD_OUT
    if spec.held_out is None and not held_out.exists():
        raise SpecError(
            f"held_out: is required, a text that the base never saw, where {folder} has no {HELD_OUT}: what the base "
            "loses elsewhere is measured on it"
        )
    for name, value in {
        "base": str(folder),
        "network": network,
        "base_sha256": network.weights_sha256,
        "base_vocab_size": huggingface.vocabulary(folder),
        "held_out": str(held_out.resolve()),
        "held_out_sha256": _content(held_out),
    }.items():
        object.__setattr__(spec, name, value)
    held_out_tokens(spec)
    _refuse_unbuildable(spec)


def _refuse_options(spec: Lora) -> int:
    """Refuse options of an adapter that cannot be built, or leave the base not as it is; the rank.

    Raises:
        SpecError: that names the option.
    """
    defaults = {field.name: field.default for field in dataclasses.fields(peft.LoraConfig)}
    if taken := sorted({*spec.lora} & {*OF_CAPAX}):
        raise SpecError(f"lora: not {taken[0]}: targets say where the adapter goes, and the base is left as it is")
    refuse_unknown(spec.lora, {*defaults} - {*OF_CAPAX}, f"the LoraConfig of {spec.library}", "lora")
    begins = spec.lora.get("init_lora_weights", True)
    if begins not in AS_IT_IS:
        allowed = ", ".join(map(str, AS_IT_IS))
        raise SpecError(f"lora: init_lora_weights that leaves the base as it is ({allowed}), got {shown(begins)}")
    for name, option in spec.lora.items():
        if type(defaults[name]) is bool and name != "init_lora_weights" and type(option) is not bool:
            raise SpecError(f"lora: {name} should be true or false, got {shown(option)}")
    if (bias := spec.lora.get("bias", "none")) != "none":  # biases of the base stay trained where it has no adapter
        raise SpecError(f"lora: bias 'none', which leaves the base as it is, got {shown(bias)}")
    rank = spec.lora.get("r")
    if type(rank) is not int or rank < 1:
        raise SpecError(f"lora: r=RANK is required, a whole number from 1 on, got {shown(rank)}")
    alpha: Any = spec.lora.get("lora_alpha", 1)
    if type(alpha) not in (int, float) or not alpha > 0:
        raise SpecError(f"lora: lora_alpha above 0, by which the adapter counts, got {shown(alpha)}")
    dropout: Any = spec.lora.get("lora_dropout", 0.0)
    if type(dropout) not in (int, float) or not 0 <= dropout < 1:
        raise SpecError(f"lora: lora_dropout from 0 to below 1, got {shown(dropout)}")
    return rank


def _refuse_unbuildable(spec: Lora) -> None:
    """Build it once: runs of a study differ in what they learn, and in few adapters."""
    this = spec.model_dump_json(include={"base", "base_sha256", "lora", "targets", "package_version"})
    if this not in _BUILDABLE:
        with torch.device("meta"):
            outline(spec, spec.known_tokens, 1)
        _BUILDABLE.add(this)


def outline(spec: Lora, vocab_size: int, context: int) -> nn.Module:
    """A module with first values of the libraries' own."""
    return _adapted(spec, huggingface.outline(spec.frozen, spec.known_tokens, context), vocab_size)


def make(spec: Lora, vocab_size: int, context: int) -> nn.Module:
    """A module that maps tokens `(batch, n)` to scores `(batch, n, vocab_size)`; the adapter alone is trained.

    Raises:
        SpecError: for a base that has changed, or knows fewer tokens than the task has.
    """
    base = build(spec.frozen, spec.known_tokens, context, 0)
    if spec.base_weights == "shuffled":
        _shuffle(base)
    return _adapted(spec, base, vocab_size)


def _shuffle(base: nn.Module) -> None:
    """Put the numbers of each tensor in a random order, always the same one."""
    generator = torch.Generator().manual_seed(0)
    for tensor in base.parameters():
        order = torch.randperm(tensor.numel(), generator=generator)
        tensor.data = tensor.data.flatten()[order].view_as(tensor)


def _adapted(spec: Lora, base: nn.Module, vocab_size: int) -> nn.Module:
    _refuse_options(spec)  # a store may hold anything, and peft imports what some of them name
    if vocab_size > spec.known_tokens:
        raise SpecError(f"vocab_size: the base in {spec.base} knows {spec.known_tokens} tokens, got {vocab_size}")
    network: Any = base.network
    layers = _targets(spec, base)
    _check_patterns(spec, layers)
    with quiet(), _no_advice():
        try:
            made = peft.get_peft_model(network, peft.LoraConfig(**spec.lora, target_modules=layers, task_type=None))
        except Exception as error:  # of several libraries that check it
            raise SpecError(f"lora: {spec.library} refuses it ({said(error)})") from None
    return AdaptedScores(made, vocab_size)


def _targets(spec: Lora, base: nn.Module) -> list[str]:
    """The names of the layers that are adapted: those that multiply by a matrix, but for the read-out.

    Raises:
        SpecError: for a target that matches none.
    """
    network: Any = base.network
    readout = network.get_output_embeddings()
    names = [name for name, one in network.named_modules() if _multiplies(one) and one is not readout]
    found: set[str] = set()
    for target in spec.targets.split(","):
        those = [name for name in names if _is_of(name, target)]
        if not those:
            places = [place for place in PLACES if any(_is_of(name, place) for name in names)]
            last = sorted({name.rpartition(".")[2] for name in names})
            raise SpecError(
                f"targets: {target!r:.80} matches no linear layer of the base; it has {some([*places, *last])}"
            )
        found.update(those)
    return sorted(found)


def _check_patterns(spec: Lora, layers: Sequence[str]) -> None:
    """Refuse ranks and factors of layers that have no adapter, and ranks above the base's width.

    Raises:
        SpecError: that names the pattern.
    """
    width = spec.frozen.d_model or math.inf
    for field in ("rank_pattern", "alpha_pattern"):
        patterns: Any = spec.lora.get(field) or {}
        for pattern, value in patterns.items():
            with suppress(re.error):  # which matches nothing
                if any(re.match(rf"(.*\.)?({pattern})$", layer) for layer in layers):  # as peft does
                    if field == "rank_pattern" and (type(value) is not int or not 1 <= value <= width):
                        raise SpecError(f"lora: {field}: ranks from 1 to the base's width {width}, got {shown(value)}")
                    if field == "alpha_pattern" and (type(value) not in (int, float) or not value > 0):
                        raise SpecError(f"lora: {field}: factors above 0, got {shown(value)}")
                    continue
            raise SpecError(f"lora: {field}: {pattern!r:.80} matches no layer that has an adapter")


def _multiplies(module: nn.Module) -> bool:
    """Whether a module is a linear layer, GPT-2's own kind too."""
    return isinstance(module, nn.Linear) or inputs_first(module)


def _is_of(name: str, target: str) -> bool:
    """Whether a layer is of a place, or called so."""
    parts = name.split(".")
    if target in FOUND:
        return any(FOUND[target].search(part) for part in parts)
    return parts[-1] == target or name == target or name.endswith(f".{target}")


def held_out_tokens(spec: Lora) -> Int[Tensor, "windows n"]:
    """Windows of the text that the base never saw, in its own tokens.

    Raises:
        SpecError: for a text that has changed, no tokenizer, or a text too short for one window.
    """
    assert spec.held_out is not None
    path = Path(spec.held_out)
    if _content(path) != spec.held_out_sha256:
        raise SpecError(f"held_out: {path} has changed since the run was made")
    longest = huggingface.positions(huggingface.built_config(spec.frozen, spec.known_tokens))
    length = WINDOW if longest is None else min(WINDOW, longest)
    file = Path(spec.base) / "tokenizer.json"
    if not file.exists():
        raise SpecError(f"held_out: {spec.base} has no tokenizer.json to read it by")
    content = hashlib.sha256(file.read_bytes()).hexdigest()
    return _windows(path, file, spec.known_tokens, length, str(spec.held_out_sha256), content)


@lru_cache(maxsize=4)
def _windows(path: Path, file: Path, known: int, length: int, *contents: str) -> Int[Tensor, "windows n"]:
    try:
        tokenizer = Tokenizer.from_file(str(file))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokens = tokenizer.encode(read_text(path, "held_out", SpecError), add_special_tokens=False).ids
    except SpecError:
        raise
    except Exception as error:  # `tokenizers` raises nothing more special
        raise SpecError(f"held_out: {file} cannot be read ({said(error)})") from None
    if tokens and max(tokens) >= known:
        raise SpecError(f"held_out: {file} has tokens that the base, which knows {known}, does not have")
    windows = min(len(tokens) // length, MOST_WINDOWS)
    if not windows:
        raise SpecError(f"held_out: {path} has {len(tokens)} tokens; at least {length} are needed")
    return torch.tensor(tokens[: windows * length]).view(windows, length)


def _content(path: Path) -> str:
    return hashlib.sha256(read_text(path, "held_out", SpecError).encode()).hexdigest()


def remarks(spec: Lora, vocab_size: int) -> Iterator[str]:
    """What a measurement says of an adapter: its base, the share of it that is trained, and the tokens that count."""
    shuffled = ", its weights shuffled" if spec.base_weights == "shuffled" else ""
    yield f"base: {Path(spec.base).name} (sha256 {spec.base_sha256:.8}…), frozen{shuffled}, by {spec.frozen.library}"
    if vocab_size < spec.known_tokens:
        yield f"tokens: the first {vocab_size} of the base's {spec.known_tokens}"


@contextmanager
def _no_advice() -> Iterator[None]:
    """Peft and transformers advise in warnings what does not concern a base that is frozen."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
