"""What differs between versions of transformers and torch stands in one file, and works in the older form, too."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.models.auto import modeling_auto

from normxlogit import Explainer, InputError, compat
from tests import tiny

SOURCE = Path(compat.__file__).parent
ASKS = re.compile(
    r"is_(?:torch|transformers)\w*_version|packaging|\bVersion\(|hasattr\((?:torch|transformers)\b|"
    r"(?:torch|transformers)\.__version__ *[<>=!]|except (?:Import|Attribute)Error.*transformers"
)


NAMES_ONE = re.compile(r"(?:transformers|torch|before|since|after|until|up to|of) v?(?:4\.5\d|5\.\d+|2\.\d+)\b", re.I)
"""A comment that says what one version of transformers or torch does."""


@pytest.mark.parametrize("pattern", [ASKS, NAMES_ONE])
def test_nothing_else_asks_for_a_version_or_knows_what_one_does(pattern):
    shown = SOURCE / "cli" / "installation.py"  # `normxlogit doctor` shows versions, and nothing depends on them
    files = [path for path in SOURCE.rglob("*.py") if path not in (Path(compat.__file__), shown)]
    assert [str(path) for path in files if pattern.search(path.read_text())] == []
    assert pattern.search((SOURCE / "compat.py").read_text())


def test_an_auto_class_that_an_older_transformers_lacks_is_the_one_before(monkeypatch):
    older = SimpleNamespace(AutoModelForSeq2SeqLM=transformers.AutoModelForSeq2SeqLM)
    with monkeypatch.context() as patched:
        patched.setattr(compat, "transformers", older)
        assert compat.auto_class("AutoModelForMultimodalLM") is transformers.AutoModelForSeq2SeqLM
    assert compat.auto_class("AutoModelForCausalLM") is transformers.AutoModelForCausalLM


def test_a_mapping_that_an_older_transformers_lacks_holds_no_classes(monkeypatch):
    monkeypatch.delattr(modeling_auto, "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES", raising=False)
    assert not compat.classes_in("MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES")
    assert "LlamaForCausalLM" in compat.classes_in("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES")


@pytest.mark.parametrize("kind", [None, "cuda", "mps"])
def test_a_torch_without_a_name_for_accelerators_has_those_of_its_back_ends(monkeypatch, kind):
    monkeypatch.delattr(torch, "accelerator", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: kind == "cuda")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: kind == "mps")
    assert compat.accelerator() == (None if kind is None else torch.device(kind))


def test_a_model_that_was_asked_for_hidden_states_is_explained_and_pickled_alike():
    explainer = tiny.explainer("llama", "CausalLM")
    before = explainer.generate("the movie is", max_new_tokens=2).scores
    explainer.model(torch.tensor([[5, 6, 7]]), output_hidden_states=True)
    assert (explainer.generate("the movie is", max_new_tokens=2).scores == before).all()


def test_types_of_tokens_are_for_models_that_take_them():
    """DistilBERT takes none; with 4.57 its own forward refuses them, with 5.5 it ignores them."""
    model, text = tiny.model("distilbert"), "the movie is not good"
    with_types = Explainer(model, tiny.tokenizer_for("bert"))
    assert (with_types(text).scores == Explainer(model, tiny.tokenizer_for("distilbert"))(text).scores).all()


def test_weights_of_other_shapes_are_named_as_old_and_new_versions_list_them():
    assert compat.other_shapes({"mismatched_keys": ["head.weight"]}) == {"head.weight": "head.weight"}
    shapes = [("head.weight", (3, 4), (2, 4))]
    assert compat.other_shapes({"mismatched_keys": shapes}) == {"head.weight": "head.weight (3, 4) for (2, 4)"}


class OlderAttention(torch.nn.Module):
    """As in transformers 4.57 and before: it returns probabilities where it is asked for them."""

    def forward(self, states, mask=None, output_attentions=False):
        raise NotImplementedError


class NewerAttention(torch.nn.Module):
    """As in transformers 5.0 and later."""

    def forward(self, states, mask=None, **kwargs):
        raise NotImplementedError


def test_an_attention_is_asked_for_its_probabilities_where_it_must_be():
    assert compat.request_for_probabilities(OlderAttention()) == {"output_attentions": True}
    assert compat.request_for_probabilities(NewerAttention()) == {}


def test_hidden_states_are_read_behind_the_probabilities_that_some_layers_return_first():
    states, probabilities = torch.zeros(1, 7, 32), torch.zeros(1, 4, 7, 7)
    assert compat.without_probabilities((probabilities, states)) == (states,)
    assert compat.without_probabilities((states, probabilities)) == (states, probabilities)
    assert compat.without_probabilities(states) is states


def test_a_cache_is_passed_by_the_name_that_the_model_has_for_it():
    class Older(torch.nn.Module):
        def forward(self, input_ids, past_key_values=None):
            raise NotImplementedError

    class Newer(torch.nn.Module):
        def forward(self, input_ids, cache=None):
            raise NotImplementedError

    assert (compat.cache_argument(Older()), compat.cache_argument(Newer())) == ("past_key_values", "cache")


def test_a_response_template_is_read_where_the_tokenizer_can():
    declares = {"response_template": {"fields": {}}}

    def newer(response, prefix=None):
        raise NotImplementedError

    def older(response):
        raise NotImplementedError

    assert not compat.parses_responses(SimpleNamespace(**declares))
    assert not compat.parses_responses(SimpleNamespace(**declares, parse_response=older))
    assert compat.parses_responses(SimpleNamespace(**declares, parse_response=newer))
    assert not compat.parses_responses(SimpleNamespace(response_template=None, parse_response=newer))


def test_defaults_of_a_pipeline_are_its_own_or_those_of_the_models_configuration():
    config = transformers.GenerationConfig(max_new_tokens=7)
    older, newer = SimpleNamespace(generation_config=config), SimpleNamespace(_generation_defaults={"do_sample": True})
    assert compat.generation_defaults(older)["max_new_tokens"] == 7
    assert compat.generation_defaults(newer) == {"do_sample": True}
    assert compat.generation_defaults(SimpleNamespace()) == {}


def raised(error):
    def load(*args, **kwargs):
        raise error

    return load


@pytest.mark.parametrize(
    ("loader", "error", "advice"),
    [
        ("AutoModelForSequenceClassification", NameError("name 'init_empty_weights' is not defined"), "accelerate"),
        ("AutoTokenizer", TypeError("expected str, not NoneType"), "has no tokenizer"),
        ("AutoTokenizer", OSError("Can't load tokenizer for 'it'. If you were"), "has no tokenizer"),
    ],
)
def test_what_older_versions_lack_is_said_instead_of_how_they_fail(tmp_path, monkeypatch, loader, error, advice):
    tiny.save(tmp_path, "distilbert")
    monkeypatch.setattr(getattr(transformers, loader), "from_pretrained", raised(error))
    with pytest.raises(InputError, match=advice) as caught:
        Explainer.from_pretrained(tmp_path, device="cpu")
    assert str(error) not in str(caught.value)


def test_weights_are_loaded_in_the_type_that_was_asked_for(tmp_path):
    tiny.save(tmp_path, "distilbert")
    explainer = Explainer.from_pretrained(tmp_path, dtype=torch.float64, device="cpu")
    assert explainer.model.dtype == torch.float64


@pytest.mark.parametrize("name", ["dtype", "torch_dtype"])
def test_half_precision_is_not_computed_on_a_cpu_whichever_version_saved_it(tmp_path, name):
    """4.51 reads `dtype`, which newer versions write, as a text."""
    tiny.save(tmp_path, "distilbert")
    config = json.loads((tmp_path / "config.json").read_text())
    config = {key: value for key, value in config.items() if key not in ("dtype", "torch_dtype")}
    (tmp_path / "config.json").write_text(json.dumps(config | {name: "float16"}))
    weights = {key: value.half() for key, value in load_file(tmp_path / "model.safetensors").items()}
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    assert Explainer.from_pretrained(tmp_path, device="cpu").model.dtype == torch.float32
