"""Modules as people write them: what they return, what their forward is called with, and which answer is meant."""

import json

import numpy as np
import pytest
import torch
from torch import nn
from transformers import (
    BertForSequenceClassification,
    LayoutLMConfig,
    LayoutLMForSequenceClassification,
    LayoutLMForTokenClassification,
)

from normxlogit import ALL, Explainer, InputError, UnsupportedModelError, cli
from tests import commands, plain, tiny
from tests.contract.compare import present

TEXT = tiny.TEXTS[2]
METHODS = present("frozen-gradient", "normxlogit", "integrated-gradients", "occlusion")
TASK = {"task": "sequence-classification"}


class Logits(plain.Transformer):
    """Returns logits, and applies `last` to them where a subclass has one."""

    def last(self, logits):
        return logits

    def forward(self, input_ids, attention_mask=None):
        return self.last(super().forward(input_ids, attention_mask))


class Softmax(Logits):
    def last(self, logits):
        return nn.functional.softmax(logits, dim=1)


class LogSoftmax(Logits):
    def last(self, logits):
        return logits.log_softmax(-1)


class Sigmoid(Logits):
    def last(self, logits):
        return torch.sigmoid(logits)


class OneChance(Logits):
    def __init__(self):
        super().__init__(outputs=1)

    def last(self, logits):
        return torch.sigmoid(logits).squeeze(-1)


class ByHand(Logits):
    def last(self, logits):
        powers = logits.exp()
        return powers / powers.sum(-1, keepdim=True)


class OwnBert(BertForSequenceClassification):
    """A user's subclass of a model of transformers, whose forward ends in a softmax."""

    def forward(self, input_ids, attention_mask=None, token_type_ids=None):
        pooled = self.bert(input_ids, attention_mask, token_type_ids).pooler_output
        return self.classifier(pooled).softmax(-1)


def explainer(module, **options):
    labels = {} if isinstance(module, OneChance | OwnBert) else {"labels": plain.LABELS}
    return Explainer(module, tiny.tokenizer(specials=False), **TASK | labels | options)


def answer(module, a):
    ids = torch.tensor([a.token_ids])
    with torch.no_grad():
        return module(ids, torch.ones_like(ids))


# --- what a module returns ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Softmax, Sigmoid, OneChance, ByHand, OwnBert])
def test_the_probability_shown_is_the_modules_own(kind):
    module = plain.grown(OwnBert(tiny.model("bert", num_labels=3).config) if kind is OwnBert else kind())
    e = explainer(module)
    for a in (e(TEXT), *e(tiny.TEXTS), e(TEXT, target=0)):
        own = answer(module, a).flatten()
        assert a.prediction.probability == pytest.approx(own[a.prediction.id].item(), abs=1e-5)
        assert a.prediction.id == int(own.argmax())
        assert any("returns probabilities" in note for note in a.notes)
    verified = e(TEXT, target=0, verify=2).verified
    assert verified.original.value == pytest.approx(answer(module, a).flatten()[0].item(), abs=1e-5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", [Softmax, LogSoftmax, Sigmoid])
def test_a_last_softmax_or_sigmoid_leaves_the_explanation_of_the_logits(kind, method):
    expected = explainer(plain.grown(Logits()))(TEXT, target=ALL, method=method)
    found = explainer(plain.grown(kind()))(TEXT, target=ALL, method=method)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-4, atol=1e-6)


def test_probabilities_without_an_operation_of_torch_are_explained_by_their_logarithms():
    module = plain.grown(ByHand())
    for method in present("integrated-gradients"):
        a = explainer(module)(TEXT, target=1, method=method)
        logarithm = answer(module, a)[0, 1].log().item()
        assert a.scores.sum() + a.bias == pytest.approx(logarithm, abs=1e-4)
    with pytest.raises(UnsupportedModelError):  # the softmax inside would be held as a constant
        explainer(module)(TEXT, method="frozen-gradient")
    assert np.abs(explainer(module)(TEXT).scores).max() > 0


def test_logits_that_lie_between_zero_and_one_are_logits():
    module = plain.grown(Logits())
    with torch.no_grad():
        module.out.weight.mul_(1e-4)
        module.out.bias.copy_(torch.tensor([0.2, 0.3, 0.5]) + 0.01)
    a = explainer(module)(TEXT)
    assert a.prediction.probability == pytest.approx(answer(module, a).softmax(-1).max().item(), abs=1e-6)
    assert not a.notes


