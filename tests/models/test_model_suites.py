"""Every model and mixer of capax passes the suites that a plugin's author inherits."""

from typing import ClassVar

import pytest

import capax
from capax import devices
from capax.models.mixers import softmax
from capax.specs.task import Scored
from capax.specs.transformer import Norm
from capax.testing import MixerSuite, ModelSuite
from capax.testing.trained import same_in_any_pack

SEQUENCES = capax.Sequences(seq_len=5, vocab_size=7, library_size=30)
TRANSFORMER = capax.Transformer(n_heads=2, d_model=8, d_head=4)
ASSOCIATIONS = capax.Associations(context_size=3, library_size=20, n_classes=4)
ATTENTION = capax.AssociativeAttention(n_heads=2, d_model=6, d_head=4)
RELATIONS = capax.Relations(n_items=8)
CHANNEL = capax.KeyQueryChannel(d_model=4, d_head=2, n_heads=2)


def states(attention: str) -> list[capax.Transformer]:
    """Shapes of mixers that keep a state."""
    return [
        TRANSFORMER.replace(attention=attention),
        TRANSFORMER.replace(attention=attention, n_heads=4, n_kv_heads=2, d_head=3, d_value=2, norms=False),
        TRANSFORMER.replace(attention=attention, n_heads=3, d_model=3, d_head=6, positions="rotary"),
    ]


class TestTransformer(ModelSuite):
    model, task = TRANSFORMER, SEQUENCES


class TestTransformerByTheLastToken(ModelSuite):
    model, task = TRANSFORMER, SEQUENCES.replace(loss="last")


class TestDeepTransformer(ModelSuite):
    model = TRANSFORMER.replace(n_layers=2, ffn="identity", embeddings="trained", readout="trained")
    task = SEQUENCES


class TestTiedTransformerAfterATokenOfItsOwn(ModelSuite):
    model = TRANSFORMER.replace(embeddings="trained", readout="tied")
    task = SEQUENCES.replace(bos=True)


class TestTransformerOfToday(ModelSuite):
    model = TRANSFORMER.replace(
        n_layers=2, n_kv_heads=1, positions="rotary", gated=True, activation="silu", norm="rms", window=3
    )
    task = SEQUENCES


@pytest.mark.slow
class TestTurnedTransformerByTheLastToken(ModelSuite):
    model = TRANSFORMER.replace(positions="rotary", n_kv_heads=1, gated=True, activation="silu", norm="rms")
    task = SEQUENCES.replace(loss="last", library_size=200)


