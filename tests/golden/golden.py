"""What today's version says of fixed runs, written once: `python tests/golden/golden.py` writes it anew.

A change of these files is a change of what users have stored or been told, and says so in its commit.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

import capax
from capax.cli import main
from capax.laws.files import load_law
from capax.specs import PROTOCOLS, Run
from capax.store.table_files import from_file
from capax.training.pack import Pack
from capax.training.prepare import prepare

HERE = Path(__file__).parent
STORE = HERE / "store.db"
STEPS = 20

SEQUENCES = capax.Sequences(seq_len=5, vocab_size=7, library_size=30)
ASSOCIATIONS = capax.Associations(context_size=3, library_size=20, n_classes=4)
RELATIONS = capax.Relations(n_items=8)
TRANSFORMER = capax.Transformer(n_heads=2, d_model=8, d_head=4)
ATTENTION = capax.AssociativeAttention(n_heads=2, d_model=6, d_head=4)
CHANNEL = capax.KeyQueryChannel(d_model=4, d_head=2)
SHORT = capax.Training(max_epochs=4)

PAIRS: dict[str, tuple[Any, Any]] = {
    "sequences, last": (SEQUENCES.replace(loss="last"), TRANSFORMER),
    "sequences, all": (SEQUENCES.replace(loss="all"), TRANSFORMER),
    "sequences, two layers": (SEQUENCES, TRANSFORMER.replace(n_layers=2, ffn="identity")),
    "sequences, all trained": (SEQUENCES, TRANSFORMER.replace(embeddings="trained", readout="trained")),
    "associations, shared": (ASSOCIATIONS, ATTENTION),
    "associations, fresh": (ASSOCIATIONS.replace(contexts="fresh"), ATTENTION.replace(profile="mahdavi2024")),
    "associations, real": (
        capax.Associations(context_size=3, library_size=20, labels="normal", d_out=2),
        ATTENTION.replace(d_value=3),
    ),
    "relations, threshold": (RELATIONS, CHANNEL),
    "relations, softmax": (RELATIONS, CHANNEL.replace(channel="softmax")),
    "relations, block": (RELATIONS, CHANNEL.replace(channel="block")),
}


def keys() -> dict[str, str]:
    """The key of a run of every pair by every protocol, and of trainings that are not the usual ones."""
    found = {}
    for name, (task, model) in PAIRS.items():
        for protocol, kind in PROTOCOLS.items():
            with contextlib.suppress(capax.CapaxError):  # not every protocol is one of every task
                found[f"{name}; {protocol}"] = Run(task=task, model=model, training=SHORT, protocol=kind()).key()
        training = capax.Training(max_steps=50, eval_steps=10, lr=0.01, schedule="cosine", precision="float64")
        with contextlib.suppress(capax.CapaxError):
            found[f"{name}; steps"] = Run(task=task, model=model, training=training, protocol=capax.Mac(), seed=3).key()
    return found


def first_steps() -> dict[str, dict[str, Any]]:
    """Of every ensemble a digest of its first weights, and the losses of its first steps."""
    torch.set_num_threads(1)
    found = {}
    for name, (task, model) in PAIRS.items():
        size = task.library_size
        pack = Pack(
            task, model, capax.Training(lr=0.01, batch_size=16), (5, 5), (0, 1), (size, size), size, False, True
        )
        learner = prepare(pack)
        weights = hashlib.sha256()
        for _, tensor in sorted(learner.ensemble.parameters.items()):
            weights.update(tensor.detach().numpy().tobytes())
        losses = [learner.step()[0].tolist() for _ in range(STEPS)]
        found[name] = {"weights": weights.hexdigest(), "losses": losses}
    return {"processor": [torch.backends.cpu.get_cpu_capability(), dict(torch.cpu.get_capabilities())]} | found


LAWS = ("reference:power", "reference:ecm", "reference:bits", "reference:association", "reference:relation")
TABLES = {"reference:association": "reference:associations", "reference:relation": "reference:relations"}


def predictions() -> dict[str, list[float]]:
    """What the laws that ship say of the rows that they were fitted to."""
    found = {}
    for name in LAWS:
        law, table = load_law(name), from_file(TABLES.get(name, "reference:grid"))
        found[name] = law.predict(table).tolist()
    return found


COMMANDS: dict[str, list[str]] = {
    "runs": ["runs", "--store", "STORE", "--json"],
    "fit": ["fit", "--data", "reference:grid", "--law", "power", "--json"],
    "predict": [
        "predict",
        "--n-heads",
        "4",
        "--d-model",
        "16",
        "--seq-len",
        "12",
        "--law",
        "reference:power",
        "--json",
    ],
    "plan": ["plan", "--items", "100", "--seq-len", "8", "--law", "reference:power", "--json"],
    "bounds": ["bounds", "--n-heads", "2", "--d-model", "8", "--seq-len", "8", "--json"],
    "recipes": ["reproduce", "--list", "--json"],
}


def said(name: str) -> Any:
    """What a command prints as JSON."""
    arguments = [str(STORE) if word == "STORE" else word for word in COMMANDS[name]]
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main(arguments)
    return json.loads(out.getvalue())


def write() -> None:
    """Write all of it anew, the store too, of runs that are measured now."""
    STORE.unlink(missing_ok=True)
    with capax.Store(STORE) as store:
        for task, model in PAIRS.values():
            for seed in range(2):
                capax.measure(task, model, SHORT, restarts=2, seed=seed, store=store, device="cpu")
    for name, made in (("keys", keys), ("first_steps", first_steps), ("predictions", predictions)):
        _write(name, made())
    for name in COMMANDS:
        _write(f"said_{name.replace(' ', '_')}", said(name))


def _write(name: str, content: Any) -> None:
    (HERE / f"{name}.json").write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    os.chdir(HERE)
    write()
    sys.exit(0)
