"""Slopes of a frozen pass, against the head's own weights and the owner's own states."""

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from normxlogit import ALL, UnsupportedModelError
from normxlogit.models import frozen_model
from normxlogit.models.forward_pass import FrozenPass
from normxlogit.models.frozen_model import FrozenModel
from normxlogit.models.signals import SignalModel
from normxlogit.models.targets import Target, resolve
from normxlogit.models.task_model import TaskModel
from normxlogit.surgery.frozen import FrozenNetwork
from normxlogit.surgery.layer_outputs import LayerOutput
from tests import plain, tiny
from tests.architectures.base import build
from tests.models.test_signals import batch_of, vit

TEXTS = ["the cat sat", "a movie is not good", "bad"]
MANY = [7, 8, 9, 10, 11, 12, 13, 14, 15, 40]  # more than are gone back from at once


def made(family, kind, texts=TEXTS, **options):
    task = TaskModel(tiny.model(family, kind, **options), tiny.tokenizer_for(family))
    batch = task.batch(task.encoder(texts), list(range(len(texts))))
    task.prepare(batch)
    return task, batch


def through_rms(norm, rows, states):
    """Bring rows of a head back through a norm whose root mean square is held."""
    return rows * norm.weight * (states.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon).rsqrt()


@pytest.mark.parametrize(("spec", "contrast"), [(MANY, None), (MANY, 20), (7, None), (ALL, None)])
def test_what_a_language_model_says_rests_on_its_last_state_alone(spec, contrast):
    task, batch = made("llama", "CausalLM")
    run = FrozenModel.of(task).run(batch, (3,))
    spec = MANY[:8] if spec is ALL else spec  # as many as are gone back from at once
    target = resolve(task, run, spec, contrast)
    slopes = FrozenModel.of(task).slopes(run, target, (3,))
    rows = task.given.lm_head.weight.detach()
    wanted = rows[target.ids[0]] - (0 if contrast is None else rows[contrast])  # (K, H)
    assert len(slopes.gradients[3]) == len(wanted)
    for text, encoding in enumerate(batch.encodings):
        last = len(encoding) - 1
        with torch.no_grad():
            logits = task.given(torch.tensor([encoding.ids])).logits[0, -1]
        said = logits[target.ids[0]] - (0 if contrast is None else logits[contrast])
        torch.testing.assert_close(slopes.answer[text], said, rtol=1e-4, atol=1e-4)
        each = through_rms(task.given.model.norm, wanted, slopes.states[3][text, last])
        for slope, own in zip(slopes.gradients[3], each, strict=True):
            torch.testing.assert_close(slope[text, last], own.detach(), rtol=1e-4, atol=1e-5)
            assert slope[text].abs().sum(-1).count_nonzero() == 1, "no other place"


@pytest.mark.parametrize("count", [1, 8, 10])
def test_what_was_kept_for_the_way_back_is_given_free(count):
    task, batch = made("llama", "CausalLM")
    run = FrozenModel.of(task).run(batch, (3,))
    target = resolve(task, run, MANY[:count])
    FrozenModel.of(task).slopes(run, target, (3,))
    with pytest.raises(RuntimeError, match="a second time"):
        FrozenModel.of(task).slopes(run, target, (3,))


@pytest.mark.parametrize("count", [1, 2])
def test_what_an_answer_does_not_rest_on_has_no_slope(count):
    task, _ = made("bert", "SequenceClassification")
    used, unused = (torch.ones(2, 3, 4, requires_grad=True) for _ in range(2))
    answer = torch.stack([(used * (k + 2)).sum((1, 2)) for k in range(count)], -1)  # (B, K)
    flowed = FrozenPass({0: used, 1: unused}, answer)
    found = FrozenModel.of(task)._gone_back(answer, answer.sum(0), flowed, (0, 1))
    assert [slope.unique().tolist() for slope in found.gradients[0]] == [[k + 2] for k in range(count)]
    assert [(slope.shape, bool(slope.any())) for slope in found.gradients[1]] == [((2, 3, 4), False)] * count
    assert not found.answer.requires_grad
    assert not found.states[0].requires_grad