@pytest.mark.slow
@pytest.mark.parametrize("positions", ["rotary", "alibi", "none"])
@pytest.mark.parametrize("loss", ["all", "last"])
def test_what_is_looked_up_of_a_vocabulary_is_the_same_in_any_pack(
    positions: str, loss: Scored, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "turning_pays", "looking_up_pays", "factoring_pays":
        monkeypatch.setattr(softmax, name, lambda *sizes: True)
    task = capax.Sequences(seq_len=17, vocab_size=40, library_size=160, loss=loss)
    if devices.rounds_batches_alike():
        assert same_in_any_pack(task, TRANSFORMER.replace(positions=positions), capax.Training(max_epochs=3, lr=0.01))


class TestTransformerWithSlopes(ModelSuite):
    model = TRANSFORMER.replace(n_heads=3, positions="alibi", norm="rms")
    task = SEQUENCES.replace(loss="last")


@pytest.mark.slow
class TestTransformerOfExpertsInParallel(ModelSuite):
    model = TRANSFORMER.replace(n_layers=2, attention="gated-delta", n_experts=3, parallel=True)
    task = SEQUENCES


@pytest.mark.slow
class TestTransformerThatDrawsInTraining(ModelSuite):
    model = TRANSFORMER.replace(n_layers=2, dropout=0.2, activation="rrelu", norm_place="post", attention="delta")
    task = SEQUENCES


class TestPlainAttention(ModelSuite):
    model, task = ATTENTION, ASSOCIATIONS


class TestPublishedAttention(ModelSuite):
    model, task = ATTENTION.replace(profile="mahdavi2024"), ASSOCIATIONS.replace(contexts="fresh")


class TestAttentionOfTwoLayers(ModelSuite):
    model, task = ATTENTION.replace(n_layers=2), ASSOCIATIONS


class TestPublishedAttentionOfThreeLayers(ModelSuite):
    model, task = ATTENTION.replace(profile="mahdavi2024", n_layers=3), ASSOCIATIONS.replace(contexts="fresh")


class TestThresholdChannel(ModelSuite):
    model, task = CHANNEL, RELATIONS


class TestSoftmaxChannel(ModelSuite):
    model, task = CHANNEL.replace(channel="softmax"), RELATIONS


class TestBlock(ModelSuite):
    model, task = CHANNEL.replace(channel="block"), RELATIONS


class TestSoftmax(MixerSuite):
    models: ClassVar = (
        TRANSFORMER,
        TRANSFORMER.replace(d_model=3, d_head=5, d_value=2, norms=False),
        TRANSFORMER.replace(n_heads=3, d_model=6, d_head=1),
    )

    @pytest.mark.parametrize("scored", ["all", "last"])
    def test_every_row_of_a_vocabulary_equals_the_definition(
        self, scored: Scored, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in "factoring_pays", "looking_up_pays":
            monkeypatch.setattr(softmax, name, lambda *sizes: True)
        monkeypatch.setattr(softmax, "mixes_inputs", lambda *sizes: False)
        assert all(self.compare_rows(mixer, context, scored) for mixer in self.mixers() for context in self.contexts)

    @pytest.mark.parametrize("mixes", [True, False])
    def test_inputs_and_projections_equal_the_definition(self, mixes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(softmax, "mixes_inputs", lambda *sizes: mixes)
        self.test_every_query_equals_the_definition()

    @pytest.mark.parametrize("norm", ["layer", "rms", None])
    @pytest.mark.parametrize("scored", ["all", "last"])
    def test_every_table_equals_the_definition(
        self, scored: Scored, norm: Norm | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(softmax, "mixes_inputs", lambda *sizes: True)
        monkeypatch.setattr(softmax, "factoring_pays", lambda *sizes: True)
        for mixer in self.mixers():
            assert self.compare_shared(mixer, 6, scored, 10**9, norm)


class TestSoftmaxOfSharedKeysAndNearPositions(TestSoftmax):
    models: ClassVar = (
        TRANSFORMER.replace(n_heads=4, n_kv_heads=2, d_value=3),
        TRANSFORMER.replace(window=2),
        TRANSFORMER.replace(n_heads=3, positions="alibi"),
        TRANSFORMER.replace(n_heads=4, n_kv_heads=1, positions="alibi", window=4, norms=False),
        TRANSFORMER.replace(stride=3),
        TRANSFORMER.replace(n_heads=4, n_kv_heads=2, values=False, window=1, stride=2),
    )


class TestSoftmaxOfTurnedChannels(MixerSuite):
    @pytest.mark.parametrize("scored_whole", [0, 9])
    @pytest.mark.parametrize("scored", ["all", "last"])
    def test_keys_of_the_vocabulary_equal_the_definition(
        self, scored: Scored, scored_whole: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(softmax, "SCORED_WHOLE", scored_whole)
        for name in "turning_pays", "looking_up_pays":
            monkeypatch.setattr(softmax, name, lambda *sizes: True)
        assert all(self.compare_rows(mixer, context, scored) for mixer in self.mixers() for context in self.contexts)

    models: ClassVar = (
        TRANSFORMER.replace(positions="rotary"),
        TRANSFORMER.replace(positions="rotary", n_heads=4, n_kv_heads=2, d_head=2, window=3),
        TRANSFORMER.replace(positions="rotary", d_model=3, d_head=6, d_value=2, norms=False),
    )


class TestLinear(MixerSuite):
    models: ClassVar = tuple(states("linear"))


class TestDelta(MixerSuite):
    models: ClassVar = tuple(states("delta"))


class TestGatedDelta(MixerSuite):
    models: ClassVar = tuple(states("gated-delta"))
