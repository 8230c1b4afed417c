"""Facts whose pairs have several answers: what counts, what it is worth, and what can be recalled."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from countries import task, written
from hypothesis import given
from hypothesis import strategies as st

import capax
from capax.seeds import numpy_generator
from capax.tasks.facts.encoding import prepared
from capax.tasks.facts.fact import Fact, FactsError
from capax.tasks.facts.library import FactLibrary, draw
from capax.tasks.facts.table import ambiguity, answers, asked, collect, constant, one_of_pair, shuffled

SEVERAL = [
    Fact("a", "", "1"), Fact("a", "", "2"), Fact("b", "", "1"), Fact("c", "", "3"), Fact("a", "", "1"),
]  # fmt: skip


def test_what_is_done_with_several_answers() -> None:
    table = collect(SEVERAL)
    assert table.repeats == 1
    assert ambiguity(table) == (3, 1, 2, 3)
    with pytest.raises(FactsError, match=r"ambiguous: 1 of 3 pairs .*\(a has 2\): no model recalls more than 3 of 4"):
        asked(table, "refuse")
    assert [asked(table, kind).text().count("\n") for kind in ("drop", "first", "any", "keep")] == [2, 3, 4, 4]
    assert asked(table, "drop").entities == ["1", "b", "c", "3"]
    with pytest.raises(FactsError, match="leaves no fact"):
        asked(collect([Fact("a", "", "1"), Fact("a", "", "2")]), "drop")


@pytest.mark.slow
def test_any_of_several_answers_counts_and_kept_ones_have_a_ceiling(tmp_path: Path) -> None:
    path = written(tmp_path / "several.tsv", *(f"k{n}\ta{n % 5}" for n in range(20)), "k0\tb", "k1\tb")
    training = capax.Training(max_steps=300)
    runs = {
        kind: capax.measure(
            capax.Facts(library=path, ambiguous=kind), capax.Transformer(d_model=16, d_head=16), training, restarts=2
        )
        for kind in ("any", "keep")
    }
    assert runs["any"].memorized == runs["any"].library_size == 22
    assert runs["keep"].memorized == runs["keep"].recallable == 20
    assert any("at most 20 of 22" in note for note in runs["keep"].notes)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("rs"), st.sampled_from("1234")), min_size=1))
def test_a_shuffled_control_changes_nothing_but_who_has_which_answer(found: list[tuple[str, str, str]]) -> None:
    table = collect(Fact(*one) for one in found)
    other = shuffled(table, np.random.default_rng(0))
    assert (other.keys == table.keys).all()
    assert (other.relation == table.relation).all()
    for name in range(len(table.relations)):
        rows = table.relation == name
        assert sorted(other.answers[rows]) == sorted(table.answers[rows])
    assert answers(other).entropy_per_fact == pytest.approx(answers(table).entropy_per_fact)


@pytest.mark.slow
@given(st.lists(st.tuples(*[st.sampled_from("abc")] * 3), min_size=1, max_size=15))
def test_the_best_constant_answer_counts_as_answers_count(triples: list[tuple[str, str, str]]) -> None:
    """Against trying every answer to each relation: with `any`, an answer recalls all facts of its question."""
    table = collect(Fact(*triple) for triple in triples)
    for any_counts in (False, True):
        best = 0
        for number in range(len(table.relations)):
            rights = [(table.answers == one) & (table.relation == number) for one in range(len(table.entities))]
            best += max(int((one_of_pair(table, right) if any_counts else right).sum()) for right in rights)
        assert constant(table, any_counts=any_counts) == best


@pytest.mark.parametrize("ambiguous", ["keep", "any"])
def test_several_answers_are_noted_only_where_there_are_some(tmp_path: Path, ambiguous: Any) -> None:
    spec = task(ambiguous=ambiguous)
    assert FactLibrary.remarks(spec, 180, numpy_generator(0, "library", 0)) == (180, ())
    spec = capax.Facts(library=written(tmp_path / "two.tsv", "a\tx", "a\ty", "b\tx"), ambiguous=ambiguous)
    _, notes = FactLibrary.remarks(spec, 3, numpy_generator(0, "library", 0))
    assert [note.partition(" have")[0] for note in notes] == ["1 of 2 pairs of key and relation"]


def test_the_ceiling_of_a_control_counts_answers_that_fell_together(tmp_path: Path) -> None:
    """Answers that change places may give a pair one answer twice: then one answer recalls both facts."""
    path = written(tmp_path / "two.tsv", "a\tx", "a\ty", "b\tx", "b\ty")
    spec, found = capax.Facts(library=path, ambiguous="keep", control="shuffled"), set()
    for seed in range(20):
        table = draw(spec, 4, numpy_generator(seed, "library", 0))
        best = [
            max(np.sum((table.keys == key) & (table.answers == one)) for one in range(4)) for key in set(table.keys)
        ]
        assert ambiguity(table).ceiling == sum(best)
        found.add(ambiguity(table).ceiling)
    assert found == {2, 4}


def test_a_guess_is_right_by_any_answer_of_its_pair(tmp_path: Path) -> None:
    """Three answers: of a pair with two of them a guess says one that is right twice as often."""
    path = written(tmp_path / "any.tsv", "k\ta", "k\tb", "l\ta", "m\tc")
    each, any_ = (capax.Facts(library=path, ambiguous=kind).guess_probability() for kind in ("keep", "any"))
    assert each == pytest.approx(1 / 3)
    assert any_ == pytest.approx((2 / 3 + 2 / 3 + 1 / 3 + 1 / 3) / 4)


def test_any_of_several_answers_is_worth_what_it_tells(tmp_path: Path) -> None:
    """One of k answers out of n is log2(n / k) bits, whichever it is and however many facts it recalls."""
    several = [f"k{key}\tr\ta{(7 * key + 3 * more) % 40}" for key in range(20) for more in range(10)]
    single = [f"one{key}\ts\tb{key}" for key in range(8)]
    path, alone = str(tmp_path / "f.tsv"), str(tmp_path / "g.tsv")
    for name, lines in ((path, [*several, *single]), (alone, single)):
        Path(name).write_text("\n".join(("key\trelation\tanswer", *lines)))
    spec = capax.Facts(library=path, ambiguous="any")
    assert spec.library_size * spec.bits_per_item() == pytest.approx(20 * np.log2(40 / 10) + 8 * 3)
    each = capax.Facts(library=path, ambiguous="keep")
    assert each.library_size * each.bits_per_item() == pytest.approx(200 * np.log2(40) + 8 * 3)
    assert spec.information_per_item() == each.information_per_item()
    assert capax.Facts(library=alone, ambiguous="any").bits_per_item() == pytest.approx(3)
    assert spec.replace(library=alone).bits_per_item() == pytest.approx(3)
    assert "any_bits" not in capax.Facts(library=alone, ambiguous="any").canonical()


def test_of_pairs_with_several_answers_whole_ones_are_drawn(tmp_path: Path) -> None:
    """What luck and a code need follows from how many answers a pair has."""
    path = tmp_path / "f.tsv"
    lines = [f"k{key}\tr\ta{(7 * key + 3 * more) % 40}" for key in range(20) for more in range(10)]
    path.write_text("\n".join(("key\trelation\tanswer", *lines)))
    spec = capax.Facts(library=str(path), ambiguous="any", library_size=95)
    drawn = [draw(spec, 95, np.random.default_rng(seed)) for seed in range(3)]
    for table in drawn:
        counts = np.bincount(table.pairs)
        assert sorted(counts[counts > 0]) == [5, *[10] * 9]
    assert not np.array_equal(drawn[0].keys, drawn[1].keys)


def test_of_libraries_that_are_drawn_anew_no_ceiling_is_told(tmp_path: Path) -> None:
    """That of the file would be one of no library."""
    path = tmp_path / "f.tsv"
    path.write_text("key\tanswer\n" + "".join(f"k{key}\ta{more}\n" for key in range(20) for more in range(2)))
    spec = capax.Facts(library=str(path), ambiguous="keep")
    assert FactLibrary.remarks(spec, 4, None)[0] == 4
    assert FactLibrary.remarks(spec, 40, np.random.default_rng(0))[0] == 20


def test_a_fact_that_is_said_again_counts_once(tmp_path: Path) -> None:
    """In the loss, too; a list of occurrences with weights adds them up."""
    path = written(tmp_path / "r.tsv", "k\ta", "l\tb", "k\ta")
    assert prepared(capax.Facts(library=path)).table.weights.tolist() == [1, 1]
    weighed = tmp_path / "w.tsv"
    weighed.write_text("key\tanswer\tweight\nk\ta\t2\nl\tb\t1\nk\ta\t1\n")
    assert prepared(capax.Facts(library=str(weighed))).table.weights.tolist() == [3, 1]
