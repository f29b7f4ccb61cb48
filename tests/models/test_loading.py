"""What loading asks of transformers, which names it refuses, and what it says: each rule by itself."""

from types import SimpleNamespace

import pytest
import torch
import transformers

from normxlogit import InputError, UnsupportedModelError
from normxlogit.models import loading
from normxlogit.models.loading import load

from .test_checkpoints import configured, saved


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    saved(path, "bert", "SequenceClassification")
    return path


@pytest.fixture
def asked(monkeypatch):
    """Note what each class of transformers is asked for."""
    seen = {}
    for name in ("AutoConfig", "AutoTokenizer", "AutoModelForSequenceClassification"):
        own = getattr(transformers, name).from_pretrained

        def noted(*given, own=own, name=name, **options):
            seen.setdefault(name, options)  # later ones are its own
            return own(*given, **{key: value for key, value in options.items() if key not in ("token", "revision")})

        monkeypatch.setattr(f"transformers.{name}.from_pretrained", noted)
    return seen


def test_what_transformers_is_asked_for(folder, asked):
    model, _ = load(folder)
    assert not model.training
    assert asked["AutoConfig"] == asked["AutoTokenizer"] == {"trust_remote_code": False}
    assert asked["AutoModelForSequenceClassification"] == {
        "dtype": "auto",
        "trust_remote_code": False,
        "use_safetensors": True,
        "ignore_mismatched_sizes": True,
        "output_loading_info": True,
    }
    asked.clear()
    load(folder, trust_remote_code=True, allow_pickle=True, revision="r", token="t", attn_implementation="eager")
    assert asked["AutoConfig"] == asked["AutoTokenizer"] == {"trust_remote_code": True, "revision": "r", "token": "t"}
    given = asked["AutoModelForSequenceClassification"]
    assert (given["trust_remote_code"], given["attn_implementation"], given["revision"]) == (True, "eager", "r")
    assert "use_safetensors" not in given
    asked.clear()
    load(folder, use_safetensors=None)
    assert asked["AutoModelForSequenceClassification"]["use_safetensors"] is None, "as the caller says"


def test_half_precision_becomes_full_on_a_cpu_and_nowhere_else(tmp_path, asked):
    saved(tmp_path, "bert", "SequenceClassification")
    for named, options, wanted in [
        ("float16", {}, torch.float32),
        ("float16", {"device": "cpu"}, torch.float32),
        ("float16", {"device": "meta"}, "auto"),
        ("bfloat16", {}, "auto"),
        ("float16", {"dtype": "auto"}, "auto"),
        ("float16", {"dtype": "float64"}, "float64"),
        ("float16", {"dtype": torch.bfloat16}, torch.bfloat16),
        ("float16", {"device_map": "cpu"}, "auto"),
    ]:
        configured(tmp_path, dtype=named)
        asked.clear()
        model, _ = load(tmp_path, **options)
        assert asked["AutoModelForSequenceClassification"]["dtype"] == wanted
        assert model.device.type == options.get("device", "cpu")


def test_a_package_that_is_not_there_is_missed(tmp_path, monkeypatch):
    assert loading._installed("torch")
    assert not loading._installed("no_such_package")
    assert not loading._installed("no_such_package.part")
    error = ValueError("needs SentencePiece")
    monkeypatch.setattr(loading, "_installed", lambda name: name != "google.protobuf")
    assert loading.sentencepiece_remedy(ValueError("else"), "owner/name") is None
    assert "normxlogit[sentencepiece]" in loading.sentencepiece_remedy(error, "owner/name")
    assert loading.sentencepiece_remedy(error, tmp_path) is None, "a folder that has no such file"
    (tmp_path / "spm.model").touch()
    assert loading.sentencepiece_remedy(error, tmp_path)
    monkeypatch.setattr(loading, "_installed", lambda name: True)
    assert loading.sentencepiece_remedy(error, tmp_path) is None


def test_fewer_layers_may_be_asked_for_by_a_configuration(folder):
    config = transformers.AutoConfig.from_pretrained(folder, num_hidden_layers=2)
    assert load(folder, config=config)[0].config.num_hidden_layers == 2


# --- weights --------------------------------------------------------------------------------------------------------


def test_a_tokenizer_that_knows_nothing_but_special_tokens():
    def made(*names):
        return SimpleNamespace(get_vocab=lambda: dict.fromkeys(names), all_special_tokens=["[A]", "[B]"])

    loading._check_tokenizer("m", made("[A]", "word"))
    for names in ((), ("[A]",), ("[A]", "[B]")):
        with pytest.raises(InputError, match="m has no tokenizer"):
            loading._check_tokenizer("m", made(*names))


# --- the task -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("architectures", "kind", "gguf", "found"),
    [
        (["BertForMaskedLM"], "bert", False, "masked-lm"),
        ([5, "Unknown", "BertForMaskedLM", "LlamaForCausalLM"], "bert", False, "masked-lm"),
        (None, "llama", True, "causal-lm"),
        (None, "llama", False, "m does not say which head it has; pass task="),
        ("LlamaForCausalLM", "llama", False, "does not say which head"),
        ([], "distilbert", True, "does not say which head"),
        ([5], "bert", False, "does not say which head"),
        (["Unknown", "Other"], "bert", False, "m: Unknown has no head of a supported kind"),
    ],
)
def test_the_task_that_a_configuration_declares(architectures, kind, gguf, found):
    config = SimpleNamespace(architectures=architectures, model_type=kind)
    if " " not in found:
        assert loading._declared_task("m", config, gguf=gguf) == found
        return
    with pytest.raises(UnsupportedModelError, match=found):
        loading._declared_task("m", config, gguf=gguf)


def test_a_bare_trunk_beside_which_a_pooling_is_written_embeds(monkeypatch):
    config = SimpleNamespace(architectures=["BertModel"], model_type="bert")
    for there in (True, False):
        monkeypatch.setattr(loading, "is_embedding_folder", lambda source, there=there: there)
        if there:
            assert loading._declared_task("m", config, gguf=False) == "embedding"
        else:
            with pytest.raises(UnsupportedModelError, match="m: BertModel is a bare encoder"):
                loading._declared_task("m", config, gguf=False)
