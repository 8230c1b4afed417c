"""Make x_transformers_1_30_1.safetensors: what the x-transformers of the paper's time (May 2024) computes.

Run it in an environment of its own with capax's torch, numpy, einops and safetensors, and

    pip install --no-deps --target OLD x-transformers==1.30.1
    PYTHONPATH=OLD python tests/models/data/make_reference.py

(--no-deps: the package asks for nothing else that the environment lacks). For each of a few shapes the file holds,
under `shape.kind.name` with x-transformers' own names: random weights, random tokens, the logits of every position, and
the gradients of the all-position cross-entropy. The model computes in float64 (its softmax in float32, as it always
does); the file holds float32. Weights are exact: they are rounded to float32 before anything is computed.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from x_transformers import Decoder, TransformerWrapper

VERSION = "1.30.1"
SEQUENCES = 3
SHAPES = [
    {"vocab_size": 11, "seq_len": 6, "d_model": 16, "n_layers": 1, "n_heads": 1, "d_head": 64},
    {"vocab_size": 13, "seq_len": 5, "d_model": 8, "n_layers": 2, "n_heads": 2, "d_head": 8},
    {"vocab_size": 7, "seq_len": 7, "d_model": 12, "n_layers": 3, "n_heads": 3, "d_head": 4},
]


def reference(shape: dict[str, int], seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    decoder = Decoder(
        dim=shape["d_model"], depth=shape["n_layers"], heads=shape["n_heads"], attn_dim_head=shape["d_head"]
    )
    model = TransformerWrapper(
        num_tokens=shape["vocab_size"], max_seq_len=shape["seq_len"] - 1, attn_layers=decoder
    ).double()
    with torch.no_grad():
        for parameter in model.parameters():
            noise = 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_((parameter + noise).float())
    tokens = torch.randint(shape["vocab_size"], (SEQUENCES, shape["seq_len"]), generator=generator)
    logits = model(tokens[:, :-1])
    F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:]).backward()
    return {
        "tokens": tokens,
        "logits": logits.detach().float(),
        **{f"weight.{name}": p.detach().float() for name, p in model.named_parameters()},
        **{f"gradient.{name}": p.grad.float() for name, p in model.named_parameters()},
    }


if __name__ == "__main__":
    assert version("x-transformers") == VERSION, f"needs x-transformers {VERSION}, found {version('x-transformers')}"
    tensors = {
        f"{number}.{name}": tensor.contiguous()
        for number, shape in enumerate(SHAPES)
        for name, tensor in reference(shape, seed=number).items()
    }
    target = Path(__file__).with_name("x_transformers_1_30_1.safetensors")
    save_file(tensors, target, {"x_transformers": VERSION, "shapes": json.dumps(SHAPES)})
    print(f"{target.name}: {target.stat().st_size} bytes")
