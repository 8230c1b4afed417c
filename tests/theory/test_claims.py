"""A file with weights, data and a claim: what it says is recomputed, and a false or damaged one is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import DOCS
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import capax
from capax.errors import CapaxError, ClaimError, ReportError
from capax.theory.claims import recompute
from capax.theory.claims.export import save_run
from capax.theory.claims.file import read

Parts = tuple[dict[str, np.ndarray], dict[str, Any]]


def built(folder: Path, task: str, **options: Any) -> Path:
    path = folder / f"{task}.safetensors"
    if task == "relations":
        made = capax.construct(capax.Relations(n_items=24), capax.KeyQueryChannel(d_model=8), **options)
    else:
        layer = capax.AssociativeAttention(n_heads=2, d_model=12, d_head=8)
        made = capax.construct(capax.Associations(context_size=8, library_size=12, n_classes=5), layer, **options)
    made.save(path)
    return path


def parts(path: Path) -> Parts:
    with safe_open(path, framework="numpy") as opened:
        header = json.loads(opened.metadata()["capax"])
    return load_file(path), header


def written(path: Path, tensors: dict[str, np.ndarray], header: Any) -> Path:
    save_file(tensors, path, {"capax": header if isinstance(header, str) else json.dumps(header)})
    return path


@pytest.mark.parametrize("task", ["relations", "associations"])
def test_what_is_built_holds(task: str, tmp_path: Path) -> None:
    path = built(tmp_path, task)
    found = capax.verify(path)
    assert found.holds
    assert found.failed == ()
    assert found.about["seed"] == 0
    assert found.about["task"]["task"] == task
    assert path.read_bytes() == built(tmp_path, task).read_bytes(), "the same file each time"


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("fields", [{"contexts": "fresh"}, {"labels": "normal", "d_out": 3}], ids=str)
def test_every_kind_of_association(dtype: str, fields: dict[str, Any], tmp_path: Path) -> None:
    task = capax.Associations(context_size=6, library_size=9, **fields)
    made = capax.construct(task, capax.AssociativeAttention(n_heads=2, d_model=12, d_head=6), dtype=dtype)
    made.save(tmp_path / "a.safetensors")
    assert capax.verify(tmp_path / "a.safetensors").holds


def change_label(tensors: dict[str, np.ndarray], header: dict[str, Any]) -> None:
    tensors["labels"][0] = (tensors["labels"][0] + 1) % 5


def change_weight(tensors: dict[str, np.ndarray], header: dict[str, Any]) -> None:
    tensors["query"][0, 0, 0] += 0.5


def claim(**values: Any) -> Callable[..., None]:
    return lambda tensors, header: header["claim"].update(values)


def scale_items(factor: float) -> Callable[..., None]:
    def change(tensors: dict[str, np.ndarray], header: dict[str, Any]) -> None:
        tensors["items"][3] *= factor

    return change


def drop_edge(tensors: dict[str, np.ndarray], header: dict[str, Any]) -> None:
    tensors["edges"] = tensors["edges"][1:]


def test_copies_of_an_example_are_no_further_ones(tmp_path: Path) -> None:
    tensors, header = parts(built(tmp_path, "associations"))
    for name in ("queries", "labels"):
        tensors[name] = np.repeat(tensors[name][:1], len(tensors[name]), axis=0)
    found = capax.verify(written(tmp_path / "w.safetensors", tensors, header))
    assert not found.holds
    (copies,) = [check for check in found.failed if check.name == "distinct_examples"]
    assert (copies.claimed, copies.recomputed) == (len(tensors["labels"]), 1)


@pytest.mark.parametrize(
    ("task", "change", "wrong"),
    [
        ("associations", change_label, {"max_error", "recalled"}),
        ("associations", change_weight, {"max_error"}),
        ("associations", claim(max_error=1e-17), {"max_error"}),
        ("associations", claim(recalled=13), {"recalled"}),
        ("associations", claim(library_size=8), {"library_size"}),
        ("relations", change_weight, {"margin"}),
        ("relations", drop_edge, {"n_edges", "f1", "margin"}),
        ("relations", scale_items(1e6), {"item_norm"}),
        ("relations", scale_items(1 + 2e-6), {"item_norm"}),
        ("relations", scale_items(0.0), {"item_norm"}),
        ("relations", claim(total_key_dim=12), {"total_key_dim"}),
        ("relations", claim(margin=0.9), {"margin"}),
    ],
)
def test_what_is_false_does_not_hold(task: str, change: Callable[..., None], wrong: set[str], tmp_path: Path) -> None:
    tensors, header = parts(built(tmp_path, task))
    change(tensors, header)
    found = capax.verify(written(tmp_path / "w.safetensors", tensors, header))
    assert not found.holds
    assert wrong <= {check.name for check in found.failed}


def test_items_of_large_norm_do_not_hold_whatever_their_scores(tmp_path: Path) -> None:
    """Items a million times as long and weights a millionth: every score is what it was."""
    tensors, header = parts(built(tmp_path, "relations"))
    tensors["items"] *= 2.0**20
    for name in ("query", "key"):
        tensors[name] *= 2.0**-20
    found = capax.verify(written(tmp_path / "w.safetensors", tensors, header))
    assert [check.name for check in found.failed] == ["item_norm"]
    assert found.failed[0].recomputed == pytest.approx(2**20)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rounding_of_items_holds(dtype: str, tmp_path: Path) -> None:
    tensors, header = parts(built(tmp_path, "relations"))
    tensors["items"] = tensors["items"].astype(dtype)
    header["claim"]["margin"] = None
    assert capax.verify(written(tmp_path / "w.safetensors", tensors, header)).holds


def test_a_better_result_than_claimed_holds(tmp_path: Path) -> None:
    tensors, header = parts(built(tmp_path, "associations"))
    header["claim"] |= {"max_error": 1e-3, "recalled": 5}
    assert capax.verify(written(tmp_path / "w.safetensors", tensors, header)).holds


def cut(name: str) -> Callable[..., None]:
    return lambda tensors, header: tensors.update({name: np.ascontiguousarray(tensors[name][..., :-1])})


def put(name: str, make: Callable[[np.ndarray], np.ndarray]) -> Callable[..., None]:
    return lambda tensors, header: tensors.update({name: make(tensors[name])})


def nan(array: np.ndarray) -> np.ndarray:
    return np.where(np.arange(array.size).reshape(array.shape) == 3, np.nan, array)


def deep(tensors: dict[str, np.ndarray], header: dict[str, Any]) -> None:
    for _ in range(100):
        header["about"] = {"more": header["about"]}


@pytest.mark.parametrize(
    ("task", "change", "said"),
    [
        ("relations", lambda t, h: t.pop("threshold"), ["'threshold' is missing"]),
        ("relations", lambda t, h: t.update(more=np.ones(2)), ["'more' is none of them"]),
        ("relations", cut("key"), ["key", "(24, 8, 1)"]),
        ("relations", cut("items"), ["query", "(n_heads, 7, d_head)", "(24, 8, 1)"]),
        ("relations", cut("edges"), ["edges", "(n_edges, 2)"]),
        ("relations", put("items", nan), ["items", "finite"]),
        ("relations", put("key", lambda a: a.astype(np.float16)), ["key", "float64 or float32", "float16"]),
        ("relations", put("edges", lambda a: a.astype(float)), ["edges", "int64", "float64"]),
        ("relations", put("edges", lambda a: a + 1), ["edges: items are 0 to 23"]),
        ("relations", put("edges", lambda a: a * 0), ["edges: no self-loops"]),
        ("relations", put("edges", lambda a: a[[0, 0]]), ["edges: each once"]),
        ("relations", put("edges", lambda a: a[:0]), ["edges", "(0, 2)"]),
        ("associations", cut("labels"), ["labels", "(12)", "(11,)"]),
        ("associations", put("labels", lambda a: a + 5), ["labels: example", "5 outputs"]),
        ("associations", put("labels", lambda a: a - 9), ["labels: classes are 0 or more"]),
        ("associations", put("contexts", lambda a: np.repeat(a, 2, 0)), ["contexts: one for all or one for each"]),
        ("associations", claim(recalled=None, max_error=None), ["metadata: claim", "recalled or max_error"]),
        ("associations", claim(max_error=float("nan")), ["metadata: claim.max_error", "finite"]),
        ("associations", claim(max_error=-1), ["metadata: claim.max_error", "got -1"]),
        ("associations", claim(accuracy=1), ["metadata: claim.accuracy"]),
        ("associations", lambda t, h: h.pop("claim"), ["metadata: claim", "required"]),
        ("associations", lambda t, h: h.update(task="sequences"), ["metadata", "sequences"]),
        ("associations", lambda t, h: h.update(task="relations"), ["metadata"]),
        ("associations", lambda t, h: h.update(format=2), ["metadata: format", "got 2"]),
        ("associations", deep, ["metadata: nested too deeply"]),
    ],
)
def test_parts_that_do_not_fit_are_named(
    task: str, change: Callable[..., None], said: list[str], tmp_path: Path
) -> None:
    tensors, header = parts(built(tmp_path, task))
    change(tensors, header)
    with pytest.raises(ClaimError) as refused:
        capax.verify(written(tmp_path / "w.safetensors", tensors, header))
    for word in said:
        assert word in str(refused.value)


def test_damaged_and_foreign_files(tmp_path: Path) -> None:
    whole = built(tmp_path, "relations").read_bytes()
    pickled = np.array([{"a": 1}], dtype=object)
    np.save(tmp_path / "pickle.npy", pickled, allow_pickle=True)
    contents = {
        "empty": b"",
        "cut short": whole[:-9],
        "cut in the header": whole[:50],
        "a header longer than the file": (2**21).to_bytes(8, "little") + b"{}",
        "a huge header": (2**62).to_bytes(8, "little") + whole[8:],
        "a pickle": (tmp_path / "pickle.npy").read_bytes(),
        "text": b"threshold 1.0\n" * 9,
        "no JSON": (9).to_bytes(8, "little") + b"{nothing}",
    }
    for name, content in contents.items():
        path = tmp_path / "damaged.safetensors"
        path.write_bytes(content)
        with pytest.raises(ClaimError, match=r"file: .*damaged\.safetensors"):
            capax.verify(path)
        assert "\n" not in name
    save_file({"a": np.ones(2)}, tmp_path / "foreign.safetensors")
    with pytest.raises(ClaimError, match="no claim of capax"):
        capax.verify(tmp_path / "foreign.safetensors")
    for text in ("{", "[]", "NaN", "{}", '{"task": []}'):
        with pytest.raises(ClaimError, match="metadata"):
            capax.verify(written(tmp_path / "w.safetensors", {"a": np.ones(2)}, text))
    for path in (tmp_path / "missing.safetensors", tmp_path):
        with pytest.raises(ClaimError, match="file: "):
            capax.verify(path)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """Trained layers and channels of every kind."""
    path = tmp_path_factory.mktemp("trained") / "s.db"
    training = capax.Training(max_steps=60, lr=0.01)
    channel = capax.KeyQueryChannel(n_heads=2, d_model=6, d_head=3)
    layer = capax.AssociativeAttention(n_heads=2, d_model=6, d_head=3)
    examples = capax.Associations(context_size=3, library_size=6, n_classes=3)
    numbers = capax.Associations(context_size=3, library_size=6, labels="normal", d_out=2, contexts="fresh")
    several = [
        (capax.Relations(n_items=8), channel),
        (capax.Relations(n_items=8), channel.replace(aggregate="sum")),
        *((task, layer.replace(profile=kind)) for task in (examples, numbers) for kind in ("plain", "mahdavi2024")),
    ]
    options = {"restarts": 1, "store": path, "keep_weights": True}
    return path, [capax.measure(task, model, training, **options) for task, model in several]


@pytest.mark.parametrize("number", range(6))
def test_what_was_trained_is_written_with_its_claim(number: int, store: tuple[Path, list[Any]], tmp_path: Path) -> None:
    path, runs = store
    run, out = runs[number], tmp_path / "w.safetensors"
    save_run(run.key, out, path)
    found = capax.verify(out)
    assert found.holds
    memory = capax.load(run.key, path)
    claims = {check.name: check.recomputed for check in found.checks}
    if found.task == "relations":
        assert claims["f1"] == pytest.approx(run.metrics["f1"], abs=0.05)
        tensors = load_file(out)
        scores = tensors["items"] @ tensors["query"].astype(float) @ (tensors["items"] @ tensors["key"]).mT
        joined = scores.max(0) if run.spec.model.aggregate == "max" else scores.sum(0)
        far = abs(memory.outputs()) > 1e-3
        assert ((joined > tensors["threshold"]) == (memory.outputs() > 0))[far].all()
    else:
        assert claims["recalled"] == run.memorized
        assert recompute.outputs(read(out)) == pytest.approx(memory.answers(), abs=1e-5)


def test_what_cannot_be_verified_is_not_written(store: tuple[Path, list[Any]], tmp_path: Path) -> None:
    path, _ = store
    options = {"restarts": 1, "store": path, "keep_weights": True}
    training = capax.Training(max_steps=2)
    channel = capax.KeyQueryChannel(d_model=4, d_head=2, channel="softmax")
    softmax = capax.measure(capax.Relations(n_items=4), channel, training, **options)
    for key, name, said in (
        (softmax.key, "w.safetensors", "channel 'softmax'"),
        (softmax.key, "w.npz", "save: a .safetensors file"),
        ("ffff", "w.safetensors", "ffff"),
    ):
        with pytest.raises(CapaxError, match=re.escape(said)):
            save_run(key, tmp_path / name, path)
    assert list(tmp_path.iterdir()) == []


def test_the_numpy_of_the_page_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/verify.md: its lines import numpy and safetensors alone, and find what `capax.verify` finds."""
    page = (DOCS / "verify.md").read_text(encoding="utf-8")
    relations, associations = re.findall(r"```python\n(.*?)```", page, flags=re.S)[:2]
    monkeypatch.chdir(tmp_path)
    for text, file, task in (
        (relations, "channel.safetensors", "relations"),
        (associations, "layer.safetensors", "associations"),
    ):
        assert set(re.findall(r"^(?:import|from) (\w+)", text, flags=re.M)) == {"json", "numpy", "safetensors"}
        assert len([line for line in text.splitlines() if line.strip()]) <= 25
        built(tmp_path, task).rename(tmp_path / file)
        names: dict[str, Any] = {}
        exec(text, names)
        for check in capax.verify(file).checks:
            if check.name in names:
                assert names[check.name] == pytest.approx(check.recomputed, rel=1e-3), check.name


