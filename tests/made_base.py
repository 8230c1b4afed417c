"""A small Hugging Face checkpoint, as adapters have them for a base."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from capax.models.hf_files import quiet
from capax.specs import HuggingFace
from capax.tasks.tokenization import BytePairs

TEXT = "In the beginning was the word, and nothing else was there. " * 30
TOKENS = 280
SHAPE = {
    **{"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 24},
    **{"max_position_embeddings": 64, "num_key_value_heads": 1},
}


def write_base(folder: Path, kind: str = "llama", **fields: Any) -> Path:
    """A checkpoint of random weights, with a tokenizer and held-out text."""
    spec = HuggingFace(config={"model_type": kind, **(fields or SHAPE)}, set={})
    module = spec.torch_module({"vocab_size": TOKENS, "context": 64}, 3)
    with quiet():
        module.network.save_pretrained(folder)
    told = json.loads(BytePairs.trained([TEXT], TOKENS).to_json())["tokenizer"]
    (folder / "tokenizer.json").write_text(json.dumps(told))
    (folder / "held-out.txt").write_text(TEXT)
    return folder
