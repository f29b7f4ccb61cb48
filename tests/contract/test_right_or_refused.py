"""The numbers are those of the model as it answers now, or there is a typed error that says why.

Weights that were not in the checkpoint, a tokenizer that was not there, code and pickle that nobody asked for, numbers
that are not finite, a model without a head: what is refused. The counterpart, that the answers explained are the
caller's, is in test_own_answers.py and test_formulas.py.
"""

import contextlib
import json
from functools import partial

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertModel

from normxlogit import ALL, Explainer, HeadMismatchError, InputError, NormXLogitError, UnsupportedModelError
from tests import tiny

from .compare import close, every_method, refused

TEXT = tiny.TEXTS[2]


@pytest.fixture
def folder(tmp_path):
    """A folder of a model and its tokenizer."""
    return tiny.save(tmp_path / "model", "bert")


def configure(folder, **changes):
    """Change the configuration that was saved in a folder."""
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def keep_weights(folder, keep):
    """Leave out of a file the weights whose names a function does not accept."""
    file = folder / "model.safetensors"
    save_file({name: value for name, value in load_file(file).items() if keep(name)}, file, {"format": "pt"})


def refuse(folder, message, error=InputError, **options):
    """Load a folder: the command's line for the same is in tests/catalogue."""
    refused(error, message, lambda: Explainer.from_pretrained(folder, **options))


@pytest.mark.parametrize("part", ["classifier", "pooler", "layer.1.attention.self.query.weight", "word_embeddings"])
def test_a_weight_that_is_not_in_the_file_would_be_random(folder, part):
    keep_weights(folder, lambda name: part not in name)
    refuse(folder, f"lacks .*{part}.*: .*allow_missing_weights=True")
    assert len(Explainer.from_pretrained(folder, allow_missing_weights=True)("the cat sat").units) == 5


def test_the_pooler_of_a_classifier_is_a_weight_as_others_are(tmp_path):
    folder = tiny.save(tmp_path / "model", "deberta-v2")
    keep_weights(folder, lambda name: "pooler" not in name)
    refuse(folder, "lacks pooler.dense.bias, pooler.dense.weight: ")


def test_a_configuration_of_a_larger_model_has_no_weights_here(folder):
    configure(folder, architectures=["RobertaForMaskedLM"])
    refuse(folder, r"as a BertForMaskedLM lacks cls.predictions")
    configure(folder, architectures=["BertForSequenceClassification"], num_hidden_layers=5)
    refuse(folder, r"lacks (bert\.encoder\.layer\.3[^,]*, ){5}[^,]* and 26 more: ")


def test_weights_of_other_shapes_would_be_random(folder):
    configure(folder, id2label={str(i): f"L{i}" for i in range(5)}, label2id={f"L{i}": i for i in range(5)})
    refuse(folder, r"has other shapes of classifier.bias.*, classifier.weight")
    allowed = Explainer.from_pretrained(folder, allow_missing_weights=True)
    assert [target.name for target in allowed("the cat", target=ALL).targets] == ["L0", "L1", "L2", "L3", "L4"]


def test_weights_that_the_model_has_no_use_for_change_nothing(folder):
    expected = Explainer.from_pretrained(folder)(TEXT).scores
    more = {"cls.predictions.bias": torch.zeros(9), "layer.9.x": torch.ones(1)}
    file = folder / "model.safetensors"
    save_file(load_file(file) | more, file, {"format": "pt"})
    close(Explainer.from_pretrained(folder)(TEXT).scores, expected)


def test_a_bare_encoder_has_no_head(tmp_path):
    tiny.save(tmp_path, "bert")
    BertModel(tiny.model("bert").config).save_pretrained(tmp_path)
    refuse(tmp_path, r"BertModel is a bare encoder.*BertForSequenceClassification", UnsupportedModelError)
    encoder, tokenizer = tiny.model("bert").bert, tiny.tokenizer_for("bert")
    refused(UnsupportedModelError, "BertForSequenceClassification", lambda: Explainer(encoder, tokenizer))
    layer = torch.nn.Linear(2, 2)
    refused(UnsupportedModelError, "is not of transformers", lambda: Explainer(layer, tokenizer))


@pytest.mark.parametrize(("family", "kind"), [("bert", "SequenceClassification"), ("gpt2", "CausalLM")])
def test_a_folder_without_a_tokenizer(tmp_path, family, kind):
    tiny.model(family, kind).save_pretrained(tmp_path)
    refuse(tmp_path, r"has no tokenizer: its files \(such as tokenizer.json\) are missing")


def test_a_token_id_that_the_model_does_not_have_is_no_row_of_another_table():
    refused(InputError, "token", lambda: Explainer(tiny.model("bert", vocab_size=30), tiny.tokenizer_for("bert"))(TEXT))


def test_pickled_weights_only_when_asked_by_name(folder):
    model = tiny.model("bert")
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    refuse(folder, "allow_pickle=True")
    expected = Explainer(model, tiny.tokenizer_for("bert"))(TEXT).scores
    close(Explainer.from_pretrained(folder, allow_pickle=True)(TEXT).scores, expected)


@pytest.mark.parametrize("kind", ["bert", "of-the-repository"])
def test_code_of_a_repository_runs_only_when_asked_by_name(folder, tmp_path, kind):
    ran = tmp_path / "ran"
    (folder / "own.py").write_text(
        f"open({str(ran)!r}, 'w').close()\n"
        "from transformers import BertConfig, BertForSequenceClassification\n"
        "class Config(BertConfig): pass\n"
        "class Model(BertForSequenceClassification): config_class = Config\n"
    )
    classes = {"AutoConfig": "own.Config", "AutoModelForSequenceClassification": "own.Model"}
    configure(folder, model_type=kind, auto_map=classes)
    try:
        Explainer.from_pretrained(folder)
    except InputError:
        assert kind != "bert", "whose code transformers has"
    assert not ran.exists()
    with contextlib.suppress(Exception):  # whatever it makes of it
        Explainer.from_pretrained(folder, trust_remote_code=True)
    assert ran.exists()


