"""Plans for a file of facts: what the study says, what a plan promises, and its verification."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import capax
from capax.errors import CapaxError, LawError
from capax.planning.facts import ANY, EARLY, plan_facts, promised, verify_facts
from capax.planning.facts_file import in_file
from capax.planning.facts_study import Measured, fill, shares, study
from capax.planning.fill import Fill
from capax.store import tables

WORDNET = Path(__file__).parents[1] / "tasks" / "facts" / "data" / "wordnet"
COUNTRIES = Path(__file__).parents[2] / "examples" / "facts" / "countries.tsv"
CODES = {"tokenizations": ("code",)}
FINE = {"n_layers": 1, "n_heads": 1, "d_model": range(16, 80, 2), "embeddings": "frozen"}


@pytest.fixture(scope="module")
def facts() -> capax.Facts:
    return capax.Facts(library=str(COUNTRIES))


def test_a_fill_lies_between_the_networks_on_both_sides() -> None:
    found = Measured("a", np.array([0.5, 1.0, 2.0]), np.array([1.0, 0.9, 0.2]))
    assert found.fill_at(0.9) == pytest.approx(1.0)
    assert found.fill_at(0.95) == pytest.approx(np.exp((np.log(0.5) + np.log(1.0)) / 2))
    assert found.fill_at(0.1) is None
    assert Measured("b", np.array([0.5, 1.0]), np.array([0.9, 0.5])).fill_at(0.99) is None


def test_a_file_that_no_network_recalls_so_far_counts_by_its_emptiest_network(facts: capax.Facts) -> None:
    told = Measured("told", np.array([0.5, 1.0]), np.array([1.0, 0.8]))
    short, full, easy = (
        Measured(name, np.array(fills), np.array(recalls))
        for name, fills, recalls in (
            ("short", [0.4, 1.0], [0.8, 0.7]),
            ("full", [0.9, 1.0], [0.8, 0.7]),
            ("easy", [0.1, 0.2], [1.0, 1.0]),
        )
    )
    assert shares([short], 0.9) == ([], [])
    known, bounds = shares([told, short, full, easy], 0.9)
    assert (known, bounds) == ([pytest.approx(0.5**0.5)], [0.4])
    known, bounds = shares(study(), 0.99)
    assert len(bounds) == 1
    found, logs = fill(0.99), np.log([*known, *bounds])
    assert (found.share, found.spread) == pytest.approx((np.exp(logs.mean()), logs.std(ddof=1)))
    assert any(
        "files; 1 file more, of which no network recalled so much, by an upper bound" in note
        for note in plan_facts(facts, **CODES).notes
    )


def test_more_recall_needs_more_room() -> None:
    shares = [fill(recall).share for recall in (0.5, 0.9, 0.99)]
    assert shares == sorted(shares, reverse=True)
    assert len(study()) >= 9
    with pytest.raises(LawError, match="recall: the study of facts reaches it on 0 files"):
        fill(0.0001)


def test_spreads_add_up_as_those_of_independent_errors(facts: capax.Facts) -> None:
    """A law that is log-normal, widened, is log-normal with both variances."""

    class Known:
        def quantiles(self, table, levels):
            return [np.exp(stats.norm.ppf(level, 2.0, 0.3))[None] for level in levels]

    found = Fill(1.0, 0.4).widened(Known(), {}, (0.025, 0.1, 0.975))
    for bits, level in zip(found, (0.025, 0.1, 0.975), strict=True):
        assert bits[0] == pytest.approx(np.exp(stats.norm.ppf(level, 2.0, 0.5)))


def test_the_spread_over_few_files_has_the_quantiles_of_student(facts: capax.Facts) -> None:
    class Sure:
        def quantiles(self, table, levels):
            return [np.ones(1) for _ in levels]

    (low,) = Fill(1.0, 0.4, files=9).widened(Sure(), {}, (0.1,))
    assert np.log(low[0]) == pytest.approx(0.4 * np.sqrt(1 + 1 / 9) * stats.t.ppf(0.1, 8))
    rounded = Fill(1.0, 0.4, files=9, rounding=0.3, networks=8)
    low, high = rounded.widened(Sure(), {}, (0.1, 0.9))
    own = 0.3 * np.sqrt(1 + 1 / 8) * stats.t.ppf(0.1, 7)
    assert np.log(low[0]) == pytest.approx(-np.hypot(0.4 * np.sqrt(1 + 1 / 9) * stats.t.ppf(0.1, 8), own))
    assert np.log(high[0]) == pytest.approx(-np.log(low[0]))


def test_what_a_file_asks(facts: capax.Facts) -> None:
    found = in_file(facts)
    assert (found.facts, found.asked, found.relations, found.ambiguous, found.ceiling) == (180, 180, 3, 0, 1.0)
    assert 0 < found.entropy_bits <= found.bits
    assert found.compressed_bytes is not None
    assert found.compressed_bytes < found.bytes


def test_networks_hold_what_is_asked_smallest_first(facts: capax.Facts) -> None:
    plan = plan_facts(facts, tokenizations=("code", "words"))
    assert {one.tokenization for one in plan.networks} == {"code", "words"}
    assert all(one.at_least >= 180 for one in plan.networks)
    sizes = [one.total_parameters for one in plan.networks]
    assert sizes == sorted(sizes)
    shares = {
        kind: max(one.embedding_share for one in plan.networks if one.tokenization == kind)
        for kind in ("code", "words")
    }
    assert shares["words"] > 0.5 > shares["code"]
    first = plan.networks[0]
    model = capax.Transformer(
        **{name: getattr(first, name) for name in ("n_layers", "n_heads", "d_head", "d_model", "embeddings")},
        readout="tied" if first.embeddings == "trained" else "frozen",
    )
    counts = model.parameter_counts(**facts.replace(tokenization=first.tokenization).sizes())
    assert counts == {"trainable": first.trainable_parameters, "total": first.total_parameters}
    assert promised(facts.replace(tokenization=first.tokenization), model, 0.99).items == pytest.approx(first.memorized)


def test_more_facts_or_more_recall_take_larger_networks(tmp_path: Path) -> None:
    def parameters(facts: int, recall: float) -> int:
        path = tmp_path / f"{facts}.tsv"
        path.write_text("key\tanswer\n" + "".join(f"k{n}\ta{n * 7919 % facts}\n" for n in range(facts)))
        plan = plan_facts(capax.Facts(library=str(path)), recall=recall, **FINE, **CODES)
        return plan.networks[0].trainable_parameters

    assert parameters(1000, 0.5) < parameters(1000, 0.9) < parameters(1000, 0.99) < parameters(4000, 0.99)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"recall": 1.5}, "recall: above 0 and below 1, got 1.5"),
        ({"recall": None}, "recall: above 0 and below 1, got None"),
        ({"recall": "0.5"}, "recall: above 0 and below 1, got '0.5'"),
        ({"probability": 0}, "probability: above 0 and at most 0.999"),
        ({"tokenizations": ("letters",)}, "tokenizations: code, words, bpe, bytes, got 'letters'"),
        ({"tokenizations": ()}, "tokenizations: code, words, bpe, bytes, got ''"),
        ({"law": "reference:power"}, "law: one of capacity in bits, got power"),
        ({"accelerator": "abacus"}, "accelerator: a100"),
        ({"budget_parameters": 3}, "budget_parameters: at least"),
        ({"budget_parameters": 1.5}, "budget_parameters: should be a whole number, got 1.5"),
        ({"budget_bytes": -1}, "budget_bytes: at least 1"),
        ({"budget_hours": -1}, "budget_hours: a positive number"),
        ({"precision": "int1"}, "precision: float32"),
        ({"target": "byte"}, "target: parameters, bytes, got 'byte'"),
        ({"d_heads": 3}, "d_heads: no such size"),
    ],
)
def test_bad_plans_are_one_line(facts: capax.Facts, given: dict[str, object], line: str) -> None:
    with pytest.raises(CapaxError, match=line) as caught:
        plan_facts(facts, **given)
    assert "\n" not in str(caught.value)


def test_a_path_is_a_file_of_facts(facts: capax.Facts) -> None:
    assert plan_facts(COUNTRIES, **CODES) == plan_facts(str(COUNTRIES), **CODES) == plan_facts(facts, **CODES)
    with pytest.raises(LawError, match=r"^facts: a file of facts, or capax.Facts, got None$"):
        plan_facts(None)  # type: ignore[arg-type]
    with pytest.raises(CapaxError, match="no such file"):
        plan_facts("missing.tsv")


def test_what_does_not_hold_says_so(facts: capax.Facts) -> None:
    plan = plan_facts(facts, n_layers=1, embeddings="frozen", **CODES)
    small = plan.networks[0].model_copy(update={"d_model": 8, "d_head": 8})
    checked = verify_facts(facts, plan, small, workers=1, training=capax.Training(max_steps=20))
    assert not checked.held
    assert checked.recall < 0.99


@pytest.mark.very_slow
def test_runs_of_ones_own_join_the_study(facts: capax.Facts, tmp_path: Path) -> None:
    """Networks that recall one file at other fills than the study's change the fill by what they add to the mean."""
    training = capax.Training(max_steps=300)
    for width in (4, 32):
        model = capax.Transformer(d_model=width, d_head=width)
        capax.measure(facts, model, training, restarts=1, store=tmp_path / "mine.db")
    alone, joined = fill(0.9), fill(0.9, [tmp_path / "mine.db"])
    known = [np.log(share) for one in study() if (share := one.fill_at(0.9)) is not None]
    assert np.log(alone.share) == pytest.approx(np.mean(known))
    mine = (len(known) + 1) * np.log(joined.share) - sum(known)
    assert 0.01 < np.exp(mine) < 1
    with pytest.raises(CapaxError, match="no such file"):
        fill(0.9, [tmp_path / "nowhere.db"])


