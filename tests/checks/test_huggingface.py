"""Embeddings of tiny models from configs, against the models' own outputs, and through the command line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capax.checks import huggingface
from capax.checks.assumptions import represent
from capax.checks.huggingface import read
from capax.cli import main
from capax.errors import EmbeddingError

pytest.importorskip("transformers")

SIZES = {"hidden_size": 24, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 48}
CONFIGS = {
    "bert": {**SIZES, "vocab_size": 300, "max_position_embeddings": 32},
    "roberta": {**SIZES, "vocab_size": 300, "max_position_embeddings": 40},
    "gpt2": {"n_embd": 24, "n_head": 2, "n_layer": 2, "vocab_size": 300, "n_positions": 32},
    "llama": {**SIZES, "vocab_size": 300, "max_position_embeddings": 32},
    "mistral": {**SIZES, "num_key_value_heads": 2, "vocab_size": 300, "max_position_embeddings": 32},
    "qwen2": {**SIZES, "num_key_value_heads": 2, "vocab_size": 300, "max_position_embeddings": 32},
    "opt": {**SIZES, "ffn_dim": 48, "vocab_size": 300, "max_position_embeddings": 32, "word_embed_proj_dim": 24},
}


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    draws = np.random.default_rng(0).integers(97, 123, (60, 20), np.uint8)
    Path("t.txt").write_text("".join(f"{bytes(row).decode()}\n" for row in draws))


def config(kind: str, **changes: Any) -> Path:
    path = Path(f"{kind}.json")
    path.write_text(json.dumps({"model_type": kind, **CONFIGS.get(kind, {}), **changes}))
    return path


def reference(kind: str, seed: int, tokens: np.ndarray) -> tuple[np.ndarray, ...]:
    """The hidden states that the model itself returns; the last has passed the final norm, where there is one."""
    import torch
    from transformers import AutoConfig, AutoModel

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModel.from_config(AutoConfig.from_pretrained(str(config(kind))))
    with torch.no_grad():
        out = model.double().eval()(torch.from_numpy(tokens), output_hidden_states=True)
    return tuple(state.numpy() for state in out.hidden_states)


@pytest.mark.parametrize("kind", ["bert", "roberta", "gpt2", "llama", "mistral", "qwen2"])
def test_representations_are_the_models_own(kind: str) -> None:
    found = read(config(kind), Path("t.txt"), context_size=9, precision="float64", seed=5)
    names = ["raw embeddings", "after attention in block 1", "after block 1"]
    assert [one.name for one in found.representations] == names
    lines = [line.encode() for line in Path("t.txt").read_text().split()]
    first = kind in ("bert", "roberta")
    tokens = np.array([[299, *line[:8]] if first else list(line[:9]) for line in lines], np.int64)
    raw, after_block, _ = reference(kind, 5, tokens)
    for one, expected in ((found.representations[0], raw), (found.representations[2], after_block)):
        np.testing.assert_allclose(one.contexts, expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(one.queries, one.contexts[:, 0 if first else -1])
    attended = found.representations[1].contexts
    assert attended.shape == (60, 9, 24)
    assert np.abs(attended - raw).max() > 1e-3
    assert np.abs(attended - after_block).max() > 1e-3


def test_attention_output_is_before_the_feed_forward_network() -> None:
    """Without its feed-forward network a GPT-2 block gives what attention left in the residual stream."""
    import torch
    from transformers import GPT2Model

    made = GPT2Model._init_weights

    def silent(self: Any, module: Any) -> None:
        made(self, module)
        for name, parameter in module.named_parameters():
            if name.endswith("mlp.c_proj.weight"):
                torch.nn.init.zeros_(parameter)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GPT2Model, "_init_weights", silent)
        _, attended, block = read(config("gpt2"), Path("t.txt"), layer=2, precision="float64").representations
    np.testing.assert_allclose(attended.contexts, block.contexts, atol=1e-12)


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_raw_queries_fail_and_blocks_do_not(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """CLS has one raw embedding, and a last token one of 26; what a block gives satisfies A1 and A2."""
    flags = [
        "check",
        "assumptions",
        "--hf",
        str(config(kind)),
        "--text",
        "t.txt",
        "--context-size",
        "8",
        "--samples",
        "200",
    ]
    with pytest.raises(SystemExit) as exit_:
        main([*flags, "--precision", "float64", "--json"])
    out, err = capsys.readouterr()
    assert (exit_.value.code, err) == (0, "")
    found = json.loads(out)
    verdicts = [{check["assumption"]: check["verdict"] for check in one["checks"]} for one in found["representations"]]
    assert [one["A1"] for one in verdicts] == ["fails", "not refuted", "not refuted"]
    assert [one["A2"] for one in verdicts] == ["holds"] * 3
    if kind == "bert":
        assert "all span 1 dimensions" in found["representations"][0]["checks"][0]["evidence"]
        assert len(found["representations"][0]["checks"][0]["dependent_sets"]) == 59
    notes = " ".join(found["notes"])
    for said in ("weights are random (seed 0)", "bytes modulo", "in the context too"):
        assert said in notes


def test_a_model_of_an_unknown_kind_goes_without_attention() -> None:
    with pytest.raises(EmbeddingError, match=r"query.*first.*last.*opt"):
        read(config("opt"), Path("t.txt"))
    found = read(config("opt"), Path("t.txt"), query="last")
    assert [one.name for one in found.representations] == ["raw embeddings", "after block 1"]
    assert any("left out" in note for note in found.notes)


def test_weights_and_tokenizer_of_a_folder() -> None:
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    words = ["[CLS]", "[SEP]", "[UNK]", "[PAD]", *"abcdefghij"]
    inner = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, [("[CLS]", 0), ("[SEP]", 1)])
    PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]", pad_token="[PAD]").save_pretrained("model")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = BertModel(BertConfig(**CONFIGS["bert"])).eval()
    model.save_pretrained("model")
    Path("t.txt").write_text("a b c d e\nf g h\nc c a j\n")
    found = read(Path("model"), Path("t.txt"))
    assert any("PreTrainedTokenizer" in note or "TokenizersBackend" in note for note in found.notes), found.notes
    assert not any("random" in note for note in found.notes)
    with torch.no_grad():
        tokens = torch.tensor([[0, 4, 5, 6, 1], [0, 9, 10, 11, 1], [0, 6, 6, 4, 1]])
        states = model(tokens, output_hidden_states=True).hidden_states
    np.testing.assert_allclose(found.representations[2].contexts, states[1].numpy(), rtol=1e-4, atol=1e-5)
    assert represent("x", found.representations[2].queries, found.representations[2].contexts).violations == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"layer": 3}, ["layer", "1 to 2", "3"]),
        ({"layer": 0}, ["layer", "1 to 2", "0"]),
        ({"context_size": 0}, ["context_size", "at least 1", "0"]),
        ({"context_size": 21}, ["line 1", "20 tokens", "21"]),
        ({"text": Path("short.txt"), "context_size": 3}, ["short.txt", "line 2", "2 tokens", "3"]),
        ({"text": Path("blank.txt")}, ["line 2", "0 tokens"]),
        ({"text": Path("empty.txt")}, ["empty.txt", "empty"]),
        ({"text": Path("missing.txt")}, ["text", "missing.txt"]),
        ({"text": Path("long.txt")}, ["context_size", "32 positions", "40"]),
        ({"model": Path("gpt2")}, ["gpt2", "nothing is downloaded"]),
        ({"model": Path("folder")}, ["folder", "config.json"]),
        ({"model": Path("t5.json")}, ["encoders or decoders", "t5"]),
        ({"model": Path("vit.json")}, ["images", "needed", "vit"]),
        ({"model": Path("none.json")}, ["cannot read the config", "none.json"]),
        ({"model": Path("odd.json")}, ["cannot", "odd.json"]),
    ],
)
def test_bad_input_is_refused(options: dict[str, Any], said: list[str]) -> None:
    Path("folder").mkdir()
    for kind in ("t5", "vit", "none"):
        config(kind)
    Path("odd.json").write_text(json.dumps({"model_type": "gpt2", "n_embd": 10, "n_head": 3}))
    for name, text in (("short", "abcd\nab\n"), ("blank", "abc\n\nabc\n"), ("empty", ""), ("long", "a" * 40 + "\n")):
        Path(f"{name}.txt").write_text(text)
    given = {"model": config("gpt2"), "text": Path("t.txt"), **options}
    with pytest.raises(EmbeddingError) as error:
        read(given.pop("model"), given.pop("text"), **given)
    assert "\n" not in str(error.value)
    for word in said:
        assert word in str(error.value), str(error.value)


def test_a_byte_order_mark_is_no_token() -> None:
    Path("marked.txt").write_bytes(b"\xef\xbb\xbf" + Path("t.txt").read_bytes())
    marked, plain = (read(config("gpt2"), Path(name), context_size=9) for name in ("marked.txt", "t.txt"))
    for one, other in zip(marked.representations, plain.representations, strict=True):
        np.testing.assert_array_equal(one.contexts, other.contexts)


def test_missing_transformers_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface, "transformers", None)
    with pytest.raises(EmbeddingError, match=r"capax\[hf\]"):
        read(config("gpt2"), Path("t.txt"))


VIT = {**SIZES, "image_size": 8, "patch_size": 4, "num_channels": 3}


@pytest.mark.parametrize("kind", ["vit", "deit"])
def test_images_are_read_as_the_vision_model_reads_them(kind: str) -> None:
    """Of an array as it is, and of files scaled. All raw queries are one CLS; DeiT has a distillation token, too."""
    import torch
    from PIL import Image
    from transformers import AutoConfig, AutoModel

    draws = np.random.default_rng(0)
    pixels = draws.standard_normal((20, 3, 8, 8))
    np.save("images.npy", pixels)
    path = config(kind, **VIT)
    found = read(path, images=Path("images.npy"), precision="float64", seed=5)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        model = AutoModel.from_config(AutoConfig.from_pretrained(str(path))).double().eval()
    with torch.no_grad():
        states = model(torch.from_numpy(pixels), output_hidden_states=True).hidden_states
    assert [one.name for one in found.representations] == [
        "raw embeddings",
        "after attention in block 1",
        "after block 1",
    ]
    assert found.representations[0].contexts.shape == (20, 5 if kind == "vit" else 6, 24)
    for one, expected in ((found.representations[0], states[0]), (found.representations[2], states[1])):
        np.testing.assert_allclose(one.contexts, expected.numpy(), rtol=1e-9, atol=1e-12)
    assert np.ptp(found.representations[0].queries, axis=0).max() == 0
    assert np.ptp(found.representations[1].queries, axis=0).max() > 1e-3
    Path("pictures").mkdir()
    for place in range(3):
        grey = np.full((5, 6, 3), 85 * place, np.uint8)
        Image.fromarray(grey).save(f"pictures/{place}.png")
    of_files = read(path, images=Path("pictures"), precision="float64", seed=5)
    constant = np.stack([np.full((3, 8, 8), 85 * place / 127.5 - 1) for place in range(3)])
    np.save("images.npy", constant)
    of_array = read(path, images=Path("images.npy"), precision="float64", seed=5)
    np.testing.assert_allclose(
        of_files.representations[2].contexts, of_array.representations[2].contexts, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--images", "small.npy"), r"images: an array of T × 3 × 8 × 8, got 4 × 3 × 8 × 7"),
        (("--images", "nan.npy"), "images: finite real numbers"),
        (("--images", "no"), "no"),
        (("--images", "empty"), "images: no .png, .jpg, .jpeg in empty"),
        (("--images", "bad"), "images: cannot read bad"),
        (("--text", "t.txt"), "images: needed for a model of images such as 'vit'"),
        (
            ("--images", "good.npy", "--context-size", "3"),
            "context_size: of images it follows from their patches, got 3",
        ),
        ((), "text: it or images is needed"),
    ],
)
def test_images_that_cannot_be_used(flags: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("small.npy", np.zeros((4, 3, 8, 7)))
    np.save("good.npy", np.zeros((4, 3, 8, 8)))
    np.save("nan.npy", np.full((4, 3, 8, 8), np.nan))
    Path("empty").mkdir()
    Path("bad").mkdir()
    Path("bad/one.png").write_bytes(b"no image")
    with pytest.raises(SystemExit) as exit_:
        main(["check", "assumptions", "--hf", str(config("vit", **VIT)), *flags])
    assert exit_.value.code == 2
    assert said in capsys.readouterr().err.splitlines()[-1]