def test_a_class_of_the_repositorys_own_is_explained_as_it_answers(folder):
    (folder / "own.py").write_text(
        "import torch\n"
        "from transformers import BertConfig, BertModel, PreTrainedModel\n"
        "class Config(BertConfig): model_type = 'of-the-repository'\n"
        "class Model(PreTrainedModel):\n"
        "    config_class = Config\n"
        "    def __init__(self, config):\n"
        "        super().__init__(config)\n"
        "        self.bert, self.classifier = BertModel(config), torch.nn.Linear(config.hidden_size, 2)\n"
        "        self.post_init()\n"
        "    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, **_):\n"
        "        output = self.bert(input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)\n"
        "        return {'logits': self.classifier(output.pooler_output)}\n"
    )
    classes = {"AutoConfig": "own.Config", "AutoModelForSequenceClassification": "own.Model"}
    configure(folder, model_type="of-the-repository", auto_map=classes, architectures=["Model"])
    own = Explainer.from_pretrained(folder, trust_remote_code=True)
    expected = Explainer(tiny.model("bert"), tiny.tokenizer_for("bert"))(TEXT, method="frozen-gradient:read_at=0")
    close(own(TEXT, method="frozen-gradient:read_at=0").scores, expected.scores)
    close(own(TEXT).prediction.value, expected.prediction.value)


@pytest.mark.parametrize(("family", "kind"), [("bert", "SequenceClassification"), ("llama", "CausalLM")])
@pytest.mark.parametrize("first", [True, False])
def test_nan_is_an_error_that_says_where_it_began(family, kind, first):
    model = tiny.model(family, kind)
    explainer = Explainer(model, tiny.tokenizer_for(family))
    if not first:
        explainer(TEXT)
    layer = [path for path, _ in model.named_modules() if path.endswith(("mlp.up_proj", "output.dense"))]
    model.get_submodule(layer[1]).weight.data[0, 0] = torch.nan
    message = rf"first in what {layer[1]} returns, whose weight is not finite"
    refused(UnsupportedModelError, message, lambda: explainer(TEXT))


def test_overflow_is_an_error_that_says_where_it_began():
    model = tiny.model("bert")
    model.bert.encoder.layer[1].output.register_forward_hook(lambda _, __, output: output * torch.inf)
    with pytest.raises(UnsupportedModelError, match=r"first in what bert\.encoder\.layer\.1\.output returns; load"):
        Explainer(model, tiny.tokenizer_for("bert"))(TEXT)


@every_method
def test_no_method_returns_nan(method):
    model = tiny.model("bert")
    model.bert.encoder.layer[1].output.dense.weight.data[0, 0] = torch.nan
    refused(NormXLogitError, r"finite|NaN", lambda: Explainer(model, tiny.tokenizer_for("bert"))(TEXT, method=method))


def test_no_generation_is_explained_with_nan():
    model = tiny.model("llama", "CausalLM")
    model.model.layers[1].mlp.up_proj.weight.data[0, 0] = torch.nan
    explainer = Explainer(model, tiny.tokenizer_for("llama"))
    calls = partial(explainer.generate, TEXT, max_new_tokens=2), partial(explainer.explain_completion, TEXT, " bad")
    refused(NormXLogitError, r"finite|NaN|nan", *calls)


def test_one_text_with_nan_is_an_error_and_the_others_alone_are_right():
    """The embedding of one word is not finite: texts without it are explained as ever."""
    model, tokenizer = tiny.model("bert"), tiny.tokenizer_for("bert")
    expected = Explainer(model, tokenizer)("the cat sat").scores
    model.get_input_embeddings().weight.data[tiny.VOCABULARY["bad"], 0] = torch.nan
    explainer = Explainer(model, tokenizer)
    for inputs in ("bad", ["the cat sat", "bad"], ["bad", "the cat sat"]):
        refused(UnsupportedModelError, "finite", partial(explainer, inputs))
    close(explainer("the cat sat").scores, expected)


def test_a_model_that_draws_its_answer_is_refused():
    model = tiny.model("bert")
    model.classifier.register_forward_hook(lambda _, __, output: output + torch.rand_like(output))
    with pytest.raises((HeadMismatchError, UnsupportedModelError)):
        Explainer(model, tiny.tokenizer_for("bert"))(TEXT)


@pytest.mark.parametrize(("family", "kind"), [("bert", "SequenceClassification"), ("gpt2", "CausalLM")])
def test_a_model_that_answers_otherwise_with_gradients_is_refused_where_they_are_taken(family, kind):
    """As modules do that are trained with one function and used with another; without gradients all is right."""
    model, tokenizer = tiny.model(family, kind), tiny.tokenizer_for(family)
    expected = Explainer(model, tokenizer)(TEXT, method="normxlogit").scores
    layer = next(module for path, module in model.named_modules() if path.endswith(("layer.1", "h.1")))
    layer.register_forward_pre_hook(lambda _, args: (args[0] * (1.5 if torch.is_grad_enabled() else 1.0), *args[1:]))
    explainer = Explainer(model, tokenizer)
    close(explainer(TEXT, method="normxlogit").scores, expected)
    message = "gives another answer than the model"
    refused(UnsupportedModelError, message, lambda: explainer(TEXT, method="frozen-gradient"))
