"""The task Facts: tokens, masks, what counts, weights, and a file that may change."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from countries import COUNTRIES, MODEL, TOKENIZATIONS, library, task, written

import capax
from capax.errors import CapaxError, TableError
from capax.seeds import numpy_generator, torch_generator
from capax.specs import Run
from capax.tasks.facts.encoding import prepared
from capax.tasks.facts.fact import FactsError
from capax.tasks.facts.library import FactLibrary, draw
from capax.testing import TaskSuite, trained


class TestCodes(TaskSuite):
    task = task(library_size=20)


class TestWords(TaskSuite):
    task = task(library_size=20, tokenization="words")


class TestBytePairs(TaskSuite):
    task = task(library_size=20, tokenization="bpe", loss="all")


def ensemble(spec: capax.Facts):
    return MODEL.ensemble_type().initialize(
        MODEL, spec.sizes(), generators=[torch_generator(0, "weights", 0)], dtype=torch.float64
    )


@pytest.mark.parametrize("kind", TOKENIZATIONS)
def test_rows_say_their_facts(kind: str) -> None:
    """Tokens of the key, of the relation, of the answer and its end, and nothing else but padding."""
    spec = task(tokenization=kind)
    found = prepared(spec)
    rows = found.encoding.rows(found.table, spec.known.seq_len)
    for row in range(len(found.table)):
        key, answer = (found.encoding.tokens_of(int(part[row])) for part in (found.table.keys, found.table.answers))
        relation = [found.encoding.base + found.table.relation[row]]
        end = [found.encoding.padding] * found.encoding.ends
        said = [*key, *relation, *answer, *end]
        assert rows.tokens[row, : len(said)].tolist() == said
        assert (rows.tokens[row, len(said) :] == found.encoding.padding).all()
        assert rows.tokens[row, rows.begin[row] : rows.stop[row]].tolist() == [*answer, *end]
    assert len(np.unique(rows.tokens, axis=0)) == len(found.table)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bpe", "bytes"])
def test_padding_changes_no_logit_and_no_gradient(kind: str) -> None:
    """Rows cut at the end of their answer, one at a time, give the same numbers as rows filled up."""
    spec = task(tokenization=kind)
    known, models = library(spec), ensemble(spec)
    trained = list(models.trainable.values())
    batch = known.batch(torch.arange(40)[None])
    logits = known.outputs(models, batch, "loss", known.shared(models, "loss", 40))
    weight = torch.full((1, 40), 1 / 40, dtype=torch.float64)
    gradients = torch.autograd.grad(known.losses(logits, batch, weight).sum(), trained, allow_unused=True)
    alone, sums = 0.0, [torch.zeros_like(one) for one in trained]
    table = models.parameters["position"]
    for row in range(40):
        stop, begin = int(known.stop[0, row]), int(known.begin[0, row])
        tokens = known.tokens[:, row : row + 1, :stop]
        models.parameters["position"] = table[:, : stop - 1]
        found = models.logits(tokens[:, :, :-1], "all")
        torch.testing.assert_close(found, logits[:, row : row + 1, : stop - 1], rtol=1e-10, atol=1e-10)
        each = torch.nn.functional.cross_entropy(found[0, 0, begin - 1 :], tokens[0, 0, begin:], reduction="sum")
        loss = each / 40 / known.answer_len
        for total, part in zip(sums, torch.autograd.grad(loss, trained, allow_unused=True), strict=True):
            if part is not None:
                total += part
        alone += float(loss.detach())
    torch.testing.assert_close(float(known.losses(logits, batch, weight).detach()), alone, rtol=1e-10, atol=1e-12)
    for mine, theirs in zip(gradients, sums, strict=True):
        torch.testing.assert_close(torch.zeros_like(theirs) if mine is None else mine, theirs, rtol=1e-9, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("kind", TOKENIZATIONS)
def test_recalled_is_the_whole_greedy_answer(kind: str) -> None:
    """What counts as recalled is what the model says, token by token, when it is asked for the fact."""
    spec = task(tokenization=kind)
    known, models = library(spec), ensemble(spec)
    with torch.no_grad():
        for parameter in models.parameters.values():
            parameter.mul_(2.0)  # far from ties
    batch = known.batch(torch.arange(spec.library_size)[None])
    right = known.recalled(known.outputs(models, batch, "recall", known.shared(models, "recall", 1)), batch)[0]
    for row in range(0, spec.library_size, 23):
        begin, stop = int(known.begin[0, row]), int(known.stop[0, row])
        said = known.tokens[0, row, :begin].tolist()
        while len(said) < stop:
            filled = said + [0] * (known.tokens.shape[2] - 1 - len(said))
            said.append(int(models.logits(torch.tensor(filled).view(1, 1, -1))[0, 0, len(said) - 1].argmax()))
        assert bool(right[row]) == (said == known.tokens[0, row, :stop].tolist())


@pytest.mark.slow
def test_groups_add_up_to_what_is_recalled() -> None:
    run = capax.measure(task(), MODEL, capax.Training(max_steps=100), restarts=2, seed=1)
    assert run.breakdown is not None
    by_relation = [group for group in run.breakdown.groups if group.by == "relation"]
    assert sum(group.items for group in by_relation) == run.library_size
    assert 0 < sum(group.recalled for group in by_relation) == run.memorized


def test_bits_are_those_of_answers() -> None:
    """What is known of a fact is log2 of its relation's different answers less the answer's cross-entropy."""
    spec = task(tokenization="bpe")
    known, models = library(spec), ensemble(spec)
    batch = known.batch(torch.arange(spec.library_size)[None])
    with torch.no_grad():
        logits = known.outputs(models, batch, "information", known.shared(models, "information", 1))
    bits = known.known_bits(logits, batch)[0]
    lines = [line.split("\t") for line in COUNTRIES.read_text().splitlines()[1:]]
    different = {name: len({answer for _, relation, answer in lines if relation == name}) for _, name, _ in lines}
    for row, (_, relation, _) in enumerate(lines):
        begin, stop = int(known.begin[0, row]), int(known.stop[0, row])
        each = logits[0, row, begin - 1 : stop - 1].log_softmax(-1)
        nats = -sum(float(each[at, known.tokens[0, row, begin + at]]) for at in range(stop - begin))
        assert float(bits[row]) == pytest.approx(math.log2(different[relation]) - nats / math.log(2), abs=1e-10)
    assert spec.bits_per_item() == pytest.approx(np.mean([math.log2(different[line[1]]) for line in lines]))


def test_chance_is_the_best_constant_answer_of_each_relation() -> None:
    lines = [line.split("\t") for line in COUNTRIES.read_text().splitlines()[1:]]
    best = 0
    for name in {line[1] for line in lines}:
        said = [line[2] for line in lines if line[1] == name]
        best += max(map(said.count, said))
    constant = library(task()).constant(0)
    assert constant.recalled == best
    entropies = []
    for _, relation, _ in lines:
        said = [line[2] for line in lines if line[1] == relation]
        entropies.append(
            -sum(said.count(one) / len(said) * math.log2(said.count(one) / len(said)) for one in set(said))
        )
    assert constant.entropy == pytest.approx(np.mean(entropies))
    assert task().known.entropy_per_fact == pytest.approx(np.mean(entropies), abs=1e-8)


def test_weights_are_shares_of_the_loss_and_break_recall_down(tmp_path: Path) -> None:
    path = tmp_path / "weights.csv"
    path.write_text("key,answer,weight\n" + "".join(f"k{n},a{n % 3},{n + 1}\n" for n in range(30)))
    spec = capax.Facts(library=str(path))
    known, models = library(spec), ensemble(spec)
    batch = known.batch(torch.arange(30)[None])
    logits = known.outputs(models, batch, "loss", known.shared(models, "loss", 30))
    nats = known.nats(logits, batch)[0]
    share = torch.arange(1, 31, dtype=torch.float64) / 465
    loss = known.losses(logits, batch, torch.full((1, 30), 1 / 30, dtype=torch.float64))
    torch.testing.assert_close(loss[0], (nats * share).sum() / known.answer_len[0], rtol=1e-10, atol=0)
    run = capax.measure(spec, MODEL, capax.Training(max_steps=5), restarts=2)
    assert run.breakdown is not None
    tenths = [group for group in run.breakdown.groups if group.by == "frequency"]
    assert [group.items for group in tenths] == [3] * 10
    assert [group.weight for group in tenths] == pytest.approx([(3 * place + 2) / 15.5 for place in range(10)])


@pytest.mark.parametrize("frequent", [[1000] * 3, list(range(1000, 1030))])
def test_facts_that_are_frequent_are_a_group_where_most_are_not(tmp_path: Path, frequent: list[int]) -> None:
    """Tenths of weights that are nearly all alike have one edge."""
    weights = [1] * 570 + frequent
    path = tmp_path / "weights.csv"
    path.write_text("key,answer,weight\n" + "".join(f"k{n},a{n % 3},{weight}\n" for n, weight in enumerate(weights)))
    run = capax.measure(capax.Facts(library=str(path)), MODEL, capax.Training(max_steps=1), restarts=1)
    assert run.breakdown is not None
    groups = [group for group in run.breakdown.groups if group.by == "frequency"]
    assert [group.items for group in groups] == [570, len(frequent)]
    assert groups[0].of == "1"


def test_facts_of_a_file_have_no_points_of_a_curve(tmp_path: Path) -> None:
    """Also some of them, which are drawn: what a file says is no random library."""
    store = tmp_path / "s.db"
    training = capax.Training(cycle_steps=5, max_steps=15)
    capax.measure(task(library_size=20), MODEL, training, protocol="capacity", restarts=2, store=store)
    with pytest.raises(TableError, match="no run of"):
        capax.curves(store)


@pytest.mark.parametrize("tokenization", ["bytes", "code"])
def test_answers_of_other_lengths_beside_it_change_nothing_of_a_member(tokenization: str) -> None:
    """Some of a file's facts are drawn for each member: the loss is a mean over its own answer tokens."""
    spec = task(tokenization=tokenization, library_size=12)
    assert trained.same_in_any_pack(spec, MODEL, capax.Training(max_steps=6, eval_steps=3))
    generators = [numpy_generator(0, "library", member) for member in range(3)]
    library = FactLibrary.build(spec, MODEL, (12,) * 3, generators)
    each = [(library.stop[one, :12] - library.begin[one, :12]).double().mean() for one in range(3)]
    torch.testing.assert_close(library.answer_len.double(), torch.stack(each))
    assert library.select([2]).answer_len.tolist() == library.answer_len[2:].tolist()
    assert len(set(library.answer_len.tolist())) == (3 if tokenization == "bytes" else 1)


