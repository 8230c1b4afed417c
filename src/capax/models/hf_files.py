"""What may be read of a folder of Hugging Face: descriptions and .safetensors, no code, nothing pickled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from capax.errors import CapaxError
from capax.inputs import exists, is_folder, read_json, regular

transformers: Any
try:
    import transformers
except ImportError:
    transformers = None

NEEDED = "needs transformers: pip install 'capax[hf]'"
WEIGHTS = "*.safetensors"
PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle")
DESCRIPTIONS = ("config.json", "tokenizer_config.json", "*.safetensors.index.json")
"""Files of a folder that could name code or weights of other kinds."""
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, ImportError, IndexError)


@contextmanager
def quiet() -> Iterator[None]:
    """Transformers without a network, kernels of a hub, advice or progress bars."""
    from huggingface_hub import constants

    logging, kernels = transformers.utils.logging, transformers.integrations.hub_kernels
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    enabled = getattr(kernels, "_kernels_enabled", False)  # they may lie in a cache, too
    was, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    kernels._kernels_enabled = False
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE, kernels._kernels_enabled = was, enabled
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def config_file(model: Path, field: str, error: type[CapaxError]) -> Path:
    """Where a config is: a JSON file itself, or config.json in a folder.

    Raises:
        error: where nothing is there, or a folder without config.json.
    """
    if not exists(model, field, error):
        raise error(f"{field}: no such file or folder {str(model)!r} (nothing is downloaded)")
    if not is_folder(model, field, error):
        return model
    if not exists(model / "config.json", field, error):
        raise error(f"{field}: {model} has no config.json")
    return model / "config.json"


def refuse_code(model: Path, field: str, error: type[CapaxError]) -> None:
    """Refuse what could run code: a model's own classes, and weights that are pickled, which says arbitrary code.

    Args:
        model: a folder, or a config.json.
        field: name that the message begins with.
        error: class of the error.

    Raises:
        error: that names the file; also as `config_file`.
    """
    folder = config_file(model, field, error) != model
    for path in sorted(model.iterdir()) if folder else ():
        if not path.is_dir():
            regular(path, field, error)  # transformers opens what it finds
    for path in [path for pattern in DESCRIPTIONS for path in sorted(model.glob(pattern))] if folder else [model]:
        refuse_description(read_json(path, field, error), str(path), field, error)
    if folder and (model / "adapter_config.json").exists():
        raise error(f"{field}: {model / 'adapter_config.json'}: adapters are not read; merge them into the model")
    pickled = [path for pattern in PICKLED for path in sorted(model.glob(pattern))] if folder else []
    if pickled and not any(model.glob(WEIGHTS)):
        raise error(f"{field}: {pickled[0]} is pickled, which can run code; save the weights as .safetensors")


def refuse_description(said: dict[str, Any], where: str, field: str, error: type[CapaxError]) -> None:
    """Refuse a description that names code, or weights and attention from elsewhere.

    Raises:
        error: that says where.
    """
    if "auto_map" in said:
        raise error(f"{field}: {where} names classes of its own (auto_map); their code is never run")
    if "transformers_weights" in said or _from_elsewhere(said):
        raise error(f"{field}: {where} names weights or attention from elsewhere; what they do is not known")
    shards = said.get("weight_map")
    for shard in shards.values() if isinstance(shards, dict) else ():
        if not str(shard).endswith(".safetensors") or Path(str(shard)).name != shard:
            raise error(f"{field}: {where} names {shard!r:.80}, which is no .safetensors file of this folder")


def _from_elsewhere(said: Any) -> bool:
    """Whether a description names the implementation of a part in some repository."""
    if isinstance(said, list):
        return any(map(_from_elsewhere, said))
    return isinstance(said, dict) and any(
        ("implementation" in name and "/" in str(value)) or _from_elsewhere(value) for name, value in said.items()
    )