@pytest.mark.parametrize(
    ("outputs", "kind", "chance"),
    [
        ("logits", Softmax, lambda own: own.softmax(-1)),
        ("probabilities", Softmax, lambda own: own),
        ("log-probabilities", LogSoftmax, lambda own: own.exp()),
        ("values", Logits, lambda own: None),
    ],
)
def test_outputs_says_what_a_module_returns(outputs, kind, chance):
    module = plain.grown(kind())
    a = explainer(module, outputs=outputs)(TEXT, target="maybe")
    own = answer(module, a)[0]
    if outputs == "values":
        assert (a.prediction.label, a.prediction.probability) == ("maybe", None)
        assert a.prediction.value == pytest.approx(own[2].item(), abs=1e-5)
        return
    assert a.prediction.probability == pytest.approx(chance(own).max().item(), abs=1e-5)
    assert not any("the module returns" in note for note in a.notes)


@pytest.mark.parametrize("outputs", ["probabilities", "log-probabilities"])
def test_outputs_that_the_numbers_cannot_be_are_refused(outputs):
    module = plain.grown(Logits())
    module.out.bias.data += 5
    with pytest.raises(InputError, match="the module returned numbers from"):
        explainer(module, outputs=outputs)


def test_a_single_logit_can_be_said_to_be_one():
    class OneLogit(OneChance):
        def last(self, logits):
            return logits

    module = plain.grown(OneLogit())
    a = explainer(module, outputs="logits")(TEXT)
    assert a.prediction.probability == pytest.approx(answer(module, a).sigmoid().item(), abs=1e-5)
    assert explainer(module)(TEXT).prediction.probability is None


# --- regressions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["joy", "anger", "fear"])
def test_a_regression_shows_the_value_that_is_explained(target):
    names = ["joy", "anger", "fear"]
    model = tiny.model("bert", num_labels=3, problem_type="regression", id2label=dict(enumerate(names)))
    e = Explainer(model, tiny.tokenizer_for("bert"))
    with torch.no_grad():
        values = model(**e.tokenizer(TEXT, return_tensors="pt")).logits[0]
    for a in (e(TEXT, target=target), e(TEXT, target=[target])[target], e(TEXT, target=target, method="normxlogit")):
        assert a.prediction.label == target
        assert a.prediction.value == pytest.approx(values[names.index(target)].item(), abs=1e-4)
        assert f"{target} = " in str(a)
        assert {p.label for p in a.token_predictions or ()} <= {target}
    long = e(" ".join([TEXT] * 12), target=target, long_text="window")
    assert long.prediction.label == target
    other = next(name for name in names if name != target)
    assert f"prediction  {other}" not in str(e(TEXT, target=ALL)[target])


# --- what its forward needs, and which answer is meant: a module around it says so -----------------------------------


class WithFeatures(plain.Transformer):
    """Has other names for ids and mask, reads four numbers beside each text, and answers for a mood and a topic."""

    def __init__(self):
        super().__init__()
        self.head, self.topic = nn.Linear(16 + 4, 3), nn.Linear(16, 5)

    def forward(self, sent_id, mask, features):
        kept = mask[..., None].float()
        pooled = (self.states(sent_id, mask) * kept).sum(1) / kept.sum(1)
        return {"mood": self.head(torch.cat([pooled, features], -1)), "topic": self.topic(pooled)}


