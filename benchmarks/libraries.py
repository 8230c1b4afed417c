"""Time of a training step of today's block against the same model by x-transformers and by Hugging Face.

Rotary positions, a gated FFN with SiLU, RMS norms (Llama's block); batch 512, d_model 64, 2 heads of 64, one layer,
Adam. Three ways to train it, all in this process, in turn, one thread: a plain loop over the library's module; capax
over the same library's modules (`--model x-transformers`, `--model hf`); and capax's own variant. Figures are
milliseconds of a processor per model and step, medians; ratios are medians over pairs. Llama's FFN has no biases.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

import torch
from torch import nn

from benchmarks.step import HEADS, MEMBERS, WIDTH, Step, capax_step, plain_step, seconds
from capax.specs import HuggingFace, Model, Transformer, XTransformers

CHANNELS = 64
GOALS = {"last": 10, "all": 1.5}
SHAPE = {"n_layers": 1, "n_heads": HEADS, "d_model": WIDTH, "d_head": CHANNELS}


@dataclass(frozen=True)
class Case(Step):
    tables: str = "frozen"


CASES = [
    Case("last", 16, 32),
    Case("last", 100, 32),
    Case("last", 100, 32, "trained"),
    Case("all", 16, 32),
    Case("all", 100, 32),
    Case("all", 100, 32, "trained"),
]


def libraries(seq_len: int) -> dict[str, Model]:
    """The model by each library."""
    options = {"rotary_pos_emb": True, "rotary_emb_dim": CHANNELS, "ff_glu": True, "ff_swish": True}
    config = {"model_type": "llama", "head_dim": CHANNELS, "intermediate_size": 4 * WIDTH}
    sizes = {name: size for name, size in SHAPE.items() if name != "d_head"}
    return {
        "x-transformers": XTransformers(**SHAPE, set=options | {"use_rmsnorm": True}),
        "Hugging Face": HuggingFace(config=config | {"max_position_embeddings": seq_len}, **sizes),
    }


def native(case: Case) -> Model:
    return Transformer(
        **SHAPE,
        positions="rotary",
        gated=True,
        activation="silu",
        norm="rms",
        embeddings=case.tables,
        readout=case.tables,
    )


def module(model: Model, case: Case) -> nn.Module:
    """What the library builds, with frozen tables where the case has them."""
    made = model.torch_module({"vocab_size": case.vocab_size, "context": case.seq_len - 1}, 0)
    if case.tables == "frozen":
        for name, parameter in made.named_parameters():
            parameter.requires_grad_(not any(part in name for part in ("token_emb", "to_logits", "embed", "lm_head")))
    return made


def main(pairs: int = 7) -> list[dict[str, object]]:
    torch.set_num_threads(1)
    rows = []
    for case in CASES:
        for library, model in libraries(case.seq_len).items():
            by_capax = [(capax_step(one, case), MEMBERS[case.loss]) for one in (model, native(case))]
            steps = [(plain_step(module(model, case), case), 1), *by_capax]
            for step, _ in steps * 2:
                step()
            times = [[seconds(step, time.process_time) / members for step, members in steps] for _ in range(pairs)]
            plain, adapter, ours = (statistics.median(column) * 1e3 for column in zip(*times, strict=True))
            ratio = statistics.median(one[0] / one[2] for one in times)
            print(
                f"libraries  loss {case.loss:4}  vocab {case.vocab_size:3}  tables {case.tables:7}  {library:14}  "
                f"plain {plain:6.1f} ms  by capax {adapter:6.1f} ms  native {ours:6.2f} ms  "
                f"plain/native {ratio:5.1f} (goal {GOALS[case.loss]:g})",
                flush=True,
            )
            rows.append({**vars(case), "library": library, "plain_ms": plain, "capax_ms": adapter, "native_ms": ours})
    return rows


if __name__ == "__main__":
    main()
