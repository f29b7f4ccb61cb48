"""What loading asks of transformers, which names it refuses, and what it says: each rule by itself."""

import errno
from types import SimpleNamespace

import pytest
import torch
import transformers

from normxlogit import InputError, UnsupportedModelError
from normxlogit.models import loading
from normxlogit.models.loading import load
from tests import tiny

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


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "'' is not a name of a model"),
        (" ", "' ' is not a name of a model"),
        ("a\0b", "is not a name of a model"),
        ("./nowhere", "no such model folder"),
        ("/nowhere", "no such model folder"),
        ("a/b/c", "no such model folder"),
        ("~/nowhere", "/nowhere: no such model folder"),
        (__file__, "no such model folder"),
    ],
)
def test_names_of_nothing(name, said):
    with pytest.raises(InputError, match=said):
        loading._source(name)
    assert loading._source(None) == str(loading.default_model_folder())
    assert loading._source("owner/name") == "owner/name"


def test_a_name_that_no_file_can_have(monkeypatch):
    def exists(_):
        raise OSError(errno.ENAMETOOLONG, "File name too long")

    monkeypatch.setattr(loading.Path, "exists", exists)
    with pytest.raises(InputError, match=r"is not a name of a model: File name too long$"):
        loading._source("x" * 5000)


@pytest.mark.parametrize(
    ("message", "line"),
    [("one\ntwo", "one"), (" one:\n two\nthree", "one: two"), ("", "ValueError"), ("one: 1\ntwo", "one: 1")],
)
def test_an_error_is_told_in_its_first_line(message, line):
    assert loading._first_line(ValueError(message)) == line


def test_what_is_said_of_an_error(tmp_path):
    def cause(error, part="the model", source=str(tmp_path)):
        return loading._cause(error, source, part)

    assert cause(ValueError("x")).startswith(
        "the model cannot be read, a file is missing, broken or of another version"
    )
    assert cause(OSError("x\ny")) == cause(ImportError("x\ny")) == "x"
    assert cause(ImportError("needs GGUF")) == "GGUF files need the package gguf; run: pip install gguf"
    assert cause(ValueError("gguf")).startswith("the model cannot be read")
    tokenizer = "its tokenizer cannot be read: there is no tokenizer.json"
    assert cause(ImportError("x"), "its tokenizer").startswith(tokenizer)
    assert not cause(OSError("x"), "its tokenizer").startswith(tokenizer)
    (tmp_path / "tokenizer.json").touch()
    assert cause(ImportError("x"), "its tokenizer") == "x"
    pickled = "; allow_pickle=True would read weights that are not safetensors"
    assert cause(OSError("no model.safetensors")) == "no model.safetensors"
    assert cause(OSError("no model.safetensors"), source="owner/name").endswith(pickled)
    (tmp_path / "pytorch_model.bin").touch()
    assert cause(OSError("no model.safetensors")).endswith(pickled)
    assert cause(OSError("no weights")) == "no weights"


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


def test_the_first_broken_file_is_named(tmp_path):
    assert loading._broken_file(str(tmp_path / "nowhere")) is None
    for name in ("a.txt", "b.md"):
        (tmp_path / name).touch()
    (tmp_path / "c.json").write_text("{}")
    assert loading._broken_file(str(tmp_path)) is None, "an empty text may be meant"
    (tmp_path / "d.txt").write_text("version https://git-lfs.github.com/spec/v1")
    assert loading._broken_file(str(tmp_path)).startswith("d.txt is a pointer of Git LFS")
    (tmp_path / "a.model").touch()
    assert loading._broken_file(str(tmp_path)) == "a.model is empty; download it again"


def test_fewer_layers_may_be_asked_for_by_a_configuration(folder):
    config = transformers.AutoConfig.from_pretrained(folder, num_hidden_layers=2)
    assert load(folder, config=config)[0].config.num_hidden_layers == 2


# --- weights --------------------------------------------------------------------------------------------------------


def holding(*names):
    return SimpleNamespace(state_dict=lambda: dict.fromkeys(names))


def test_a_list_of_weights_is_cut():
    assert loading._some(["a"]) == "a"
    assert loading._some(list("abcdef")) == "a, b, c, d, e, f"
    assert loading._some(list("abcdefgh")) == "a, b, c, d, e, f and 2 more"


@pytest.mark.parametrize(
    ("unused", "beyond"),
    [
        (["h.0.x", "h.1.x"], None),
        (["h.2.x"], r"h\.2\.x\)"),
        (["h.10.x", "h.2.x"], r"h\.10\.x, h\.2\.x\)"),
        (["other.9", "h.9.y"], None),
        (["e.0.3.x"], r"e\.0\.3\.x"),
        (["e.1.2.x"], None),
        ([], None),
        (None, None),
    ],
)
def test_layers_that_the_configuration_does_not_count(unused, beyond):
    model = holding("h.0.x", "h.1.x", "e.1.0.x", "e.0.2.x", "y")
    if beyond is None:
        loading._check_layers("m", model, {"unexpected_keys": unused})
        return
    with pytest.raises(InputError, match=rf"m holds more layers than its configuration counts \({beyond}"):
        loading._check_layers("m", model, {"unexpected_keys": unused})


def test_weights_that_are_not_there():
    whole = {"missing_keys": [], "mismatched_keys": []}
    model, bare = torch.nn.Linear(1, 1), tiny.model("bert").bert
    loading._check_weights("m", model, whole)
    loading._check_weights("m", bare, whole | {"missing_keys": ["pooler.dense.weight"]})
    for given, info, said in [
        (model, {"missing_keys": ["pooler.w"]}, "m as a Linear lacks pooler.w: its answers"),
        (bare, {"missing_keys": ["x", "pooler.w"]}, "m as a BertModel lacks x: its"),
        (
            model,
            {
                "missing_keys": ["b", "a"],
                "mismatched_keys": [("k", (2,), torch.Size([5]))],
                "error_msgs": ["e", "d", "e"],
            },
            r"lacks a, b and has other shapes of k \(2,\) for \(5,\) and cannot give d, e: ",
        ),
        (model, {"conversion_errors": {"k": 1}}, "cannot give k: "),
    ]:
        with pytest.raises(InputError, match=said):
            loading._check_weights("m", given, whole | info)


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