class Around(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module
        self.register_buffer("features", torch.zeros(1, 4))

    def forward(self, input_ids, attention_mask):
        return self.module(input_ids, attention_mask, self.features.expand(len(input_ids), -1))["mood"]


@pytest.mark.parametrize("method", METHODS)
def test_a_module_around_another_gives_it_what_its_forward_needs(method):
    around = Around(plain.grown(WithFeatures()))
    e = explainer(around)
    for row in torch.randn(2, 4, generator=torch.Generator().manual_seed(0)):
        around.features.copy_(row)  # what changes in it counts at the next call
        for a in e(tiny.TEXTS, method=method):
            ids = torch.tensor([a.token_ids])
            with torch.no_grad():
                own = around.module(ids, torch.ones_like(ids), row[None])["mood"]
            assert a.prediction.value == pytest.approx(own.max().item(), abs=1e-4)
            if a.bias is not None:
                assert a.scores.sum() + a.bias == pytest.approx(own.max().item(), abs=1e-3)


def test_a_forward_that_needs_something_else_is_refused():
    with pytest.raises(UnsupportedModelError, match=r"needs features, mask: pass a module whose forward"):
        explainer(plain.grown(WithFeatures()))


class TwoTasks(plain.Transformer):
    """Answers for a mood of three and for a topic of five."""

    def __init__(self):
        super().__init__()
        self.topic = nn.Linear(16, 5)

    def forward(self, input_ids, attention_mask=None):
        pooled = self.states(input_ids, attention_mask).mean(1)
        return {"mood": self.out(pooled), "topic": self.topic(pooled)}


def test_one_of_several_answers_is_known_by_its_labels_or_refused():
    module = plain.grown(TwoTasks())
    tokenizer = tiny.tokenizer(specials=False)
    with pytest.raises(UnsupportedModelError, match="pass a module"):
        Explainer(module, tokenizer, **TASK)
    a = Explainer(module, tokenizer, labels=list("abcde"), **TASK)(TEXT)
    with torch.no_grad():
        own = module(torch.tensor([a.token_ids]))["topic"]
    assert a.prediction.value == pytest.approx(own.max().item(), abs=1e-5)


# --- code of a repository's own ----------------------------------------------------------------------------------

OWN_CODE = """
import torch
from transformers import BertConfig, BertModel, PreTrainedModel


class Settings(BertConfig):
    model_type = "of-its-own"


class Moods(PreTrainedModel):
    config_class = Settings

    def __init__(self, config):
        super().__init__(config)
        self.bert, self.classifier = BertModel(config), torch.nn.Linear(config.hidden_size, 2)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, token_type_ids=None):
        return (self.classifier(self.bert(input_ids, attention_mask, token_type_ids).pooler_output).softmax(-1),)
"""


def test_a_repository_with_code_of_its_own_is_explained_on_the_command_line(tmp_path, capsys):
    tiny.save(tmp_path, "bert", num_labels=2)
    (tmp_path / "own.py").write_text(OWN_CODE)
    settings = json.loads((tmp_path / "config.json").read_text())
    names = {"AutoConfig": "own.Settings", "AutoModelForSequenceClassification": "own.Moods"}
    settings |= {"auto_map": names, "model_type": "of-its-own", "architectures": ["Moods"]}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    arguments = ("explain", TEXT, "--model", tmp_path, "--format", "json")
    code, _, err = commands.run(capsys, *arguments, program=cli)
    assert code == 2
    assert "--trust-remote-code" in err
    code, out, _ = commands.run(capsys, *arguments, "--trust-remote-code", program=cli)
    shown = json.loads(out)["attributions"][0]["predictions"][0]
    e = Explainer.from_pretrained(tmp_path, trust_remote_code=True)
    own = answer(e.model, e(TEXT))[0].flatten()
    assert (code, shown["id"]) == (0, int(own.argmax()))
    assert shown["probability"] == pytest.approx(own.max().item(), abs=1e-5)


# --- boxes of words ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", [LayoutLMForSequenceClassification, LayoutLMForTokenClassification])
def test_the_boxes_of_a_tokenised_page_are_read_with_its_tokens(kind, method):
    settings = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
    settings |= {"max_2d_position_embeddings": 100, "pad_token_id": 0}
    config = LayoutLMConfig(vocab_size=tiny.SIZE, num_labels=3, **settings)
    model, tokenizer = plain.grown(kind(config)), tiny.tokenizer_for("bert")
    encoded = tokenizer(tiny.TEXTS, padding=True, return_tensors="pt")
    corners = torch.randint(0, 50, (*encoded.input_ids.shape, 2), generator=torch.Generator().manual_seed(0))
    encoded["bbox"] = torch.cat([corners, corners + 20], -1)
    with torch.no_grad():
        logits = model(**encoded).logits
    e = Explainer(model, tokenizer)
    for row, a in enumerate(e(encoded, method=method)):
        own = logits[row] if logits.ndim == 2 else logits[row, a.target.position]
        assert a.prediction.value == pytest.approx(own.max().item(), abs=1e-4)
        alone = e({name: values[row, : len(a.tokens)] for name, values in encoded.items()}, method=method)[0]
        np.testing.assert_allclose(alone.scores, a.scores, rtol=1e-3, atol=1e-4)
        if a.bias is not None:
            assert a.scores.sum() + a.bias == pytest.approx(own.max().item(), abs=1e-3)


# --- corpora -----------------------------------------------------------------------------------------------------