def test_a_run_read_from_a_store_does_not_read_the_file(tmp_path: Path) -> None:
    path = written(tmp_path / "mine.tsv", *(f"k{n}\ta{n}" for n in range(12)))
    run = capax.measure(capax.Facts(library=path), MODEL, capax.Training(max_steps=2), restarts=1)
    Path(path).unlink()
    again = capax.Measurement.from_json(run.to_json())
    assert again == run
    assert again.spec.task.sizes() == run.spec.task.sizes()


def test_one_content_is_one_key_whatever_the_file_is(tmp_path: Path) -> None:
    tsv = written(tmp_path / "mine.tsv", "k\ta", "l\tb")
    (tmp_path / "mine.csv").write_text('key,answer\nk,a\n"l",b\n')
    keys = {
        capax.specs.Run(task=capax.Facts(library=str(path)), model=MODEL).key() for path in (tsv, tmp_path / "mine.csv")
    }
    assert len(keys) == 1


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"library": "nowhere.tsv"}, "no such file"),
        ({"library": "facts.docx"}, r"\.tsv"),
        ({"key": "who"}, "who"),
        ({"library_size": 181}, "library_size: at most 180"),
        ({"tokenization": "letters"}, "tokenization"),
        ({"bpe_size": 10, "tokenization": "bpe"}, "bpe_size"),
        ({"code_len": 0}, "code_len"),
        ({"code_len": 3, "tokenization": "words"}, "^code_len: only with tokenization code, got 3"),
        ({"bpe_size": 300, "tokenization": "code"}, "^bpe_size: only with tokenization bpe and no tokenizer, got 300"),
    ],
)
def test_bad_fields_are_one_line(fields: dict[str, object], said: str) -> None:
    with pytest.raises(CapaxError, match=said) as caught:
        task(**fields)
    assert "\n" not in str(caught.value)


