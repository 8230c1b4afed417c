"""Facts as sentences in the tokens of a tokenizer that is given."""

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

import capax
from capax.cli import main
from capax.errors import CapaxError
from capax.seeds import numpy_generator, torch_generator
from capax.specs import Run
from capax.sweeps.grid import read_study
from capax.tasks.facts.encoding import prepared
from capax.tasks.facts.library import FactLibrary, draw
from capax.tasks.tokenization import BytePairs, Pretrained, from_json
from capax.testing import TaskSuite

COUNTRIES = Path(__file__).parents[3] / "examples" / "facts" / "countries.tsv"
LINES = [line.split("\t") for line in COUNTRIES.read_text().splitlines()[1:]]
MODEL = capax.Transformer(d_model=12, n_heads=2, d_head=6, n_layers=2)
ADDED = "<end>"


def byte_level() -> tokenizers.Tokenizer:
    """Byte pairs of the file, a token that is added, and what would cut, pad and begin each text."""
    made = tokenizers.Tokenizer.from_str(
        json.dumps(json.loads(BytePairs.trained([COUNTRIES.read_text()] * 2, 400).to_json())["tokenizer"])
    )
    made.add_special_tokens([ADDED])
    made.enable_truncation(3)
    made.enable_padding(pad_id=0, length=20)
    made.post_processor = processors.TemplateProcessing(
        single=f"{ADDED} $A", special_tokens=[(ADDED, made.token_to_id(ADDED))]
    )
    return made


def letters(space: str) -> dict[str, int]:
    """Each letter of the file, and with a space before it, as Llama's and BERT's tokenizers have letters."""
    every = sorted(set(COUNTRIES.read_text()) - {"\t", "\n", " "} | {"."})
    return {name: place for place, name in enumerate(["[UNK]", space, *every, *(f"##{one}" for one in every)])}


