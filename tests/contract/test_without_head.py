"""Models whose head cannot be applied by itself: what needs the logits only explains them all the same."""

import numpy as np
import pytest
import torch
import transformers
from transformers.modeling_outputs import MaskedLMOutput, SequenceClassifierOutput

from normxlogit import Explainer, HeadMismatchError, UnsupportedModelError
from tests import plain, tiny
from tests.contract.compare import present, refused

TEXTS = ["the cat is on the mat", "a dog"]


class TwoLayers(transformers.BertForSequenceClassification):
    """Its head reads two layers at once."""

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, inputs_embeds=None, **options):
        options |= {"output_hidden_states": True, "inputs_embeds": inputs_embeds}
        outputs = self.bert(input_ids, attention_mask, token_type_ids, **options)
        first, last = outputs.hidden_states[1][:, 0], outputs.hidden_states[-1][:, 0]
        return SequenceClassifierOutput(
            logits=self.classifier(torch.cat((first[:, :16], last[:, 16:]), -1)), hidden_states=outputs.hidden_states
        )


class Centred(transformers.BertForMaskedLM):
    """A token's logits depend on the other tokens."""

    def forward(self, *args, **options):
        outputs = super().forward(*args, **options)
        logits = outputs.logits - outputs.logits.mean(1, keepdim=True)
        return MaskedLMOutput(logits=logits, hidden_states=outputs.hidden_states)


class Skipping(plain.Transformer):
    """A plain module whose head reads its first and its last block."""

    def forward(self, input_ids, attention_mask):
        x, seen = self.embed(input_ids), []
        for block in self.blocks:
            x = block(x, attention_mask == 0)
            seen.append(x)
        there = attention_mask[..., None].to(x.dtype)
        return self.out(((seen[0] + seen[-1].tanh()) * there).sum(1) / there.sum(1))


def bert(kind, head):
    model = tiny.model("bert", head)
    model.__class__ = kind
    return model


def classifier():
    return bert(TwoLayers, "SequenceClassification"), {}


def module():
    return plain.grown(Skipping()), {"task": "sequence-classification", "labels": plain.LABELS}


def logits(model, ids):
    with torch.no_grad():
        found = model(input_ids=ids, attention_mask=torch.ones_like(ids))
    return (found if isinstance(found, torch.Tensor) else found.logits)[0]


def masked(ids, place):
    changed = ids.clone()
    changed[0, place] = tiny.VOCABULARY["[MASK]"]
    return changed


@pytest.fixture(params=[classifier, module])
def case(request):
    model, options = request.param()
    tokenizer = tiny.tokenizer_for("bert")
    return model, tokenizer, Explainer(model, tokenizer, **options)


def test_the_head_is_missing_and_its_methods_say_what_would_do(case):
    for layers in ({}, {"layers": 1}):
        with pytest.raises(HeadMismatchError, match=r"occlusion.* the model's logits only"):
            case[2](TEXTS[0], method="normxlogit", **layers)


def test_occlusion_is_what_the_answer_loses(case):
    model, tokenizer, explainer = case
    for text, result in zip(TEXTS, explainer(TEXTS, method="occlusion", target=1), strict=True):
        ids = tokenizer(text, return_tensors="pt").input_ids
        whole = logits(model, ids)
        assert result.prediction.id == int(whole.argmax())
        for place in range(1, ids.shape[1] - 1):
            other = logits(model, masked(ids, place))
            assert result.scores[place] == pytest.approx(float(whole[1] - other[1]), abs=1e-5)


@pytest.mark.parametrize(
    "method", present("integrated-gradients", "gradient-x-input", "gradient-norm", "frozen-gradient")
)
def test_gradients_need_no_head(case, method):
    model, tokenizer, explainer = case
    result = explainer(TEXTS[1], method=method, target=1)  # no token stands twice
    ids = tokenizer(TEXTS[1], return_tensors="pt").input_ids
    answer = float(logits(model, ids)[1])
    table = model.get_input_embeddings() if hasattr(model, "bert") else model.words
    if method == "frozen-gradient":
        assert result.scores.sum() + result.bias == pytest.approx(answer, abs=1e-4)
        return
    if method == "integrated-gradients":
        handle = table.register_forward_hook(lambda _, __, output: output * 0)
        nothing = float(logits(model, ids)[1])
        handle.remove()
        assert result.scores.sum() == pytest.approx(answer - nothing, abs=1e-3)
        return
    weight = table.weight
    found = model(input_ids=ids, attention_mask=torch.ones_like(ids))
    (slopes,) = torch.autograd.grad((found if isinstance(found, torch.Tensor) else found.logits)[0, 1], weight)
    size = slopes.abs() if method == "gradient-norm" else slopes * weight.detach()
    np.testing.assert_allclose(result.scores, size.sum(-1)[ids[0]], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("method", present("lime:samples=30", "kernel-shap:samples=30", "random", "input-norm"))
def test_every_method_that_asks_for_answers_or_embeddings_runs(case, method):
    model, _, explainer = case
    alone = explainer(TEXTS[0], method=method)
    both = explainer(TEXTS, method=method)
    np.testing.assert_allclose(alone.scores, both[0].scores, atol=1e-4)
    assert alone.token_predictions is None
    assert np.isfinite(both[1].scores).all()
    assert model.training is False


def test_the_frozen_gradient_reads_layers_that_the_model_gives():
    model, _ = classifier()
    explainer = Explainer(model, tiny.tokenizer_for("bert"))
    for read_at in (0, 1, "middle", "all"):
        result = explainer(TEXTS[0], method=f"frozen-gradient:read_at={read_at}")
        assert result.scores.sum() + result.bias == pytest.approx(result.prediction.value, abs=1e-4)


def test_a_masked_language_model_without_a_head_for_one_token():
    tokenizer = tiny.tokenizer_for("bert")
    model = bert(Centred, "MaskedLM")
    explainer = Explainer(model, tokenizer)
    text = "the cat is on [MASK] mat"
    ids = tokenizer(text, return_tensors="pt").input_ids
    place = ids[0].tolist().index(tokenizer.mask_token_id)
    whole = logits(model, ids)[place]
    refused(HeadMismatchError, "depend on other tokens", lambda: explainer(text, method="normxlogit"))
    result = explainer([text, "a [MASK]"], method="occlusion", target=9, contrast=11)[0]
    assert result.prediction.id == int(whole.argmax())
    other = logits(model, masked(ids, 2))[place]
    assert result.scores[2] == pytest.approx(float((whole[9] - whole[11]) - (other[9] - other[11])), abs=1e-5)
    frozen = explainer(text, method="frozen-gradient", target=9)
    assert frozen.scores.sum() + frozen.bias == pytest.approx(float(whole[9] - whole.mean()), abs=1e-4)


def test_what_is_checked_of_answers_is_checked_without_a_head():
    model, _ = classifier()
    model.classifier.register_forward_hook(lambda _, __, output: output - output.mean(0) * (len(output) > 1))
    with pytest.raises(UnsupportedModelError, match="beside another one"):
        Explainer(model, tiny.tokenizer_for("bert"))(TEXTS[0], method="occlusion")
    model, _ = classifier()
    model.classifier.register_forward_hook(lambda _, __, output: output + torch.rand(()))
    with pytest.raises(UnsupportedModelError, match="differently each time"):
        Explainer(model, tiny.tokenizer_for("bert"))(TEXTS[0], method="occlusion")
