"""Study files: the runs that they mean, and every mistake named by table, field and value."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest

import capax
from capax.store import table_files
from capax.sweeps.grid import StudyError, read_study, shapes

EXAMPLES = Path(__file__).parents[2] / "examples"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_without_a_store_of_its_own_a_study_has_one_of_its_name(tmp_path: Path) -> None:
    assert read_study(written(tmp_path, "[grid]\nd_model = [8]\n")).store == tmp_path / "study.db"


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ("{from = 1e-5, to = 3e-5, steps = 3}", [1e-5, 1.7320508075688774e-5, 3e-5]),
        ("{from = 1e-6, to = 1e-3, factor = 10}", [1e-6, 1e-5, 1e-4, 1e-3]),
        ("{from = 0.1, to = 0.7, factor = 3}", [0.1, 0.3]),
        ("{from = 0.3, to = 0.3, steps = 1}", [0.3]),
        ("{from = 1e-4, to = 1e-1, steps = 4}", [1e-4, 1e-3, 1e-2, 1e-1]),
    ],
)
def test_a_range_has_the_values_that_one_would_write(tmp_path: Path, given: str, values: list[float]) -> None:
    """Not what rounding makes of them: a list of these has the same runs."""
    study = read_study(written(tmp_path, f"[grid]\nlr = {given}"))
    assert [run.training.lr for run in study.runs] == values


def test_a_grid_is_every_combination(tmp_path: Path) -> None:
    study = read_study(
        written(
            tmp_path,
            """
            store = "s.db"
            seed = 3
            [task]
            library_size = 50
            [protocol]
            restarts = 2
            [grid]
            d_model = [8, 16]
            seq_len = { from = 4, to = 16, factor = 2 }
            lr = { from = 1e-4, to = 1e-2, steps = 3 }
            """,
        )
    )
    assert len(study.runs) == 18
    assert study.store == tmp_path / "s.db"
    first = study.runs[0]
    assert first == capax.Run(
        task=capax.Sequences(seq_len=4, library_size=50),
        model=capax.Transformer(d_model=8),
        training=capax.Training(lr=1e-4),
        protocol=capax.Mac(restarts=2),
        seed=3,
    )
    assert [run.training.lr for run in study.runs[:3]] == pytest.approx([1e-4, 1e-3, 1e-2])
    assert [run.task.seq_len for run in study.runs[:9:3]] == [4, 8, 16]
    assert len({run.key() for run in study.runs}) == 18


def test_zipped_fields_advance_together_and_changes_apply(tmp_path: Path) -> None:
    study = read_study(
        written(
            tmp_path,
            """
            [task]
            vocab_size = 30
            [grid]
            seed = [0, 1]
            [[zip]]
            seq_len = [4, 8]
            library_size = [100, 60]
            [[change]]
            if = { seq_len = 8, seed = [1, 2] }
            set = { max_epochs = 7 }
            [[change]]
            if = { vocab_size = 30, d_model = 32 }
            set = { lr = 0.01 }
            """,
        )
    )
    seen = [(run.seed, run.task.seq_len, run.task.library_size, run.training.max_epochs) for run in study.runs]
    assert seen == [(0, 4, 100, None), (0, 8, 60, None), (1, 4, 100, None), (1, 8, 60, 7)]
    assert {run.training.lr for run in study.runs} == {0.01}  # d_model 32 is the default


def test_a_change_asks_what_a_run_has_not_what_is_usual(tmp_path: Path) -> None:
    """A library of 3 tokens out of 5 has 25 prefixes, whatever the usual library has."""
    text = (
        "[task]\nseq_len = 3\n[grid]\nvocab_size = [5, 100]\n[[change]]\nif = {library_size = 25}\nset = {seed = 7}\n"
    )
    (tmp_path / "s.toml").write_text(text)
    found = read_study(tmp_path / "s.toml").runs
    assert [(run.task.library_size, run.seed) for run in found] == [(25, 7), (1000, 0)]
    (tmp_path / "s.toml").write_text(text.replace("library_size = 25", 'd_model = "32"'))
    with pytest.raises(StudyError, match=r"matches no run of the study, got d_model = '32'"):
        read_study(tmp_path / "s.toml")


def test_a_library_that_is_missing_is_named_with_the_study(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('[task]\nlibrary = "none.txt"\n')
    with pytest.raises(StudyError, match=r"s.toml: task.library: no such file"):
        read_study(tmp_path / "s.toml")


def test_the_same_run_counts_once(tmp_path: Path) -> None:
    study = read_study(written(tmp_path, "[task]\nlibrary_size = 9\n[grid]\nd_model = [8, 8, 16]\n"))
    assert (len(study.runs), study.repeated) == (2, 1)


def test_runs_equal_but_for_their_seed_belong_together(tmp_path: Path) -> None:
    study = read_study(written(tmp_path, "[task]\nlibrary_size = 9\n[grid]\nseed = [0, 1, 2]\nd_model = [8, 16]\n"))
    together = list(shapes(study.runs))
    assert [[run.seed for run in runs] for runs in together] == [[0, 1, 2]] * 2
    assert [runs[0].model.d_model for runs in together] == [8, 16]


@pytest.mark.parametrize(("name", "runs"), [("quick", 12), ("associations", 96)])
def test_the_examples(name: str, runs: int) -> None:
    assert len(read_study(EXAMPLES / f"{name}.toml").runs) == runs


def test_the_grid_that_ships_is_of_the_study() -> None:
    """Whole up to width 24, on the first library."""
    measured, runs = (
        set(table_files.from_file("reference:grid")["key"]),
        read_study(EXAMPLES / "capacity-grid.toml").runs,
    )
    assert {run.key() for run in runs if run.seed == 0 and run.model.d_model <= 24} <= measured
    assert measured <= {run.key() for run in runs}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[task\n", r"at line 1, column 6"),
        ("task = 3", "task: should be a table, got 3"),
        ("[tasks]\nseq_len = 8", "tasks: unknown table; allowed are store, seed, task"),
        ("[task]\nheads = 8", "task.heads: unknown field; allowed are task, seq_len"),
        ("[task]\nn_heads = 8", "task.n_heads: unknown field"),
        ("[task]\nseq_len = 1", "seq_len: .* at least 2, got 1"),
        ("[protocol]\nprotocol = 'best'", "protocol.protocol: mac, mls, shatter, budget, capacity, got 'best'"),
        ("[protocol]\nseeds = 3", "protocol.seeds: unknown field; allowed are protocol, restarts"),
        ("[grid]\nheads = [1]", r"grid.heads: no such axis; allowed are n_heads, .*seq_len"),
        ("[grid]\ntask = ['sequences']", "grid.task: no such axis"),
        ("[grid]\nn_heads = []", "grid.n_heads: should have at least one value"),
        ("[grid]\nn_heads = 3", "grid.n_heads: should be a list or a range"),
        ("[grid]\nn_heads = [1, 0]", r"n_heads: .* at least 1, got 0 \(in the run with n_heads 0\)"),
        ("[grid]\nn_heads = ['two']", r"model\.n_heads: .*got 'two'"),
        ("[grid]\nn_heads = ['2', 4]", r"model\.n_heads: should be 2, without quotes, got '2'"),
        ("[task]\nlibrary_size = 'x'", r"task\.library_size: .*got 'x'"),
        (
            "[grid]\nn_heads = {from = 1, to = 4}",
            "grid.n_heads: a range has from, to, and factor or steps, got from, to",
        ),
        ("[grid]\nn_heads = {from = 4, to = 1, factor = 2}", "grid.n_heads.to: at least 4"),
        ("[grid]\nn_heads = {from = 1, to = 4, factor = 1}", "grid.n_heads.factor: should be above 1, got 1"),
        (
            "[grid]\nn_heads = {from = 0, to = 4, factor = 2}",
            "grid.n_heads.from: should be a positive number below .*, got 0",
        ),
        (
            "[grid]\nlr = {from = 1, to = 4, steps = 1}",
            "grid.lr.steps: at least 2, since .*, got 1",
        ),
        (
            "[grid]\nn_heads = [1, 2]\n[[change]]\nif = {lr = 0.05}\nset = {seed = 3}",
            "change.0..if.lr: the study does not set it, and what it is then depends on the task",
        ),
        ("[grid]\nlr = {from = 1, to = 4, steps = 2.5}", "grid.lr.steps: should be a whole number, got 2.5"),
        ("[[zip]]\nn_heads = [1, 2]\nd_model = [8]", "fields of one length advance together, got .*'d_model': 1"),
        ("[grid]\nn_heads = [1]\n[[zip]]\nn_heads = [1]", r"zip\[0\].n_heads: is an axis of grid already"),
        ("[zip]\nn_heads = [1]", r"zip: should be tables \[\[zip\]\]"),
        (
            "[[change]]\nset = {lr = 1.0}",
            r"change\[0\]: should have the tables if and set, each with a field, got \{'set'",
        ),
        ("[[change]]\nif = {heads = 1}\nset = {lr = 1.0}", r"change\[0\].if.heads: unknown field"),
        ("[grid]\noptimiser = ['soap']", "grid.optimiser: no such axis; allowed are optimizer, "),
        (
            "[grid]\nlr = {from = 1e-4, to = 1.0, steps = 2000000}",
            "grid.lr: an axis has at most 50000 points, got 2000000",
        ),
        (
            "[grid]\nlr = {from = 1e-4, to = 1.0, steps = 2000}\nbatch_size = {from = 1, to = 100000, factor = 1.001}",
            "runs are more than 1000000; --yes",
        ),
        (
            "[task]\nvocab_size = 2\nlibrary_size = 9\n[grid]\nseq_len = [8, 4]",
            r"at most 8 .* got 9 \(in the run with seq_len 4\)",
        ),
        ("store = 3", "store: should be a file name, got 3"),
        ("seed = -1", "seed: .* at least 0, got -1"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(StudyError, match=said) as caught:
        read_study(written(tmp_path, text))
    assert str(caught.value).startswith(str(tmp_path / "study.toml"))
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"^study: .*none\.toml"):
        read_study(tmp_path / "none.toml")
    with pytest.raises(StudyError, match=r"study: .* is a folder"):
        read_study(tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StudyError, match="study: cannot read"):
        read_study(tmp_path / "binary.toml")


def test_folders_and_graphs_beside_the_study_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, other = tmp_path / "study", tmp_path / "other"
    for place in (folder, other):
        (place / "docs").mkdir(parents=True)
    (folder / "random").mkdir()
    (folder / "docs" / "a.txt").write_text("some words " * 60)
    nx.write_graphml(nx.DiGraph([("0", "1"), ("1", "2")]), folder / "mine.graphml")
    monkeypatch.chdir(other)
    text = '[task]\ntask = "text"\nlibrary = "docs"\ntokenization = "bytes"\nseq_len = 8\nprefix = 4\n'
    (run,) = read_study(written(folder, text)).runs
    assert run.task.library == str(folder / "docs")  # type: ignore[attr-defined]
    text = '[task]\ntask = "relations"\ngraph = "mine.graphml"\n[model]\nd_model = 4\nd_head = 2\n'
    (run,) = read_study(written(folder, text)).runs
    assert run.task.graph == str(folder / "mine.graphml")  # type: ignore[attr-defined]
    (run,) = read_study(written(folder, '[task]\nlibrary = "random"\n')).runs
    assert run.task.library == "random"  # type: ignore[attr-defined]


def test_a_file_of_an_installed_package_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without importing the package; one that is not there is named."""
    package = tmp_path / "site" / "some_graphs"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError", encoding="utf-8")
    nx.write_graphml(nx.DiGraph([("0", "1"), ("1", "2")]), package / "mine.graphml")
    monkeypatch.syspath_prepend(tmp_path / "site")
    text = '[task]\ntask = "relations"\ngraph = "package:{}/mine.graphml"\n[model]\nd_model = 4\nd_head = 2\n'
    (run,) = read_study(written(tmp_path, text.format("some_graphs"))).runs
    assert run.task.graph == str(package / "mine.graphml")  # type: ignore[attr-defined]
    for absent in ("no_such_graphs", "no.such", ""):
        with pytest.raises(StudyError, match=f"graph: no package '{absent}' is installed here"):
            read_study(written(tmp_path, text.format(absent)))


def test_a_library_beside_the_study_is_that_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From any working directory; one that is not beside it is looked for there, as it was."""
    folder, other = tmp_path / "study", tmp_path / "elsewhere"
    folder.mkdir()
    other.mkdir()
    (folder / "facts.tsv").write_text("key\tanswer\na\tb\n", encoding="utf-8")
    (other / "more.tsv").write_text("key\tanswer\na\tb\nc\td\n", encoding="utf-8")
    text = '[task]\ntask = "facts"\n[grid]\nlibrary = ["facts.tsv", "more.tsv"]\n'
    monkeypatch.chdir(other)
    found = [run.task.library for run in read_study(written(folder, text)).runs]  # type: ignore[attr-defined]
    assert found == [str(folder / "facts.tsv"), str(other / "more.tsv")]


@pytest.mark.parametrize("text", ["# nothing yet\n", 'name = "x"\n[grid]\n'])
def test_an_empty_study_is_refused(tmp_path: Path, text: str) -> None:
    """Else it would be a run of all defaults."""
    with pytest.raises(StudyError, match="says nothing of what is studied: one of task, model, "):
        read_study(written(tmp_path, text))