def test_tokens_for_which_a_budget_is_too_small_are_named(facts: capax.Facts) -> None:
    plan = plan_facts(
        facts,
        tokenizations=("code", "words"),
        n_layers=1,
        embeddings="trained",
        d_model=[16, 24],
        budget_parameters=4000,
    )
    assert {one.tokenization for one in plan.networks} == {"code"}
    assert any(note.startswith("words: budget_parameters: at least") for note in plan.notes)


def test_facts_without_bits_have_no_plan(tmp_path: Path) -> None:
    """Where each relation has one answer, the law's bits would be divided by none."""
    (tmp_path / "same.tsv").write_text("key\tanswer\na\tx\nb\tx\n")
    facts = capax.Facts(library=str(tmp_path / "same.tsv"))
    with pytest.raises(LawError, match="library: each relation has one answer only"):
        plan_facts(facts)
    with pytest.raises(LawError, match="library: each relation has one answer only"):
        promised(facts, capax.Transformer(), 0.99)
    run = capax.measure(facts, capax.Transformer(d_model=8), capax.Training(max_epochs=1), restarts=1)
    assert any("have no bits: any network recalls them" in note for note in run.notes)


def test_no_plan_is_above_the_ceiling(tmp_path: Path) -> None:
    (tmp_path / "two.tsv").write_text("key\tanswer\na\tx\na\ty\nb\tz\n")
    facts = capax.Facts(library=str(tmp_path / "two.tsv"), ambiguous="keep")
    with pytest.raises(LawError, match=r"recall: at most 0\.667, as 3 facts have 2 different questions"):
        plan_facts(facts)
    assert plan_facts(facts, recall=0.6, **CODES).networks


