"""`capax check assumptions` on arrays."""

import json
from pathlib import Path

import numpy as np
import pytest
from commands import refused, run

from capax.checks.assumptions import AssumptionReport, represent


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def save(queries: np.ndarray, contexts: np.ndarray) -> tuple[str, str]:
    np.save("q.npy", queries)
    np.save("c.npy", contexts)
    return "q.npy", "c.npy"


def gaussian(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape)


def test_json_is_what_python_says(capsys: pytest.CaptureFixture[str]) -> None:
    queries, contexts = gaussian(60, 12), gaussian(60, 5, 12)
    queries[3] = 2 * queries[9]
    given = save(queries, contexts)
    printed = run(capsys, "check", "assumptions", *given, "--samples", "100", "--seed", "3", "--json")
    found = AssumptionReport.model_validate_json(printed)
    assert found.representations == (represent("given arrays", queries, contexts, samples=100, seed=3),)
    assert (found.library_size, found.context_size, found.d_model, found.contexts) == (60, 5, 12, "fresh")
    assert json.loads(printed)["schema_version"] == 1


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    queries = gaussian(30, 12)
    queries[4] = 0
    out = " ".join(run(capsys, "check", "assumptions", *save(queries, gaussian(5, 12)), "--samples", "50").split())
    for part in ("30 queries", "5 tokens", "12 channels", "fails zero: 5", "has rank 5"):
        assert part in out
    assert out.index("A1 ") < out.index("fails") < out.index("A2 ") < out.index("holds")


def test_precision(capsys: pytest.CaptureFixture[str]) -> None:
    given = save(gaussian(8, 12).astype(np.float32), gaussian(5, 12).astype(np.float32))
    assert "(float32)" in run(capsys, "check", "assumptions", *given)
    assert "(float64)" in run(capsys, "check", "assumptions", *given, "--precision", "float64")


@pytest.mark.parametrize(
    ("queries", "contexts", "said"),
    [
        (gaussian(6, 4), gaussian(6, 4, 4), ["contexts", "n < d", "got 4"]),
        (gaussian(6, 4), gaussian(5, 3, 4), ["contexts", "6 queries", "got 5"]),
        (gaussian(6, 4), gaussian(6, 3, 5), ["contexts", "4 channels", "got 5"]),
        (gaussian(0, 4), gaussian(3, 4), ["queries", "empty"]),
        (np.where(np.arange(24).reshape(6, 4) == 20, np.nan, 1.0), gaussian(3, 4), ["queries", "number 6"]),
        (np.array(["a", "b"]), gaussian(3, 4), ["queries", "floats"]),
    ],
)
def test_bad_arrays(
    capsys: pytest.CaptureFixture[str], queries: np.ndarray, contexts: np.ndarray, said: list[str]
) -> None:
    line = refused(capsys, "check", "assumptions", *save(queries, contexts))
    for word in said:
        assert word in line, line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], ["two arrays", "--hf"]),
        (["q.npy"], ["two arrays", "--hf"]),
        (["q.npy", "c.npy", "--hf", "x"], ["two arrays", "--hf"]),
        (["--hf", "x"], ["text", "--hf"]),
        (["q.npy", "c.npy", "--text", "t.txt"], ["text", "--hf"]),
        (["q.npy", "c.npy", "--layer", "2"], ["layer", "--hf"]),
        (["q.npy", "c.npy", "--query", "last"], ["query", "--hf"]),
        (["q.npy", "c.npy", "--samples", "0"], ["samples", "at least 1"]),
        (["q.npy", "c.npy", "--seed", "-1"], ["seed", "at least 0"]),
        (["q.npy", "c.npy", "--precision", "float16"], ["precision", "float16"]),
        (["missing.npy", "c.npy"], ["queries", "missing.npy"]),
        (["q.npy", "text.npy"], ["contexts", "text.npy"]),
    ],
)
def test_bad_flags(capsys: pytest.CaptureFixture[str], arguments: list[str], said: list[str]) -> None:
    save(gaussian(6, 4), gaussian(3, 4))
    Path("text.npy").write_text("no array")
    line = refused(capsys, "check", "assumptions", *arguments)
    for word in said:
        assert word in line, line
