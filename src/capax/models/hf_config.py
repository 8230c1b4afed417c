"""Configs of Hugging Face's causal language models, and what they build: no network, no code but transformers'."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.modules.module import register_module_module_registration_hook

from capax.errors import CapaxError, SpecError, shown
from capax.inputs import read_json
from capax.models.hf_files import NEEDED, config_file, quiet, transformers
from capax.models.libraries import nearest

MANY = re.compile(r"(?!.*(size|dim))(.*layer|.*expert|.*block|.*depth|.*n_head|.*num_.*heads)", re.IGNORECASE)
"""Fields that say how many modules there are, not how large they are: a billion of them would never be built."""
MOST, MOST_MODULES = 2**14, 400_000
"""Of one such field (Doge has 16384 experts), and of a whole model."""
SOME = ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size")
"""Fields by whose values sizes are divided, or without which nothing is left."""
ALIKE = 0.7
"""Of a model_type to one that is offered in its place: short names are like many at the usual 0.5."""
MISSPELT = 0.85
"""Of a name that a config lacks to one that it has."""
WEIGHTS = ("quantization_config", "dtype", "torch_dtype", "_name_or_path", "transformers_version")
"""What a config says of weights that it lies beside, which are not read."""
CODE = ("auto_map", "custom_pipelines", "transformers_weights")
"""What names code, or weights, from elsewhere."""
KERNELS = tuple(
    f"{before}{part}_implementation{after}"
    for part in ("attn", "experts")
    for before, after in (("", ""), ("_", ""), ("_", "_internal"), ("_", "_autoset"))
)
"""How products are computed, which may name a kernel of a hub."""
LONGEST = 240
"""Characters of what transformers says of a value."""
LABELS = ("id2label", "label2id", "num_labels")
"""Of a classifier, whose names would be written out one by one."""


class Described(NamedTuple):
    """A config, and what was left aside of its file.

    Attributes:
        config: of transformers.
        kind: its `model_type`.
        notes: in words.
    """

    config: Any
    kind: str
    notes: tuple[str, ...]


def read_config(path: Path) -> Described:
    """The config of a causal language model that transformers has.

    What names code or weights (`auto_map`, kernels of a hub, how weights were quantised) is left aside and said: the
    class is always that of transformers.

    Args:
        path: a JSON file, or a folder with config.json.

    Raises:
        SpecError: where transformers is missing, for what cannot be read, an architecture that is none of its causal
            language models, or values that it refuses.
    """
    if transformers is None:
        raise SpecError(f"config: {NEEDED}")
    path = config_file(path, "config", SpecError)
    said = read_json(path, "config", SpecError)
    kind = said.get("model_type")
    known = config_class(kind, f"config: {path}")
    refuse_many(said, f"config: {path}")
    refuse_none(said, known.attribute_map, f"config: {path}")
    try:
        with quiet():
            config = known.from_dict(_plain(said))
    except Exception as problem:  # whatever its class makes of the values
        raise SpecError(f"config: {path}: not the config of a {kind}: {_line(problem)}") from None
    notes = []
    if code := [name for name in CODE if said.get(name)]:
        notes.append(
            f"{path} names code of its own ({', '.join(code)}), which is not loaded: this is transformers' {kind}"
        )
    named = said.get("architectures")
    causal = transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[kind]
    if isinstance(named, list) and named and not code and causal not in named:
        notes.append(
            f"{path} is of {', '.join(map(shown, named[:3]))}; this is transformers' {causal}, which predicts the next "
            "token"
        )
    with quiet():
        names = {*known().to_dict(), *known.attribute_map}
    notes.extend(  # most names that a class lacks are an older version's, or somebody's own
        f"{path} says {shown(name)}, which the config of a {kind} lacks: is it {near}?"
        for name in sorted({*said} - names)
        if (near := nearest(name, names, MISSPELT))
    )
    if said.get("quantization_config"):
        notes.append(f"{path} says how its weights are quantised; parameters are counted as they are without")
    return Described(config, str(kind), tuple(notes))


def told(config: Any, name: str) -> Any:
    """A field of a config; None where it has none of that name, or one for each layer."""
    try:
        return getattr(config, name, None)
    except RuntimeError:  # transformers refuses a field that may differ between layers
        return None


def config_class(kind: object, field: str) -> Any:
    """The class of the configs of a causal language model, by its `model_type`.

    Raises:
        SpecError: for one that transformers does not have; it names the nearest.
    """
    known = transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    if not isinstance(kind, str) or kind not in known or kind not in transformers.CONFIG_MAPPING:
        near = nearest(kind, known, ALIKE) if isinstance(kind, str) else ""
        raise SpecError(
            f"{field}: model_type should be one of the {len(known)} causal language models of transformers "
            f"{transformers.__version__}, got {'none' if kind is None else shown(kind)}"
            + (f"; the nearest are {near}" if near else "")
        )
    return transformers.CONFIG_MAPPING[kind]


def built(config: Any) -> nn.Module:
    """The language model of a config, `AutoModelForCausalLM`, in float32, on torch's device of now.

    Raises:
        SpecError: for more modules than any model has, or keys and values that no equal number of heads share.
        Exception: any that transformers raises of values that it cannot build.
    """
    many = SpecError(f"config: no {config.model_type} can be built of it: more than {MOST_MODULES} modules")
    with quiet(), _few_modules(many):
        made: nn.Module = transformers.AutoModelForCausalLM.from_config(
            config, dtype=torch.float32, trust_remote_code=False
        )
    _refuse_uneven_groups(made, config)
    return made


def _refuse_uneven_groups(model: nn.Module, config: Any) -> None:
    """Refuse heads that keys and values cannot be shared by, where the model's attention shares them.

    It is built of them all the same, and counted, but no sequence can be put through it.
    """
    text = config.get_text_config(decoder=True)
    said, own = text.to_dict(), text.attribute_map  # some configs refuse to say what may vary over layers
    heads, pairs = (said.get(own.get(name, name)) for name in ("num_attention_heads", "num_key_value_heads"))
    if not isinstance(heads, int) or not isinstance(pairs, int) or not heads % pairs:
        return
    if any(getattr(module, "num_key_value_groups", None) == heads // pairs for module in model.modules()):
        raise SpecError(
            f"config: num_key_value_heads: should divide num_attention_heads, which is {heads}, got {shown(pairs)}"
        )


def causal_model(described: Described, device: str = "meta") -> nn.Module:
    """The language model of a config; on the meta device it takes no memory.

    Args:
        device: where its weights are; on a real one they are random, drawn from torch's generator.

    Raises:
        SpecError: for one with an encoder, or values of which none can be built.
    """
    config, kind = described.config, described.kind
    if getattr(config, "is_encoder_decoder", False):
        raise SpecError(f"config: model_type: a causal language model without an encoder, got {kind!r}")
    layers = getattr(config.get_text_config(), "num_hidden_layers", None)
    if isinstance(layers, int) and layers < 1:
        raise SpecError(f"config: num_hidden_layers: at least 1, got {layers}")
    try:
        with torch.device(device):
            return built(config)
    except CapaxError:
        raise
    except Exception as problem:  # whatever its class makes of the values
        if "overflow" in str(problem).lower():
            raise SpecError(f"config: no {kind} can be built of it: {_too_large(config)}") from None
        raise SpecError(f"config: no {kind} can be built of it: {_line(problem)}") from None


def _too_large(config: Any) -> str:
    """Which number of a config makes a tensor that cannot be: the largest, as a rule."""
    numbers = {name: value for name, value in config.get_text_config().to_dict().items() if type(value) is int}
    name = max(numbers, key=lambda one: numbers[one])
    return f"{name}: a tensor has fewer than 2^63 bytes, got {shown(numbers[name])}"


@contextmanager
def _few_modules(many: CapaxError) -> Iterator[None]:
    """Stop what builds more modules than any model has, with an error."""
    count = 0

    def registered(*_: object) -> None:
        nonlocal count
        count += 1
        if count > MOST_MODULES:
            raise many

    hook = register_module_module_registration_hook(registered)
    try:
        yield
    finally:
        hook.remove()


def refuse_many(said: Any, field: str) -> None:
    """Refuse more layers, heads or experts than any model has, in any part of a config.

    Raises:
        SpecError: that names the field.
    """
    for name, value in said.items() if isinstance(said, dict) else ():
        if isinstance(value, dict):
            refuse_many(value, field)
        elif isinstance(value, int) and MANY.match(name) and value > MOST:
            raise SpecError(f"{field}: {name}: at most {MOST}, got {shown(value)}")


def refuse_none(said: Any, own: Mapping[str, str], field: str) -> None:
    """Refuse sizes below one (`SOME`), in any part of a config.

    Args:
        own: the architecture's own names of fields, by their usual ones.

    Raises:
        SpecError: that names the field as the config does.
    """
    names = {*SOME, *(own[name] for name in SOME if name in own)}
    for name, value in said.items() if isinstance(said, dict) else ():
        if isinstance(value, dict):
            refuse_none(value, own, field)
        elif name in names and type(value) is int and value < 1:
            raise SpecError(f"{field}: {name}: at least 1, got {shown(value)}")


def _plain(said: Any) -> Any:
    """A config without what names code, weights, kernels or labels, in all of its parts."""
    if not isinstance(said, dict):
        return said
    aside = (*WEIGHTS, *CODE, *KERNELS, *LABELS)
    return {name: _plain(value) for name, value in said.items() if name not in aside}


def _line(problem: BaseException) -> str:
    return " ".join(str(problem).split())[:LONGEST] or type(problem).__name__