def word_pieces() -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(models.WordPiece(letters("[X]"), unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    return made


def unigrams() -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(models.Unigram([(name, -1.0) for name in letters("▁")], unk_id=0))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    return made


def llama() -> tokenizers.Tokenizer:
    """Puts a space before every text, whatever it begins with."""
    made = tokenizers.Tokenizer(models.BPE(letters("▁"), [], unk_token="[UNK]"))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint's folder, as far as it is read."""
    made = tmp_path_factory.mktemp("checkpoint")
    byte_level().save(str(made / "tokenizer.json"))
    return made


def task(folder: Path, **fields: Any) -> capax.Facts:
    return capax.Facts(**{"library": str(COUNTRIES), "tokenizer": str(folder), **fields})


class TestSentences(TaskSuite):
    @pytest.fixture(autouse=True)
    def _task(self, folder: Path) -> None:
        self.task = task(folder, library_size=20, loss="all")


def library(spec: capax.Facts) -> FactLibrary:
    size = spec.library_size
    return FactLibrary.build(spec, MODEL, (size,), [numpy_generator(0, "library", 0)], dtype=torch.float64)


def ensemble(spec: capax.Facts) -> Any:
    return MODEL.ensemble_type().initialize(
        MODEL, spec.sizes(), generators=[torch_generator(0, "weights", 0)], dtype=torch.float64
    )


@pytest.mark.parametrize("template", ["{key} {relation} {answer}.", "The {relation} of {key}:\n {answer}\n"])
@pytest.mark.parametrize("kind", [byte_level, word_pieces, unigrams, llama])
def test_rows_are_what_the_tokenizer_makes_of_the_sentences(kind: Any, template: str, tmp_path: Path) -> None:
    """Question and answer, encoded apart, are the tokens of the whole sentence, and nothing is added."""
    if kind is not byte_level and "\n" in template:
        template = template.replace("\n", "")  # for which these have no token
        template += "." * (template[-1] != ".")
    kind().save(str(tmp_path / "tokenizer.json"))
    spec, plain = task(tmp_path, template=template), kind()
    plain.no_truncation()
    plain.no_padding()
    found = prepared(spec)
    rows = found.encoding.rows(found.table, spec.known.seq_len)
    assert spec.known.vocab_size == plain.get_vocab_size()
    assert spec.known.seq_len == rows.stop.max()
    assert spec.known.answer_len == (rows.stop - rows.begin).max()
    for row, (key, relation, answer) in enumerate(LINES):
        sentence = template.format(key=key, relation=relation, answer=answer)
        whole = plain.encode(sentence, add_special_tokens=False).ids
        begin, stop = rows.begin[row], rows.stop[row]
        assert rows.tokens[row, :stop].tolist() == whole
        asked = sentence[: sentence.rindex(answer)].rstrip()
        assert plain.encode(asked, add_special_tokens=False).ids == whole[:begin]
        assert begin >= 1


def test_a_relation_without_a_name_falls_away(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "two.tsv").write_text("key\tanswer\nk{relation}\ta\nl\tb\n")
    spec = task(folder, library=str(tmp_path / "two.tsv"))
    found = prepared(spec)
    rows = found.encoding.rows(found.table, spec.known.seq_len)
    text = [found.encoding.text.decode(row[:stop]) for row, stop in zip(rows.tokens, rows.stop, strict=True)]
    assert text == ["k{relation} a.", "l b."]


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["answer", "all"])
def test_padding_changes_no_logit_and_no_gradient_and_bits_are_plain(folder: Path, loss: str) -> None:
    """Sentences of their own length, one at a time and in float64, give the same scores, gradients and bits."""
    spec = task(folder, loss=loss)
    known, models_ = library(spec), ensemble(spec)
    trained, n = list(models_.trainable.values()), 30
    batch = known.batch(torch.arange(0, 180, 6)[None])
    logits = known.outputs(models_, batch, "loss", known.shared(models_, "loss", n))
    bits = known.known_bits(logits.detach(), batch)[0]
    weight = torch.full((1, n), 1 / n, dtype=torch.float64)
    gradients = torch.autograd.grad(known.losses(logits, batch, weight).sum(), trained, allow_unused=True)
    sums, table = [torch.zeros_like(one) for one in trained], models_.parameters["position"]
    for place, row in enumerate(range(0, 180, 6)):
        stop, begin = int(known.stop[0, row]), int(known.begin[0, row])
        tokens = known.tokens[:, row : row + 1, :stop]
        models_.parameters["position"] = table[:, : stop - 1]
        found = models_.logits(tokens[:, :, :-1], "all")
        torch.testing.assert_close(found, logits[:, place : place + 1, : stop - 1], rtol=1e-10, atol=1e-10)
        nats = -found[0, 0].log_softmax(-1)[torch.arange(stop - 1), tokens[0, 0, 1:]]
        different = len({answer for _, relation, answer in LINES if relation == LINES[row][1]})
        plain = math.log2(different) - float(nats[begin - 1 :].sum().detach()) / math.log(2)
        assert float(bits[place]) == pytest.approx(plain, abs=1e-9)
        each = nats[begin - 1 :].sum() / known.answer_len if loss == "answer" else nats.mean()
        for total, part in zip(sums, torch.autograd.grad(each / n, trained, allow_unused=True), strict=True):
            if part is not None:
                total += part
    for mine, theirs in zip(gradients, sums, strict=True):
        torch.testing.assert_close(torch.zeros_like(theirs) if mine is None else mine, theirs, rtol=1e-9, atol=1e-11)


@pytest.mark.slow
def test_a_memory_answers_in_words_and_keeps_its_tokenizer(folder: Path, tmp_path: Path) -> None:
    from safetensors import safe_open

    spec, store = task(folder, library_size=60, control="none"), tmp_path / "facts.db"
    run = capax.measure(
        spec,
        capax.Transformer(d_model=32, d_head=32),
        capax.Training(max_steps=500),
        restarts=1,
        store=store,
        keep_weights=True,
    )
    assert run.memorized == 60
    assert run.breakdown is not None
    assert {group.by for group in run.breakdown.groups} == {"relation", "answer_len"}
    memory = capax.load(run.key, store)
    table = draw(spec, 60, numpy_generator(0, "library", 0))
    for row in range(0, 60, 13):
        key, relation, answer = table.text().splitlines()[row].split("\t")
        found = memory.recall(key, relation)
        assert (found.answer, found.agrees) == (answer, True)
        assert 0 < found.probability <= 1
    unknown = memory.recall("Atlantis", "capital")
    assert unknown.agrees is None
    assert not unknown.answer.endswith(".")
    with pytest.raises(CapaxError, match="key: with its relation at most"):
        memory.recall("Atlantis " * 30, "capital")
    with capax.Store(store) as opened, safe_open(opened.weights_path(run.key), "numpy") as file:
        kept = from_json(file.metadata()["tokenizer"])
    assert type(kept) is Pretrained
    assert kept.encode(["Oslo"])[0].tolist() == prepared(spec).encoding.text.encode(["Oslo"])[0].tolist()


def test_a_shuffled_control_has_the_same_questions_and_answers(folder: Path) -> None:
    real, control = (library(task(folder, control=kind)) for kind in ("none", "shuffled"))
    torch.testing.assert_close(real.begin, control.begin)
    assert (real.stop - real.begin).sum() == (control.stop - control.begin).sum()
    assert not torch.equal(real.tokens, control.tokens)


def test_one_content_is_one_key_and_a_default_none(folder: Path, tmp_path: Path) -> None:
    def key(spec: capax.Facts) -> str:
        return Run(task=spec, model=MODEL).key()

    plain = capax.Facts(library=str(COUNTRIES), tokenization="bpe")
    assert not {"tokenizer", "tokenizer_sha256", "template"} & plain.canonical().keys()
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    spec = task(folder)
    assert spec.tokenization == "bpe"
    assert key(spec) == key(task(tmp_path)) == key(task(tmp_path / "tokenizer.json", tokenization="bpe"))
    assert str(folder) not in Run(task=spec, model=MODEL).canonical_json().replace(str(COUNTRIES), "")
    other = spec.replace(template="{key}'s {relation}: {answer}.")
    assert other.known.seq_len != spec.known.seq_len
    word_pieces().save(str(tmp_path / "tokenizer.json"))
    assert len({key(one) for one in (plain, spec, other, task(tmp_path))}) == 4
    assert other.replace(tokenizer=str(tmp_path)).known.vocab_size == task(tmp_path).known.vocab_size


def test_a_run_read_from_data_needs_no_file_but_a_content(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    run = Run(task=task(tmp_path, template="{key}: {relation} {answer}."), model=MODEL)
    fields = json.loads(run.model_dump_json())
    (tmp_path / "tokenizer.json").unlink()
    again = Run(**fields)
    assert again == run
    assert again.key() == run.key()
    fields["task"]["tokenizer_sha256"] = None
    with pytest.raises(CapaxError, match="tokenizer_sha256: is required where a run is read from data"):
        Run(**fields)


def test_a_tokenizer_that_changed_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    spec = task(tmp_path)
    word_pieces().save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(CapaxError, match=r"tokenizer: .* has changed since it was read"):
        draw(spec, 2, numpy_generator(0, "library", 0))


TEMPLATES = ("x", "{key}", "{answer} {key}", "{key} {key} {answer}", "{key} {answer} {relation}", "{key} {x} {answer}")


@pytest.mark.parametrize("template", [*TEMPLATES, "{key} {answer} {", "{} {key} {answer}", "{key!r} {answer}", ""])
def test_a_template_without_its_places_is_refused(folder: Path, template: str) -> None:
    with pytest.raises(CapaxError, match=r"template: should have {key}, maybe {relation}, and {answer} behind") as said:
        task(folder, template=template)
    assert "\n" not in str(said.value)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"tokenization": "words"}, "tokenization: with a tokenizer it is 'bpe', got 'words'"),
        ({"tokenizer": None, "template": "{key}: {answer}"}, "template: goes with a tokenizer"),
        ({"tokenizer": None, "tokenizer_sha256": "0"}, "tokenizer_sha256: goes with a tokenizer"),
        ({"tokenizer": "nowhere"}, "tokenizer: no such file"),
        ({"tokenizer": "a\0b"}, "tokenizer: cannot read"),
        ({"tokenizer": ""}, "tokenizer: "),
        ({"tokenizer": "/dev/zero"}, "tokenizer: .*not a regular file"),
        ({"tokenizer": str(COUNTRIES)}, "tokenizer: .*cannot be read as a tokenizer"),
        ({"template": "{key} {answer}."}, "template: needs {relation}, as the file has 3"),
        ({"template": "{key} {relation} {answer}"}, "template: should end with something behind {answer}"),
        ({"template": f"{{key}} {{relation}} {'a' * 1001} {{answer}}."}, "template: .*at most 1000"),
    ],
)
def test_bad_fields_are_one_line(folder: Path, fields: dict[str, Any], said: str) -> None:
    with pytest.raises(CapaxError, match=said) as caught:
        task(**{"folder": folder, **fields})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"model": 1}', "\udc80", "[" * 10_000, '{"model": {}}'])