def test_a_file_that_changed_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "mine.tsv", "k\ta", "l\tb")
    spec = capax.Facts(library=path)
    written(tmp_path / "mine.tsv", "k\ta", "l\tc")
    with pytest.raises(CapaxError, match="has changed"):
        draw(spec, 2, numpy_generator(0, "library", 0))


def test_a_fact_that_is_too_long_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "long.tsv", f"k\t{'a' * 5000}")
    with pytest.raises(CapaxError, match="a fact takes 5003 tokens; at most 4096"):
        capax.Facts(library=path, tokenization="bytes")


def test_facts_that_a_program_holds_are_written_down(tmp_path: Path) -> None:
    import networkx
    import pandas

    triples = [("Rome", "country", "Italy"), ("Oslo", "country", "Norway"), ("Oslo", "river", "Akers\telva")]
    graph = networkx.MultiDiGraph()
    for subject, relation, target in triples:
        graph.add_edge(subject, target, relation=relation)
    frame = pandas.DataFrame(triples, columns=["subject", "relation", "object"])
    hashes = {
        capax.Facts.from_data(source, tmp_path / f"{number}.jsonl").library_sha256
        for number, source in enumerate((triples, frame))
    }
    assert len(hashes) == 1
    assert capax.Facts.from_data(graph, tmp_path / "graph.jsonl").library_size == 3
    with pytest.raises(CapaxError, match=r"path: a file that ends in \.jsonl"):
        capax.Facts.from_data(triples, tmp_path / "facts.tsv")
    with pytest.raises(CapaxError, match="source: holds no facts"):
        capax.Facts.from_data([], tmp_path / "none.jsonl")