def channel(path: Path, scores: np.ndarray, **claimed: float) -> Path:
    """A file with one head that gives these scores to pairs of one-hot items; edges are 0 -> 1 -> 2."""
    tensors = {"items": np.eye(3), "edges": np.array([[0, 1], [1, 2]]), "threshold": np.array([0.99999995])}
    tensors |= {"query": np.eye(3)[None], "key": np.ascontiguousarray(scores.T[None])}
    whole = {"n_items": 3, "n_edges": 2, "total_key_dim": 3} | claimed
    return written(path, tensors, {"format": 1, "task": "relations", "aggregate": "max", "claim": whole})


def test_a_large_score_of_one_edge_does_not_excuse_the_margin(tmp_path: Path) -> None:
    scores = np.full((3, 3), 0.9999999)
    scores[0, 1], scores[1, 2] = 1e10, 1.0
    assert [
        check.name for check in capax.verify(channel(tmp_path / "a.safetensors", scores, f1=1.0, margin=5.0)).failed
    ] == ["margin"]
    assert capax.verify(channel(tmp_path / "b.safetensors", scores, f1=1.0, margin=1.0000001e-7)).holds


@pytest.mark.filterwarnings("error")
def test_scores_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    tensors, header = parts(channel(tmp_path / "a.safetensors", np.diag([1e200, 1.0], 1), f1=0.5, margin=5.0))
    tensors["query"][0, 0, 0] = 1e200
    with pytest.raises(ClaimError, match=r"^scores: "):
        capax.verify(written(tmp_path / "b.safetensors", tensors, header))