def test_what_is_no_tokenizer_is_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(CapaxError, match=r"^tokenizer: ") as caught:
        task(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_pipe_and_a_file_without_end_are_no_tokenizer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "tokenizer.json")
    with pytest.raises(CapaxError, match=r"tokenizer: .*not a regular file"):
        task(tmp_path)
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(2**30)
    with pytest.raises(CapaxError, match=r"tokenizer: .* at most 67108864 are read"):
        task(tmp_path / "large.json")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("東\ta\n京\tb\n", "tokenizer: has the same tokens for the questions '東' and '京'"),
        ("Oslo\t東\nParis\t京\n", "template: the tokens of the answer '東' begin those of '京'"),
        ("Oslo\tParis\nParis\tParis.Oslo\n", "template: the tokens of the answer 'Paris' begin those of 'Paris.Oslo'"),
    ],
)
def test_what_tokens_do_not_tell_apart_is_refused(tmp_path: Path, lines: str, said: str) -> None:
    (tmp_path / "facts.tsv").write_text(f"key\tanswer\n{lines}")
    word_pieces().save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(CapaxError, match=said):
        task(tmp_path, library=str(tmp_path / "facts.tsv"))


def test_a_tokenizer_with_gaps_counts_to_its_largest_number(tmp_path: Path) -> None:
    made = tokenizers.Tokenizer(models.WordLevel({"a": 0, "b": 7}, unk_token="a"))
    assert Pretrained(made).vocab_size == 8
    assert Pretrained(made).decode([7, 3, 0])
    with pytest.raises(CapaxError, match="tokenizer: has 1 to 1000000 tokens, got 5000001"):
        Pretrained(tokenizers.Tokenizer(models.WordLevel({"a": 0, "b": 5_000_000}, unk_token="a")))
    with pytest.raises(CapaxError, match="tokenizer: has 1 to 1000000 tokens, got 0"):
        Pretrained(tokenizers.Tokenizer(models.WordLevel({}, unk_token="a")))