def test_answers_at_many_places_have_a_slope_each_or_in_sums():
    task, batch = made("llama", "CausalLM")
    read = torch.tensor([[0, 1, 2], [2, 4, -1], [0, -1, -1]])
    ids = torch.tensor([[7, 8, 9], [10, 11, 12], [13, 14, 15]])
    frozen = FrozenModel.of(task)
    rows = task.given.lm_head.weight.detach()
    weights = torch.tensor([[[1.0, 0, 2.0]], [[3.0, -1.0, 5.0]], [[2.0, 7.0, 7.0]]])  # (B, 1, G)
    for contrast in (None, 20):
        run = frozen.run(batch, (3,), predict=False)
        other = None if contrast is None else torch.full((3,), contrast)
        target = Target(ids, other, run.positions, True, task.task)
        slopes = frozen.slopes_each(run, target, (3,), read)
        summed = frozen.slopes_each(frozen.run(batch, (3,), predict=False), target, (3,), read, weights)
        other = rows.mean(0) if contrast is None else rows[contrast]
        total = torch.zeros(3, 1)
        for text, encoding in enumerate(batch.encodings):
            with torch.no_grad():
                logits = task.given(torch.tensor([encoding.ids])).logits[0]
            for g, place in enumerate(read[text].tolist()):
                slope = slopes.gradients[3][g][text]
                if place < 0:
                    assert slopes.answer[text, g] == 0
                    assert not slope.any()
                    continue
                said = logits[place, ids[text, g]] - (logits[place].mean() if contrast is None else logits[place, 20])
                assert slopes.answer[text, g] == pytest.approx(said.item(), abs=1e-4)
                own = through_rms(task.given.model.norm, rows[ids[text, g]] - other, slopes.states[3][text, place])
                torch.testing.assert_close(slope[place], own.detach(), rtol=1e-4, atol=1e-5)
                torch.testing.assert_close(
                    summed.gradients[3][0][text, place], own.detach() * weights[text, 0, g], rtol=1e-4, atol=1e-4
                )
                total[text, 0] += weights[text, 0, g] * said
        torch.testing.assert_close(summed.answer, total, rtol=1e-4, atol=1e-4)
        assert len(summed.gradients[3]) == 1


def test_tags_and_ends_of_answers_rest_on_the_states_where_they_stand():
    texts = [("is it good ?", "the movie is very good"), ("a cat ?", "the cat sat on the mat")]
    for kind, head in (("TokenClassification", "classifier"), ("QuestionAnswering", "qa_outputs")):
        task, batch = made("bert", kind, texts)
        frozen = FrozenModel.of(task)
        run = frozen.run(batch, (3,))
        slopes = frozen.slopes(run, resolve(task, run, ALL), (3,))
        torch.testing.assert_close(slopes.answer, run.logits)
        rows = getattr(task.given, head).weight
        for text in range(2):
            for label in range(2):
                where = run.positions[text] if kind == "TokenClassification" else run.positions[text, label]
                torch.testing.assert_close(slopes.gradients[3][label][text, where], rows[label].detach())