@pytest.mark.filterwarnings("error")
def test_outputs_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    tensors, header = parts(built(tmp_path, "associations"))
    tensors["value"][:], tensors["out"][:] = 1e200, 1e200
    with pytest.raises(ClaimError, match=r"^outputs: "):
        capax.verify(written(tmp_path / "b.safetensors", tensors, header))


def test_a_large_label_does_not_excuse_errors_of_others(tmp_path: Path) -> None:
    one = np.ones((1, 1, 1))
    tensors = dict.fromkeys(("query", "key", "value", "out"), one) | {"queries": np.ones((2, 1))}
    tensors |= {"contexts": np.array([[[1e16]], [[1.0]]]), "labels": np.array([[1e16], [1.0]])}
    claimed = {"library_size": 2, "max_error": 0.0, "recalled": 2, "tolerance": 10.0}
    header = {"format": 1, "task": "associations", "profile": "plain", "claim": claimed}
    assert capax.verify(written(tmp_path / "exact.safetensors", tensors, header)).holds
    tensors["labels"] = np.array([[1e16], [1.0 + 8.0]])
    found = capax.verify(written(tmp_path / "wrong.safetensors", tensors, header))
    assert [(check.name, check.recomputed) for check in found.failed] == [("max_error", 8.0)]


def test_a_tolerance_within_which_one_answer_is_right_for_all_recalls_nothing(tmp_path: Path) -> None:
    one = np.ones((1, 1, 1))
    tensors = dict.fromkeys(("query", "key", "value", "out"), one) | {"queries": np.ones((2, 1))}
    tensors |= {"contexts": np.array([[[1.0]], [[2.0]]]), "labels": np.array([[1.0], [2.0]])}
    for tolerance, holds in ((0.4, True), (0.5, False), (100.0, False)):
        claimed = {"library_size": 2, "max_error": 0.0, "recalled": 2, "tolerance": tolerance}
        header = {"format": 1, "task": "associations", "profile": "plain", "claim": claimed}
        found = capax.verify(written(tmp_path / f"{tolerance}.safetensors", tensors, header))
        assert found.holds is holds
        assert [check.name for check in found.failed] == ([] if holds else ["tolerance"])
        assert {check.name: check.recomputed for check in found.checks}["tolerance"] == 0.5


def test_a_file_that_is_no_claim_is_not_overwritten(tmp_path: Path) -> None:
    path, other = tmp_path / "w.safetensors", tmp_path / "model.safetensors"
    made = capax.construct(capax.Relations(n_items=4), capax.KeyQueryChannel(d_model=3))
    made.save(path)
    made.save(path)
    save_file({"weight": np.ones(2)}, other)
    before = other.read_bytes()
    with pytest.raises(ReportError, match="is there, and no claim; name another file"):
        made.save(other)
    assert other.read_bytes() == before
