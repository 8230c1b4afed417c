"""What a report leads with is said of the runs that it has, and no more than they say."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from plotly.offline import get_plotlyjs_version

import capax
from capax.figures.runs import read
from capax.reports import measured as how
from capax.reports import report
from capax.reports.found import found
from capax.reports.planner import planner
from capax.reports.summary import MOST_ROWS, sentences, summary
from capax.store import tables

ROOT = Path(__file__).parents[2]
TASK = capax.Sequences(seq_len=16, vocab_size=9, library_size=20)
MODEL = capax.Transformer(d_model=4, d_head=2)
SHORT = capax.Training(max_epochs=2)


@pytest.fixture(scope="module")
def held() -> list[capax.Measurement]:
    """Runs by protocol capacity and by mac."""
    return read([ROOT / "docs/reproduced/morris2025-demo.db"]).runs


@pytest.fixture(scope="module")
def counted() -> capax.Measurement:
    return capax.measure(TASK, MODEL, SHORT, restarts=2)


def short(run: capax.Measurement) -> capax.Measurement:
    """As if it had not converged."""
    assert run.capacity is not None
    lost = {"converged": False, "extrapolated": None, "interval": None}
    return run.model_copy(update={"capacity": run.capacity.model_copy(update=lost)})


def test_a_capacity_is_one_only_where_it_converged(held: list[capax.Measurement]) -> None:
    runs = [run for run in held if run.capacity is not None]
    each = [run.capacity.per_effective_parameter for run in runs if run.capacity is not None]
    span = f"{min(each):.2g} to {max(each):.2g}"
    assert sentences(runs) == [f"{len(runs)} networks hold {span} bits per effective parameter; all converged"]
    assert sentences(runs[:1]) == [f"1 network holds {each[0]:.2g} bits per effective parameter; it converged"]
    (mixed,) = sentences([*map(short, runs[:2]), *runs[2:]])
    assert mixed.startswith(f"{len(runs) - 2} of {len(runs)} networks converged and hold")
    assert mixed.endswith(
        f"2 did not converge: at least {' to '.join(dict.fromkeys(f'{one:.2g}' for one in each[:2]))}"
    )
    (none,) = sentences(list(map(short, runs)))
    assert none == f"Not converged: {len(runs)} networks hold at least {span} bits per effective parameter"
    row = summary([short(runs[0])], report.VARIED).rows[0]
    assert (row.best.split()[:2], row.interval, row.standing) == (["at", "least"], "", "not converged")
    assert row.per_parameter.startswith("at least ")


def test_capacities_come_before_counts(held: list[capax.Measurement]) -> None:
    first, second = sentences(held[::-1])
    assert "networks hold" in first
    assert second.startswith("At the end of its budget, the best of 4 runs memorized 73 of 96 sequences")


def test_how_a_count_ended_is_said_before_it(counted: capax.Measurement) -> None:
    def said(**fields: object) -> str:
        (sentence,) = sentences([counted.model_copy(update={"above_chance": True, **fields})])
        return sentence

    counts = f"{counted.memorized} of 20 sequences"
    assert said(stop_reason="budget") == f"At the end of its budget, the only run memorized {counts}"
    assert said(stop_reason="plateau") == f"On a plateau, the only run memorized {counts}"
    assert said(stop_reason="diverged") == f"Before it diverged, the only run memorized {counts}"
    whole = {"memorized": 20, "stop_reason": "complete"}
    assert said(**whole) == "The only run memorized 20 of 20 sequences, the whole library"
    assert said(memorized=18, recallable=18).endswith("18 of 20 sequences, all that can be recalled")
    luck = counted.model_copy(update={"above_chance": False})
    (nothing,) = sentences([luck])
    assert nothing.startswith(f"Nothing significantly above chance in 1 run: {counts}, ")
    (one,) = sentences([luck, counted.model_copy(update={"above_chance": True, "memorized": 3})])
    assert "the best of 2 runs memorized 3 of 20" in one  # a larger count by luck is not the best
    assert one.endswith("; 1 of 2 is not significantly above chance")


def test_tasks_say_their_results_in_their_own_words() -> None:
    layer = capax.AssociativeAttention(n_heads=1, d_model=4, d_head=2)
    run = capax.measure(
        capax.Associations(context_size=2, library_size=8), layer, capax.Training(max_steps=5), restarts=1
    )
    assert found(run).text == f"accuracy {100 * run.memorized / 8:g} % ({run.memorized} of 8 associations)"
    nearly = run.model_copy(update={"memorized": 99_999, "library_size": 100_000, "recallable": 100_000})
    assert found(nearly).text.startswith("accuracy above 99.9 %")


def test_edges_are_whole_only_without_wrong_ones() -> None:
    task, model = capax.Relations(n_items=4), capax.KeyQueryChannel(d_model=4, d_head=2)
    run = capax.measure(task, model, SHORT, restarts=1).model_copy(update={"memorized": 4, "above_chance": True})
    blurred = run.model_copy(update={"metrics": {**run.metrics, "f1": 0.6}, "stop_reason": "budget"})
    right = run.model_copy(update={"metrics": {**run.metrics, "f1": 1.0}, "stop_reason": "complete"})
    assert found(blurred).standing == "at the budget"
    assert found(right).standing == "whole library"
    assert found(right).rank > found(blurred).rank
    (sentence,) = sentences([blurred, right])
    assert sentence.startswith("The best of 2 runs memorized 4 of 4 edges, F1 1, the whole library; 1 of 2 memorized")


def test_searches_and_trials_say_what_they_found() -> None:
    search = capax.measure(
        capax.Relations(n_items=4),
        capax.KeyQueryChannel(d_model=4),
        capax.Training(max_steps=20),
        protocol=capax.Budget(head_counts=(1,), restarts=2, max_trainings=8),
    )
    assert search.key_search is not None
    none = search.model_copy(update={"search": search.key_search.model_copy(update={"total_key_dim": None})})
    some = {"total_key_dim": 3, "n_heads": 1, "d_head": 3}
    three = search.model_copy(update={"search": search.key_search.model_copy(update=some)})
    assert sentences([none]) == ["No head size up to the width reaches F1 0.99, in 1 search"]
    assert sentences([three, none]) == [
        "The smallest total key dimension that reaches F1 0.99 (D_K*) is 3, in 2 searches; in 1 of them no head size "
        "up to the width is enough"
    ]
    trials = capax.measure(TASK, MODEL, SHORT, protocol=capax.Shatter(trials=2))
    assert trials.shatter is not None
    done = len(trials.shatter.epochs)
    assert sentences([trials])[0].startswith(f"{done} of 2 trials memorized 20 sequences whole")
    largest = capax.measure(TASK, MODEL, SHORT, protocol=capax.Mls(max_trainings=8, seeds=4, first_size=2))
    (sentence,) = sentences([largest])
    assert sentence.startswith(f"The largest library memorized whole has {largest.memorized} sequences")


def test_a_row_for_each_setting_until_they_are_too_many(counted: capax.Measurement) -> None:
    runs = [
        counted.model_copy(update={"spec": spec, "key": spec.key()})
        for d_model, n_heads, seed in product(range(4, 4 + 2 * MOST_ROWS // 3, 2), (1, 2, 3), (0, 1))
        for spec in (counted.spec.replace(model=MODEL.replace(d_model=d_model, n_heads=n_heads), seed=seed),)
    ]
    rows = summary(runs, report.VARIED).rows
    assert [row.runs for row in rows] == [2] * MOST_ROWS
    assert len({row.of for row in rows}) == MOST_ROWS
    assert [row.of for row in rows[:3]] == ["n_heads 1, d_model 4", "n_heads 2", "n_heads 3"]
    assert {"d_model 6", "n_heads 2, d_model 6"} < {row.of for row in rows}
    more = counted.spec.replace(model=MODEL.replace(d_model=100))
    runs.append(counted.model_copy(update={"spec": more, "key": more.key()}))
    assert [row.runs for row in summary(runs, report.VARIED).rows] == [len(runs)]


def test_the_best_of_a_group_has_the_most_bits_not_the_largest_share(counted: capax.Measurement) -> None:
    """Of a small library little is enough."""
    few = {"memorized": 20, "bits": 60.0, "above_chance": True}
    many = {"memorized": 30, "bits": 90.0, "above_chance": True, "library_size": 100, "recallable": 100}
    runs = [counted.model_copy(update=few), counted.model_copy(update=many)]
    (row,) = summary(runs, report.VARIED).rows
    assert row.best.startswith("30 of 100")
    (sentence,) = sentences(runs)
    assert "memorized 30 of 100" in sentence


def test_how_it_was_measured_is_said_once(held: list[capax.Measurement]) -> None:
    (family,) = how.measured(held, report.VARIED)
    assert family.runs == len(held)
    (first, of_first, nothing), (second, _, told) = family.rows
    assert (first, second, nothing) == (6, 4, "–")
    assert "protocol mac" in told
    assert "n_layers 1 and 2" in of_first
    assert "vocab_size" not in told  # the same in both
    assert how.measured(held[:1], report.VARIED)[0].rows == []


def test_a_planner_is_where_a_law_of_the_task_ships(counted: capax.Measurement, held: list[capax.Measurement]) -> None:
    plan = planner(None, [counted])
    assert plan is not None
    assert not plan.given
    assert plan.carried is not None
    assert plan.heads_or_width == capax.load_law("reference").heads_or_width()
    start, sizes = plan.carried["start"], counted.spec.task.sizes()
    for name, value in start["asked"].items():  # what the runs were asked, as near as the page offers it
        if name in sizes:
            offered = plan.carried["asked"][name]
            assert value == min(offered, key=lambda other: abs(np.log2(other / sizes[name])))
    assert start["asked"]["embeddings"] == "frozen"
    of = [row for row in plan.carried["rows"] if row[: len(start["asked"])] == list(start["asked"].values())]
    held = [row[-2][plan.carried["probabilities"].index(start["probability"])] for row in of if not row[-1]]
    assert start["target"] == pytest.approx(np.median(held), rel=0.5)  # of networks inside the law's domain
    task, model = capax.Relations(n_items=4), capax.KeyQueryChannel(d_model=4, d_head=2)
    relations = capax.measure(task, model, SHORT, restarts=1)
    assert planner(None, [relations]) is None  # its law says what is needed, not what is held
    html = report.build(report.Content(None, ("a.db",), (relations,), (), None))
    assert 'id="planner"' not in html
    assert 'href="#planner"' not in html


@pytest.mark.slow
def test_the_page_is_titled_by_its_result(counted: capax.Measurement) -> None:
    (sentence,) = sentences([counted])
    untitled = report.build(report.Content(None, ("a.db",), (counted,), (), None))
    assert f"<title>{sentence}</title>" in untitled
    assert untitled.count(sentence) == 2  # and in the heading
    titled = report.build(report.Content("Mine", ("a.db",), (counted,), (), None))
    assert "<h1>Mine</h1>" in titled
    assert f'<p class="lead">{sentence}.</p>' in titled
    assert titled == report.build(report.Content("Mine", ("a.db",), (counted,), (), None))


def test_the_charts_build_is_small_licensed_and_of_the_version_that_makes_the_figures() -> None:
    text = report.PLOTLY.read_text(encoding="utf-8")
    assert len(text.encode()) < 1_500_000
    head = text[:300]
    assert "Licensed under the MIT license" in head
    assert "Permission is hereby granted" in (report.PLOTLY.parent / "LICENSE").read_text(encoding="utf-8")
    made, drawn = get_plotlyjs_version(), head.split(" v")[1].split()[0]
    assert made.split(".")[0] == drawn.split(".")[0]


def test_runs_on_facts_keep_their_keys_in_the_table(tmp_path: Path) -> None:
    """The task has a field `key`, too: the column that the facts' keys are in."""
    (tmp_path / "facts.tsv").write_text("key\trelation\tanswer\nNorway\tcapital\tOslo\nChad\tcapital\tN'Djamena\n")
    task = capax.Facts(library=str(tmp_path / "facts.tsv"))
    run = capax.measure(task, MODEL, capax.Training(max_epochs=1, batch_size=4), restarts=1)
    assert tables.table([run])["key"].to_list() == [run.key]
    assert found(run).text.startswith("recall ")


def test_having_no_value_tells_runs_apart() -> None:
    table = {"key": ["a", "b"], "task": ["t", "t"], "model": ["m", "m"], "window": [None, 2], "memorized": [1, 2]}
    assert "window" in report.brief(table, {"window"})
    other = table | {"model": ["m", "n"]}
    assert "window" not in report.brief(other, {"window"})  # a field of one of the models alone