def test_what_one_answer_reaches_needs_no_plan(tmp_path: Path) -> None:
    """Where any of several answers is right, one may be right everywhere; else fewer bits are enough."""
    lines = [f"{key}\t{answer}" for key in range(6) for answer in ("abcd" if key < 3 else "abef")]
    (tmp_path / "any.tsv").write_text("\n".join(["key\tanswer", *lines]))
    facts = capax.Facts(library=str(tmp_path / "any.tsv"), ambiguous="any")
    with pytest.raises(LawError, match=r"^recall: above 1, which one answer to each relation reaches, got 0\.99$"):
        plan_facts(facts)
    (tmp_path / "some.tsv").write_text("\n".join(["key\tanswer", *(line for line in lines if line[-1] not in "ab")]))
    facts = capax.Facts(library=str(tmp_path / "some.tsv"), ambiguous="any")
    with pytest.raises(LawError, match=r"^recall: above 0\.5,"):
        plan_facts(facts, recall=0.5)
    assert ANY in plan_facts(facts, recall=0.9, **CODES).notes


def test_a_kind_of_tokens_that_is_named_twice_is_planned_once(facts: capax.Facts) -> None:
    once, twice, text = (plan_facts(facts, tokenizations=names) for names in (("code",), ("code", "code"), "code"))
    assert once.networks == twice.networks == text.networks


def test_a_fill_says_how_many_files_it_is_known_by(facts: capax.Facts, tmp_path: Path) -> None:
    """Of the study only those that it reaches count, and of one's own only those with networks on both sides."""
    known = sum(one.fill_at(0.99) is not None for one in study())
    assert (known, 0) == fill(0.99)[2:4]
    capax.measure(facts, capax.Transformer(), capax.Training(max_steps=1), restarts=1, store=tmp_path / "mine.db")
    plan = plan_facts(facts, data=[tmp_path / "mine.db"], **CODES)
    assert any(f"by a study of {known} files and 0 of the data given" in note for note in plan.notes)
    assert f"{EARLY}: 1 run of the data given" in plan.notes