def test_a_study_names_a_tokenizer_beside_it_and_varies_the_sentence(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "tokens").mkdir()
    (tmp_path / "tokens" / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    (tmp_path / "facts.tsv").write_bytes(COUNTRIES.read_bytes())
    (tmp_path / "study.toml").write_text(
        '[task]\ntask = "facts"\nlibrary = "facts.tsv"\ntokenizer = "tokens"\n'
        '[grid]\ntemplate = ["{key} {relation} {answer}.", "The {relation} of {key} is {answer}."]\n'
    )
    runs = read_study(tmp_path / "study.toml").runs
    assert [run.task.template[:3] for run in runs] == ["{ke", "The"]
    assert {run.task.tokenizer for run in runs} == {str(tmp_path / "tokens")}


def test_measure_takes_a_tokenizer_and_plans_do_not(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([
            "measure", "facts", str(COUNTRIES), "--tokenizer", str(folder), "--d-model", "8", "--d-head", "8",
            "--template", "{key}, {relation}: {answer}.", "--library-size", "9", "--max-steps", "2",
            "--restarts", "1", "--workers", "1", "--store", str(tmp_path / "s.db"), "--json",
        ])  # fmt: skip
    measured = json.loads(capsys.readouterr().out)
    assert ended.value.code == 0
    assert measured["spec"]["task"]["template"] == "{key}, {relation}: {answer}."
    with pytest.raises(CapaxError, match="tokenizer: plans are of networks that learn from scratch"):
        capax.plan_facts(task(folder))


def test_words_say_the_tokenizer_and_the_sentence(folder: Path) -> None:
    one, other = task(folder), task(folder, template="{key}: {relation} {answer}.")
    assert folder.name in one.words()
    assert one.words() != other.words()
    assert one.tokenizer_sha256 is not None
    assert one.tokenizer_sha256[:8] in one.words()
    assert np.isfinite(one.bits_per_item())


def test_a_report_names_files_not_folders_and_laws_take_templates_as_text(folder: Path, tmp_path: Path) -> None:
    """A template begins with a brace, as the JSON of a model's options does."""
    from capax.laws.domain import _without
    from capax.specs.apart import fields_of

    spec = task(folder)
    assert spec.files == ("library", "tokenizer")
    assert fields_of(Run(task=spec, model=MODEL), ())["tokenizer"] == f"{folder.name} {spec.tokenizer_sha256:.8}"
    assert _without(spec.template, ["key"]) == spec.template
    assert _without('{"a": 1, "b": 2}', ["b"]) == '{"a": 1}'
