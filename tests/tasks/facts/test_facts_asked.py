"""Weights of a run on facts, asked in words: what is kept with them, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
from countries import MODEL, TOKENIZATIONS, task, written

import capax
from capax.errors import CapaxError
from capax.seeds import numpy_generator
from capax.tasks.facts.encoding import prepared
from capax.tasks.facts.fact import FactsError
from capax.tasks.facts.library import draw


def test_a_module_that_answers_at_the_last_position_alone_is_asked_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lastalone.py").write_text(
        "import torch\n\n\nclass Bag(torch.nn.Module):\n    def __init__(self, vocab_size):\n"
        "        super().__init__()\n        self.table = torch.nn.Embedding(vocab_size, vocab_size)\n\n"
        "    def forward(self, tokens):\n        return self.table(tokens).sum(1)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    run = capax.measure(
        task(tokenization="words", library_size=20),
        capax.Module(factory="lastalone:Bag"),
        capax.Training(max_steps=60, lr=0.1),
        restarts=1,
        store=tmp_path / "s.db",
        keep_weights=True,
    )
    memory = capax.load(run.key, tmp_path / "s.db", trust=True)
    table = draw(run.spec.task, 20, numpy_generator(0, "library", 0))
    right = 0
    for line in table.text().splitlines():
        key, relation, _ = line.split("\t")
        right += memory.recall(key, relation).agrees is True
    assert right == run.memorized > 0


def test_a_key_that_is_no_text_is_refused(tmp_path: Path) -> None:
    run = capax.measure(
        task(), MODEL, capax.Training(max_steps=1), restarts=1, store=tmp_path / "s.db", keep_weights=True
    )
    memory = capax.load(run.key, tmp_path / "s.db")
    for question, said in (((3, "capital"), "key: a text, got 3"), (("Norway", 3), "relation: a text, got 3")):
        with pytest.raises(capax.errors.CapaxError, match=f"^{said}$"):
            memory.recall(*question)
    with pytest.raises(capax.errors.CapaxError, match=f"^key: probes are of runs on sequences, run {run.key[:12]}"):
        capax.probe(memory)


def longest_key(memory: Any, room: int) -> tuple[str, str]:
    """A key that leaves no room but for the first token of its answer."""
    length = next(n for n in range(1, 200) if len(memory.encoding.question(memory.library, "q" * n, 0)) == room)
    return "q" * length, memory.library.relations[0]


@pytest.mark.slow
def test_a_memory_is_asked_in_words(tmp_path: Path) -> None:
    for kind in TOKENIZATIONS:
        spec = task(tokenization=kind, library_size=60)
        run = capax.measure(
            spec,
            capax.Transformer(d_model=32, d_head=32),
            capax.Training(max_steps=700),
            restarts=1,
            store=tmp_path / "facts.db",
            keep_weights=True,
        )
        assert run.memorized == 60
        memory = capax.load(run.key, tmp_path / "facts.db")
        table = draw(spec, 60, numpy_generator(0, "library", 0))
        for row in range(0, 60, 13):
            key, relation, answer = table.text().splitlines()[row].split("\t")
            found = memory.recall(key, relation)
            assert (found.answer, found.agrees) == (answer, True)
            assert found == memory.recall(f" {key}", f"{relation} ")
            assert 0 < found.probability <= 1
        with pytest.raises(FactsError, match="relation: one of capital, continent, currency, got 'anthem'"):
            memory.recall("Germany", "anthem")
        with pytest.raises(FactsError, match=r"^relation: is required; one of capital, continent, currency$"):
            memory.recall("Germany")
        with pytest.raises(FactsError, match="question: a key"):
            memory.asked([])
        with pytest.raises(FactsError, match="key: is empty"):
            memory.recall(" ", "capital")
        if kind in ("words", "code"):
            with pytest.raises(FactsError, match="'Atlantis' is no entity of the file"):
                memory.recall("Atlantis", "capital")
        else:
            assert memory.recall("Atlantis", "capital").agrees is None
            room = run.spec.task.sizes()["context"]
            with pytest.raises(FactsError, match=r"^key: too long: \d+ of \d+ tokens of an answer fit beside it"):
                memory.recall(*longest_key(memory, room))


def test_the_tokenizer_is_kept_with_the_weights(tmp_path: Path) -> None:
    from safetensors import safe_open
    from safetensors.torch import load_file

    from capax import memory
    from capax.tasks.tokenization import BytePairs, from_json

    store = tmp_path / "facts.db"
    run = capax.measure(
        task(tokenization="bpe"), MODEL, capax.Training(max_steps=2), restarts=1, store=store, keep_weights=True
    )
    with capax.Store(store) as opened:
        path = opened.weights_path(run.key)
    with safe_open(path, "numpy") as file:
        kept = from_json(file.metadata()["tokenizer"])
    assert kept.encode(["Oslo"])[0].tolist() == prepared(run.spec.task).encoding.text.encode(["Oslo"])[0].tolist()
    assert capax.load(run.key, store).run.key == run.key
    other = BytePairs.trained(["another text, and other pairs"], 270)
    memory.save(path, load_file(path), {"tokenizer": other.to_json()})
    with pytest.raises(CapaxError, match=r"the tokenizer in .* is not the one that its file gives now"):
        capax.load(run.key, store)


@pytest.mark.slow
def test_a_memory_knows_its_file_by_the_content(tmp_path: Path) -> None:
    """Where it has moved, the caller says where to; another file is refused."""
    first, moved, other = (tmp_path / f"{name}.tsv" for name in ("first", "moved", "other"))
    spec = capax.Facts(library=written(first, "Norway\tOslo", "Spain\tMadrid"))
    store = tmp_path / "s.db"
    run = capax.measure(
        spec, capax.Transformer(d_model=8), capax.Training(max_epochs=60), restarts=1, keep_weights=True, store=store
    )
    said = capax.load(run.key, store).recall("Norway")
    first.rename(moved)
    with pytest.raises(CapaxError, match=r"^library: no such file: .*first\.tsv; library=FILE, or --library"):
        capax.load(run.key, store)
    assert capax.load(run.key, store, library=moved).recall("Norway") == said
    written(other, "Norway\tBergen", "Spain\tMadrid")
    with pytest.raises(CapaxError, match=r"^library: .*other\.tsv has changed"):
        capax.load(run.key, store, library=other)
    drawn = capax.Sequences(seq_len=3, vocab_size=9, library_size=5)
    run = capax.measure(
        drawn, capax.Transformer(d_model=4), capax.Training(max_epochs=1), restarts=1, keep_weights=True, store=store
    )
    with pytest.raises(CapaxError, match=r"^library: only of runs that learned a file"):
        capax.load(run.key, store, library=moved)