def test_weights_without_a_finite_sum_are_refused(tmp_path: Path) -> None:
    (tmp_path / "w.tsv").write_text("key\tanswer\tweight\na\tx\t1e308\nb\ty\t1e308\n")
    with pytest.raises(FactsError, match="weight: too large for 2 facts"):
        capax.Facts(library=str(tmp_path / "w.tsv"))


def test_a_first_line_that_may_be_a_fact_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "two.tsv"
    path.write_text("Norway\tOslo\nSweden\tStockholm\nSpain\tMadrid\n")
    run = capax.measure(
        capax.Facts(library=str(path)), capax.Transformer(d_model=4), capax.Training(max_epochs=1), restarts=1
    )
    assert "the first line was taken for the names of the columns: Norway (key), Oslo (answer)" in run.notes


def test_relations_without_a_fact_have_no_token(tmp_path: Path) -> None:
    path = tmp_path / "two.tsv"
    path.write_text("key\trelation\tanswer\nk\tr\ta\nl\tr\tb\nk\ts\ta\nk\ts\tb\n")
    known = capax.Facts(library=str(path), ambiguous="drop").known
    assert (known.relations, known.seq_len) == (1, 4)


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_another_schedule_than_the_usual_one_has_no_cycles(schedule: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("key,answer\na,x\nb,y\n")
    run = Run(
        task=capax.Facts(library=str(path), tokenization="words"),
        model=capax.Transformer(d_model=8),
        training=capax.Training(schedule=schedule, max_epochs=5),
    )
    assert run.training.schedule == schedule
    assert run.training.cycle_steps is None
    assert run.training.optimizer == "soap"


def test_facts_of_one_answer_have_no_capacity(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("key,answer\na,x\nb,x\n")
    with pytest.raises(CapaxError, match="library: its items have one answer only"):
        capax.measure(
            capax.Facts(library=str(path), tokenization="words"), capax.Transformer(d_model=8), protocol="capacity"
        )
