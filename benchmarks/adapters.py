"""Adapters over one frozen base: members together over shared weights, one by one, and a plain loop over peft's models.

A base of random weights (Llama's block, 4 layers, width 64, 2048 tokens), LoRA of rank 4 on all layers; forward,
cross-entropy of all positions, and gradients of the adapters. Three ways in this process, in turn, one thread. Figures
are milliseconds of a processor per member, medians; ratios are medians over pairs.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import torch.nn.functional as F
from torch import Tensor

from capax.models.hf_files import quiet
from capax.models.module import ModuleEnsemble, stack
from capax.specs import HuggingFace, Lora
from capax.tasks.tokenization import BytePairs

TOKENS, CONTEXT = 2048, 63
CASES = [(members, rows) for rows in (1, 4, 16) for members in (4, 16)]
TEXT = "A text that nobody reads, for the loss of a base whose weights are random. " * 20


def base(folder: Path) -> Path:
    """A checkpoint of random weights, with a tokenizer and a held-out text."""
    shape = {"num_hidden_layers": 4, "num_attention_heads": 4, "hidden_size": 64, "intermediate_size": 192}
    spec = HuggingFace(config={"model_type": "llama", **shape}, set={})
    module = spec.torch_module({"vocab_size": TOKENS, "context": CONTEXT}, 0)
    with quiet():
        module.network.save_pretrained(folder)
    told = json.loads(BytePairs.trained([TEXT], TOKENS).to_json())["tokenizer"]
    (folder / "tokenizer.json").write_text(json.dumps(told))
    (folder / "held-out.txt").write_text(TEXT)
    return folder


def step(scores: Callable[[Tensor], Tensor], trained: list[Tensor], tokens: Tensor) -> None:
    """Forward, loss and gradients."""
    found = scores(tokens[..., :-1])
    torch.autograd.grad(F.cross_entropy(found.flatten(0, -2), tokens[..., 1:].flatten(), reduction="sum"), trained)


def main(pairs: int = 7) -> list[dict[str, object]]:
    torch.set_num_threads(1)
    rows: list[dict[str, object]] = []
    with TemporaryDirectory() as place:
        spec = Lora(base=str(base(Path(place))), lora={"r": 4})
        sizes = {"vocab_size": TOKENS, "context": CONTEXT}
        for members, batch in CASES:
            modules = [spec.torch_module(sizes, seed) for seed in range(members)]
            stacked, common = stack(modules[0], modules[1:], spec)
            leaves = {name: tensor.requires_grad_() for name, tensor in stacked.items()}
            tokens = torch.randint(TOKENS, (members, batch, CONTEXT + 1), generator=torch.Generator().manual_seed(0))
            packs = [ModuleEnsemble(spec, leaves, modules[0], way, common=common) for way in (True, False)]
            own = [[p for p in one.parameters() if p.requires_grad] for one in modules]

            def plain(
                modules: list[torch.nn.Module] = modules, own: list[list[Tensor]] = own, t: Tensor = tokens
            ) -> None:
                for one, trained, row in zip(modules, own, t, strict=True):
                    step(one, trained, row)

            ways = [*(partial(step, pack.logits, list(leaves.values()), tokens) for pack in packs), plain]
            for way in ways * 2:
                way()
            times = []
            for _ in range(pairs):
                each = []
                for way in ways:
                    began = time.process_time()
                    way()
                    each.append((time.process_time() - began) / members)
                times.append(each)
            together, alone, loop = (statistics.median(column) * 1e3 for column in zip(*times, strict=True))
            ratio = statistics.median(one[2] / one[0] for one in times)
            print(
                f"adapters  {members:2} members  {batch:2} rows of {CONTEXT + 1} tokens  together {together:7.1f} ms  "
                f"one by one {alone:7.1f} ms  plain peft {loop:7.1f} ms  plain/together {ratio:4.2f}",
                flush=True,
            )
            rows.append({"members": members, "rows": batch, "together_ms": together, "one_ms": alone, "plain_ms": loop})
    return rows


if __name__ == "__main__":
    main()
