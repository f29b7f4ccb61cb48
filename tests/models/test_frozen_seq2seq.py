"""The frozen form of a model with two sides: where it reads them, and what it refuses."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from normxlogit import MethodError, UnsupportedModelError
from normxlogit.inputs.append_tokens import append_tokens
from normxlogit.models import frozen_seq2seq as room
from normxlogit.models.embeddings import table_of
from normxlogit.models.frozen_seq2seq import SOURCE, FrozenSeq2Seq
from normxlogit.models.task_model import TaskModel
from normxlogit.surgery.frozen import FrozenNetwork
from normxlogit.surgery.layer_outputs import LayerOutput
from normxlogit.tasks.targets import Target
from tests import tiny
from tests.tasks.test_seq2seq import begin, writer

FAMILIES = ("t5", "bart")


def made(family="t5", source="the cat sat", ids=(7, 8)):
    """A model, its frozen form, and a source with what the decoder wrote."""
    model = TaskModel(writer(family), tiny.tokenizer(), task="seq2seq-lm")
    decoder = append_tokens(model.tokenizer, begin(model, source), list(ids))
    batch = model.batch([decoder], [0], encode_sources=False)
    return model, FrozenSeq2Seq.of(model), batch


def own(model, batch, **options):
    ids = batch.inputs["source"][..., 0]
    with torch.no_grad():
        return model.caller_model(
            input_ids=ids, decoder_input_ids=batch.inputs["input_ids"], output_hidden_states=True, **options
        )


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_both_sides_and_the_bias_are_the_answer(family, layer):
    model, frozen, batch = made(family)
    run = frozen.run_both(batch, (layer,))
    outputs = own(model, batch)
    torch.testing.assert_close(run.hidden, outputs.decoder_hidden_states[-1], rtol=1e-4, atol=1e-4)
    target = Target(torch.tensor([[9]]), None, None, True, model.task)
    found = frozen.contributions_each(run, target, (SOURCE + layer, 0), torch.tensor([[2]]))
    said = outputs.logits[0, 2]
    assert float(found.answer) == pytest.approx(float(said[9] - said.mean()), abs=1e-4)
    assert found.values[SOURCE + layer].shape == (1, 1, batch.inputs["source"].shape[1])
    assert found.values[0].shape == (1, 1, batch.mask.shape[1])
    assert all(values.any() for values in found.values.values())


def test_the_layer_of_the_encoder_that_is_meant():
    _, frozen, batch = made()  # three layers
    found = [frozen.encoder_layers(batch, place) for place in (0, "middle", 1, 3, -1, -3)]
    assert found == [(0,), (1,), (1,), (3,), (2,), (0,)]
    assert frozen.encoder_layers(batch, "first-half") == (0, 1)
    assert frozen.encoder_layers(batch, "all") == (0, 1, 2)
    for place in (4, -4):
        with pytest.raises(MethodError, match=f"read_at={place}: there are layers 1 to 3"):
            frozen.encoder_layers(batch, place)


def test_the_layers_are_found_once_and_not_for_the_word_embeddings(monkeypatch):
    _, frozen, batch = made()
    found, layer_outputs = [], room.layer_outputs
    monkeypatch.setattr(room, "layer_outputs", lambda *given: found.append(1) or layer_outputs(*given))
    frozen.run_both(batch, (0,))
    assert frozen.encoder_layers(batch, 0) == (0,)
    assert not found
    for _ in range(2):
        frozen.run_both(batch, (1,))
    assert len(found) == 1


def test_long_sides_are_spared(monkeypatch):
    _, frozen, batch = made()
    frozen.run_both(batch, (0,))
    spared, run = [], FrozenNetwork.run
    monkeypatch.setattr(FrozenNetwork, "run", lambda self, *a, **k: spared.append(k["sparing"]) or run(self, *a, **k))
    count = batch.mask.numel() + batch.inputs["source"].numel()
    for longest in (count, count - 1):
        monkeypatch.setattr(room, "LONG", longest)
        frozen.run_both(batch, (0,))
    assert spared == [False, True]


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["hidden", "source"])
def test_a_pass_that_gives_no_states_is_refused(monkeypatch, missing):
    _, frozen, batch = made()
    frozen.run_both(batch, (1,))
    if missing == "hidden":
        monkeypatch.setattr(room, "hidden_of", lambda _: None)
    else:
        monkeypatch.setattr(frozen, "_readers_of_both", lambda *_: {})
    with pytest.raises(UnsupportedModelError, match="does not give its layers' outputs"):
        frozen.run_both(batch, (1,))


def test_an_encoder_whose_layers_return_nothing_is_read_at_its_words_alone(monkeypatch):
    for result in (None, (LayerOutput("x", 1, (1, 0, 2)),)):
        _, frozen, batch = made()
        monkeypatch.setattr(room, "layer_outputs", lambda *_, result=result: result)
        frozen.run_both(batch, (0,))
        with pytest.raises(UnsupportedModelError, match="no module of the encoder of T5ForConditionalGeneration"):
            frozen.encoder_layers(batch, 1)
        assert frozen.encoder_layers(batch, "all") == (0,)


def test_a_side_without_a_table_is_refused(monkeypatch):
    model, _, _ = made()
    sides = iter([nn.Embedding(2, 2), None])
    monkeypatch.setattr(room, "table_of", lambda _: next(sides))
    with pytest.raises(
        UnsupportedModelError, match="names no table of word embeddings for its encoder and its decoder"
    ):
        FrozenSeq2Seq(model)


def test_a_model_that_does_not_look_both_sides_up_is_refused():
    _, frozen, batch = made()
    with (
        pytest.raises(UnsupportedModelError, match="does not look its tokens up in its tables"),
        frozen._replaced(batch.inputs, frozen.sides(batch.inputs)),
    ):
        pass


def test_tables_give_vectors_to_their_own_ids_once_and_keep_what_the_model_pads():
    _, frozen, batch = made()
    source, written = batch.inputs["source"][..., 0], batch.inputs["input_ids"]
    vectors = [torch.full((1, ids.shape[1], 32), value) for ids, value in ((source, 1.0), (written, 2.0))]
    with frozen._replaced(batch.inputs, vectors) as words:
        place = next(iter(words.values()))
        other = torch.full_like(source, 60)
        assert place(torch.zeros(1, source.shape[1], 32), (other,), {}) is None
        assert place(torch.zeros(1), (), {}) is None
        wider = torch.cat((written, torch.zeros(1, 2, dtype=torch.long)), 1)
        placed = place(torch.full((1, wider.shape[1], 32), 5.0), (wider,), {})
        assert placed[0, :, 0].tolist() == [2.0] * written.shape[1] + [5.0] * 2
        assert place(torch.zeros(1), (written,), {}) is None, "it was looked up already"
        assert place(torch.zeros(1), (source.expand(2, -1),), {}) is None, "another number of texts"
        placed = place(torch.zeros(1, source.shape[1], 32), (source,), {})
        assert torch.equal(placed, vectors[0])


def test_what_a_side_looks_its_tokens_up_in():
    table = nn.Embedding(2, 2)

    def refuse():
        raise NotImplementedError

    plain = nn.Module()
    assert table_of(plain) is None
    plain.embed_tokens = table
    assert table_of(plain) is table
    plain.get_input_embeddings = refuse
    assert table_of(plain) is table
    plain.get_input_embeddings = lambda: 5
    assert table_of(plain) is None
    assert table_of(SimpleNamespace(get_input_embeddings=lambda: table)) is table