@pytest.mark.slow
def test_a_file_and_its_shuffled_control_are_two_files(
    facts: capax.Facts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither has networks on both sides of the fill; taken for one file, they would."""
    monkeypatch.setattr("capax.planning.facts_study.exposures", lambda _: 1)
    for control, width, steps in (("none", 4, 1), ("shuffled", 32, 300)):
        model = capax.Transformer(d_model=width, d_head=width)
        training = capax.Training(max_steps=steps)
        capax.measure(facts.replace(control=control), model, training, restarts=1, store=tmp_path / "mine.db")
    assert fill(0.9, [tmp_path / "mine.db"]) == fill(0.9)


def test_some_of_a_file_have_the_bits_of_its_answers(facts: capax.Facts) -> None:
    """Which of them occur has to be learned: their own entropy would be too little, of three facts at most log2 3."""
    some, whole = in_file(facts.replace(library_size=30)), in_file(facts)
    assert some.entropy_bits == pytest.approx(whole.entropy_bits / 6)
    assert some.bits == pytest.approx(whole.bits / 6)


@pytest.mark.parametrize(
    ("task", "sizes", "said"),
    [
        ({"loss": "all"}, {}, "loss: 'answer'"),
        ({}, {"vocab_size": 1000}, "vocab_size: follows from the file"),
        ({}, {"seq_len": 60}, "seq_len: follows from the file"),
    ],
)
def test_what_no_plan_speaks_of_is_refused(
    facts: capax.Facts, task: dict[str, str], sizes: dict[str, int], said: str
) -> None:
    with pytest.raises(LawError, match=f"^{said}"):
        plan_facts(facts.replace(**task), **CODES, **sizes)


def test_the_bytes_of_a_folder_are_those_that_are_read(tmp_path: Path) -> None:
    """Not those of the index, or of what else lies there."""
    copied = shutil.copytree(WORDNET, tmp_path / "wordnet")
    (copied / "README").write_text("much " * 1000)
    wordnet = capax.Facts(library=str(copied), ambiguous="drop")
    assert in_file(wordnet).bytes == (copied / "data.noun").stat().st_size


def test_counts_of_facts_have_laws_of_their_own(tmp_path: Path) -> None:
    """The run's key is no column of the facts' file, and what is asked about has the sizes that follow from that."""
    path = tmp_path / "facts.tsv"
    path.write_text("key\tanswer\n" + "".join(f"k{n}\ta{n % 5}\n" for n in range(40)))
    task, training = capax.Facts(library=str(path)), capax.Training(max_epochs=1)
    measured = capax.measure(task, capax.Transformer(d_model=4), training, restarts=1)
    runs = [
        measured.model_copy(update={"key": spec.key(), "spec": spec, "memorized": 2 * width, "chance": 0.0})
        for width in (4, 6, 8, 12)
        for spec in (measured.spec.replace(model=capax.Transformer(d_model=width)),)
    ]
    law = capax.PowerLaw(axes=["d_model"], n_bootstrap=50, target="memorized").fit(tables.table(runs))
    asked = capax.predict(law, d_model=10)
    assert asked.value == pytest.approx(20)
    assert (asked.seq_len, asked.vocab_size) == (task.known.seq_len, task.known.vocab_size)
    path.unlink()
    with pytest.raises(CapaxError, match=r"no such file: .*facts\.tsv"):
        capax.predict(law, d_model=10)


def test_a_part_of_a_file_is_no_limit_of_what_a_network_holds(facts: capax.Facts) -> None:
    """A plan for 179 of 180 facts says what its networks hold of such facts, as one for all 180 does."""
    part, whole = (
        next(one for one in plan_facts(facts.replace(library_size=size), **CODES).networks if one.n_layers == 2)
        for size in (179, 180)
    )
    assert (part.interval, part.memorized, part.at_least) == (whole.interval, whole.memorized, whole.at_least)
    assert part.interval.high > 180


def test_options_of_the_given_tokens_are_left_out_for_others() -> None:
    """They would be refused there; with their own tokens they count."""
    longer = capax.Facts(library=str(COUNTRIES), code_len=3)
    assert longer.tokenized("words") == capax.Facts(library=str(COUNTRIES), tokenization="words")
    assert longer.tokenized("code") == longer
    assert plan_facts(longer, tokenizations=("words",)) == plan_facts(COUNTRIES, tokenizations=("words",))