@pytest.mark.parametrize("family", ["bert", "albert", "xlnet", "gpt2"])
def test_its_states_are_the_owners_hidden_states(family):
    task, batch = made(family, "SequenceClassification")
    frozen = FrozenModel.of(task)
    places = (0, 1, 2)
    run = frozen.run(batch, places)
    slopes = frozen.slopes(run, resolve(task, run, ALL), places)
    with torch.no_grad():
        own = task.given(**batch.inputs, output_hidden_states=True)
    for place in places[1:]:
        assert slopes.states[place].shape == own.hidden_states[place].shape
        torch.testing.assert_close(
            batch.real(slopes.states[place]), batch.real(own.hidden_states[place]), rtol=1e-4, atol=1e-4
        )
    torch.testing.assert_close(run.embedded[batch.mask], own.hidden_states[0][batch.mask], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(slopes.states[0], frozen.vectors(batch))
    torch.testing.assert_close(slopes.answer, own.logits, rtol=1e-4, atol=1e-4)
    one = slopes.only(2)
    assert set(one.states) == set(one.gradients) == {2}
    assert one.states[2] is slopes.states[2]
    assert one.gradients[2] is slopes.gradients[2]


def test_other_vectors_take_the_place_of_the_word_embeddings():
    task, batch = made("bert", "SequenceClassification")
    frozen = FrozenModel.of(task)
    half = frozen.vectors(batch) / 2
    run = frozen.run(batch, (0,), half)
    with torch.no_grad(), task.embeddings.given(half, batch.inputs["input_ids"]):
        torch.testing.assert_close(run.logits, task.answer(batch.inputs), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(run.frozen.states[0].detach(), half)


def test_pictures_are_read_where_their_patches_are_embedded():
    task = SignalModel(vit(), None)
    pictures, batch = batch_of(task)
    task.prepare(batch)
    frozen = FrozenModel.of(task)
    run = frozen.run(batch, (0, 2))
    with torch.no_grad():
        own = task.given(torch.stack([p["pixel_values"] for p in pictures]), output_hidden_states=True)
    torch.testing.assert_close(run.logits, own.logits, rtol=1e-4, atol=1e-5)
    slopes = frozen.slopes(run, resolve(task, run, 1), (0, 2))
    torch.testing.assert_close(slopes.states[0], own.hidden_states[0])
    norm, last = task.given.vit.layernorm, slopes.states[2][:, 0]  # (B, H)
    row = task.given.classifier.weight[1] * norm.weight
    wanted = (row - row.mean()) / (last.var(-1, correction=0, keepdim=True) + norm.eps).sqrt()
    torch.testing.assert_close(slopes.gradients[2][0][:, 0], wanted.detach(), rtol=1e-4, atol=1e-5)
    assert slopes.gradients[0][0].abs().sum(-1).all()
    with pytest.raises(UnsupportedModelError, match="ViTForImageClassification reads no word embeddings that others"):
        frozen.vectors(batch)


def test_characters_that_are_hashed_are_read_as_they_are_embedded():
    task = TaskModel(build("token-classification", "canine"), tiny.tokenizer_for("bert"))
    batch = task.batch(task.encoder(["the cat sat on the mat"]), [0])
    task.prepare(batch)
    with torch.no_grad():
        own = task.given(**batch.inputs, output_hidden_states=True)
    run = FrozenModel.of(task).run(batch, (0,))
    torch.testing.assert_close(run.logits[0], own.logits[0, run.positions[0]], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(run.frozen.states[0], own.hidden_states[0])
    with pytest.raises(UnsupportedModelError, match="CanineForTokenClassification reads no word embeddings"):
        FrozenModel.of(task).vectors(batch)


# --- the proof, and what is refused ---------------------------------------------------------------------------------


def test_it_is_proved_at_the_last_token_of_the_first_text_and_over_the_whole_vocabulary(monkeypatch):
    task, batch = made("llama", "CausalLM")
    asked, answer = [], TaskModel.answer
    monkeypatch.setattr(TaskModel, "answer", lambda self, *given: asked.append(given) or answer(self, *given))
    FrozenModel.of(task).run(batch, (0,))
    assert len(asked) == 2, "the model itself, and its frozen form"
    for inputs, place, rows, *_ in asked:
        assert inputs["input_ids"].tolist() == batch.inputs["input_ids"][:1].tolist()
        assert place.tolist() == [len(batch.encodings[0]) - 1], "there is padding behind it"
        assert (rows[0], rows[-1], len(rows)) == (0, tiny.SIZE - 1, 7)


def test_a_model_that_changed_is_proved_anew(monkeypatch):
    proofs, prove = [], FrozenNetwork.prove
    monkeypatch.setattr(FrozenNetwork, "prove", lambda *a, **k: proofs.append(1) or prove(*a, **k))
    task, batch = made("bert", "SequenceClassification")
    for changes in range(2):
        for _ in range(2):
            FrozenModel.of(task).run(batch, (0,))
            assert len(proofs) == changes + 1
        task.given.classifier = torch.nn.Linear(32, 2)
        batch = task.batch(batch.encodings, [0, 1, 2])


@pytest.mark.parametrize("whole", [True, False])
def test_a_model_without_words_is_proved_from_the_call_that_returns_its_embeddings(whole):
    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Linear(2, 2)
            self.embed.forward = lambda x: x + 1 if whole else (x + 1, "more")

        def forward(self, x):
            first = self.embed(x)
            return self.embed(first if whole else first[0])

    inputs, module = {"x": torch.ones(1, 2)}, Twice()
    model = SimpleNamespace(answer=lambda inputs, place, rows, network: network(**inputs))
    own = SimpleNamespace(_embeddings=None, _network=SimpleNamespace(model=module), model=model)
    own._output = lambda layer: LayerOutput("embed", 2, (0, 1, 2)) if layer == 0 else None
    answer, leaf = FrozenModel._from_leaf(own, inputs, None, None)
    answer = answer if whole else answer[0]
    assert leaf.tolist() == answer.tolist() == [[3.0, 3.0]]
    assert torch.autograd.grad(answer.sum(), leaf)[0].tolist() == [[1.0, 1.0]]
    assert not module.embed._forward_hooks, "nothing is left behind"


@pytest.mark.parametrize("place", [0, 2])
def test_a_pass_of_another_kind_has_no_slopes(place):
    task, batch = made("bert", "SequenceClassification")
    with torch.no_grad():
        run = task.run(batch)
    target = resolve(task, run)
    with pytest.raises(ValueError, match="not made by the frozen network"):
        FrozenModel.of(task).slopes(run, target, (place,))
    with pytest.raises(ValueError, match="not made by the frozen network"):
        FrozenModel.of(task).slopes_each(run, target, (place,), torch.zeros(3, 1, dtype=torch.long))


@pytest.mark.parametrize(
    ("place", "field", "said"),
    [(2, "outputs", "the output of layer 2"), (0, "embedding_output", "the embeddings as"), (0, "outputs", None)],
)
def test_a_place_that_no_module_returns_is_named(place, field, said):
    task = SignalModel(vit(), None)
    _, batch = batch_of(task)
    task.prepare(batch)
    frozen = FrozenModel.of(task)
    frozen.run(batch, (0,))
    task.copy.parts = replace(task.copy.parts, **{field: None})
    if said is None:
        assert set(frozen.run(batch, (0,)).frozen.states) == {0}, "the layers are not asked"
    else:
        with pytest.raises(UnsupportedModelError, match=f"no module of ViTForImageClassification returns {said}"):
            frozen.run(batch, (place,))


@pytest.mark.parametrize("family", ["llama", "plain"])
def test_a_long_pass_spares_and_leaves_no_keys_and_values(family, monkeypatch):
    if family == "plain":
        task = TaskModel(plain.grown(plain.Transformer()), tiny.tokenizer(), task="sequence-classification")
        batch = task.batch(task.encoder(TEXTS), [0, 1, 2])
        task.prepare(batch)
    else:
        task, batch = made("llama", "CausalLM")
    frozen, spared, given = FrozenModel.of(task), [], []
    whole = frozen.run(batch, (0,)).logits
    frozen._network.model.register_forward_pre_hook(lambda _, __, kw: given.append(kw), with_kwargs=True)
    monkeypatch.setattr(frozen._network, "sparing", lambda: spared.append(1) or nullcontext())
    for longest, sparing in ((batch.mask.numel(), 0), (batch.mask.numel() - 1, 1)):
        monkeypatch.setattr(frozen_model, "LONG", longest)
        torch.testing.assert_close(frozen.run(batch, (0,)).logits, whole)
        assert len(spared) == sparing
        assert given[-1].get("use_cache") is (False if sparing and family == "llama" else None)
