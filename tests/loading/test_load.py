"""Which names are read as folders, what is passed to transformers, and what is said of an error."""

import json
import shutil
from types import SimpleNamespace

import pytest
import torch
import transformers
from torch import nn

from normxlogit import InputError, UnsupportedModelError
from normxlogit.loading import load as loading
from normxlogit.loading import load_errors
from normxlogit.loading.load import default_model_folder, device_named, load, task_of_loaded
from normxlogit.loading.load_errors import sentencepiece_remedy
from tests import plain, tiny
from tests.contract.test_right_or_refused import configure


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.save(tmp_path_factory.mktemp("models") / "bert", "bert")


@pytest.fixture
def copied(folder, tmp_path):
    """A copy of the folder that a test may change."""
    return shutil.copytree(folder, tmp_path / "copied")


@pytest.fixture
def passed(monkeypatch):
    """What `from_pretrained` of models is called with, by the name of the class; the model is a tiny one."""
    calls = {}

    def record(name):
        def from_pretrained(source, **options):
            calls[name] = {"source": source, **options}
            model = tiny.model("gpt2" if name.endswith("CausalLM") else "bert", name.removeprefix("AutoModelFor"))
            return model, {"missing_keys": [], "mismatched_keys": []}

        monkeypatch.setattr(f"transformers.{name}.from_pretrained", from_pretrained)

    for kind in ("SequenceClassification", "TokenClassification", "MaskedLM", "CausalLM"):
        record(f"AutoModelFor{kind}")
    return calls


def test_a_model_is_loaded_with_its_tokenizer_ready_to_answer(folder):
    for given in (folder, str(folder)):
        model, tokenizer = load(given, device="cpu")
        assert type(model) is transformers.BertForSequenceClassification
        assert not model.training
        assert tokenizer("the cat").input_ids == tiny.tokenizer_for("bert")("the cat").input_ids
    model, _ = load(device="cpu")
    assert model.config.name_or_path == str(default_model_folder())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "is not a name of a model"),
        ("  ", "is not a name of a model"),
        ("a\0b", "is not a name of a model"),
        (3, "not a int"),
        (["a"], "not a list"),
        ("./nowhere", "no such model folder"),
        ("/nowhere", "no such model folder"),
        ("a/b/c", "no such model folder"),
        ("~/nowhere-at-all", "nowhere-at-all: no such model folder"),
        ("nowhere.gguf", "no such file"),
        ("NOWHERE.GGUF", "no such file"),
        (__file__, "no such model folder"),
    ],
)
def test_what_is_not_a_name_of_a_model_is_refused(name, message):
    with pytest.raises(InputError, match=message):
        load(name)


def test_a_folder_may_be_under_the_home_folder_or_where_the_process_is(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder.parent))
    monkeypatch.chdir(folder.parent)
    for name in ("~/bert", "bert", "./bert"):
        assert load(name)[0].config.model_type == "bert"


def test_the_options_of_a_model_are_passed_on(folder, passed):
    load(folder)
    options = passed["AutoModelForSequenceClassification"]
    assert options["source"] == str(folder)
    assert options["use_safetensors"] is True
    assert options["trust_remote_code"] is False
    assert options["output_loading_info"] is True
    assert options["ignore_mismatched_sizes"] is True
    load(folder, allow_pickle=True, trust_remote_code=True, attn_implementation="eager")
    options = passed["AutoModelForSequenceClassification"]
    assert "use_safetensors" not in options
    assert options["trust_remote_code"] is True
    assert options["attn_implementation"] == "eager"
    load(folder, use_safetensors=False)
    assert passed["AutoModelForSequenceClassification"]["use_safetensors"] is False


def test_the_head_is_that_of_the_task(folder, passed):
    load(folder, task="token-classification")
    assert list(passed) == ["AutoModelForTokenClassification"]
    with pytest.raises(InputError, match=r"no task 'tagging'; it is one of .*sequence-classification"):
        load(folder, task="tagging")


def test_what_a_checkpoint_says_of_its_head(copied):
    for declared in ([], None, "BertForSequenceClassification"):
        configure(copied, architectures=declared)
        with pytest.raises(
            UnsupportedModelError, match=r"does not say which head it has; pass task= one of .*masked-lm"
        ):
            load(copied)
    configure(copied, architectures=["OfSomeoneElse", "BertForSequenceClassification"])
    assert type(load(copied)[0]) is transformers.BertForSequenceClassification
    configure(copied, architectures=["BertForObjectDetection"])
    configure(copied, architectures=["BertForObjectDetection", "OfSomeoneElse"])
    with pytest.raises(UnsupportedModelError, match="BertForObjectDetection has no head of a supported kind"):
        load(copied)


def test_every_problem_of_the_weights_is_said(folder, monkeypatch):
    known = {"missing_keys": ["b", "a", "pooler.weight"], "mismatched_keys": [("c", (2, 3), (4, 3))]}
    known |= {"error_msgs": ["broken"], "conversion_errors": None}
    monkeypatch.setattr(
        "transformers.AutoModelForSequenceClassification.from_pretrained", lambda *_, **__: (tiny.model("bert"), known)
    )
    expected = (
        r"as a BertForSequenceClassification lacks a, b, pooler\.weight and has other shapes of c .*\(2, 3\).* and "
    )
    with pytest.raises(InputError, match=expected + "cannot give broken: "):
        load(folder)
    assert load(folder, allow_missing_weights=True)
    for name, value in {"missing_keys": [], "mismatched_keys": [], "error_msgs": []}.items():
        with pytest.raises(InputError):
            load(folder)
        known[name] = value
    assert load(folder)


def test_the_pooler_of_a_model_without_a_head_is_not_asked_for(folder, monkeypatch):
    """Its answer is made of states; a classifier reads its pooler."""
    info = {"missing_keys": ["pooler.dense.weight"], "mismatched_keys": []}
    models = [tiny.model("bert"), tiny.model("bert").bert]
    monkeypatch.setattr(
        "transformers.AutoModelForSequenceClassification.from_pretrained", lambda *_, **__: (models[0], info)
    )
    with pytest.raises(InputError, match=r"lacks pooler\.dense\.weight"):
        load(folder)
    assert load(folder, allow_missing_weights=True)[0] is models.pop(0)
    assert load(folder)[0] is models[0]


def test_a_device_is_named_or_the_best_one(monkeypatch):
    assert device_named("cpu") == device_named(torch.device("cpu")) == torch.device("cpu")
    for name in ("nowhere", "cpu:x", 3.5):
        with pytest.raises(InputError, match=r"no device '.*' here: this machine has cpu"):
            device_named(name)
    monkeypatch.setattr(loading, "accelerator", lambda: None)
    assert device_named("auto") == torch.device("cpu")
    monkeypatch.setattr(loading, "accelerator", lambda: torch.device("meta"))
    assert device_named("auto") == torch.device("meta")


@pytest.mark.parametrize(
    ("options", "device"),
    [
        ({}, "meta"),
        ({"device": "auto"}, "meta"),
        ({"device": "cpu"}, "cpu"),
        ({"device_map": "cpu"}, "cpu"),
        ({"device_map": "cpu", "device": "auto"}, "cpu"),
        ({"device_map": "cpu", "device": "meta"}, "meta"),
    ],
)
def test_a_model_is_moved_to_the_accelerator_unless_it_is_placed(folder, monkeypatch, options, device):
    monkeypatch.setattr(loading, "accelerator", lambda: torch.device("meta"))
    assert load(folder, **options)[0].device.type == device


def test_a_quantised_model_stays_where_it_is_loaded(copied, passed, monkeypatch):
    monkeypatch.setattr(loading, "accelerator", lambda: torch.device("meta"))
    settings = {"quant_method": "gptq", "bits": 4}
    assert load(copied, quantization_config=settings)[0].device.type == "cpu"
    assert load(copied)[0].device.type == "meta"
    configure(copied, quantization_config=settings)
    assert load(copied)[0].device.type == "cpu"
    assert load(copied, device="meta")[0].device.type == "meta"


def test_the_task_of_a_loaded_model_is_its_own_or_the_callers():
    classifier, module = tiny.model("bert"), plain.Recurrent()
    assert task_of_loaded(classifier, None) is None
    assert task_of_loaded(classifier, "masked-lm") is None
    assert task_of_loaded(module, None) is None
    assert task_of_loaded(module, "masked-lm") == "masked-lm"
    module.config = SimpleNamespace(auto_map={"AutoModel": "x", "AutoModelForTokenClassification": "y"})
    assert task_of_loaded(module, None) == "token-classification"
    assert task_of_loaded(module, "masked-lm") == "masked-lm"
    module.config = SimpleNamespace(auto_map={"AutoModel": "x"})
    assert task_of_loaded(module, None) is None


@pytest.mark.parametrize("said", ["needs SentencePiece", "tiktoken is missing", "protobuf"])
def test_a_tokenizer_that_lacks_sentencepiece_says_what_to_install(said, tmp_path, monkeypatch):
    assert sentencepiece_remedy(ValueError(said), "a/name") is None or not load_errors.find_spec("sentencepiece")
    monkeypatch.setattr(load_errors, "find_spec", lambda _: None)
    assert "pip install" in sentencepiece_remedy(ValueError(said), "a/name")
    assert sentencepiece_remedy(ValueError("another error"), "a/name") is None
    assert sentencepiece_remedy(ValueError(said), tmp_path) is None
    (tmp_path / "spiece.model").touch()
    assert "pip install" in sentencepiece_remedy(ValueError(said), tmp_path)
    monkeypatch.setattr(load_errors, "find_spec", lambda _: object())
    assert sentencepiece_remedy(ValueError(said), "a/name") is None


CAUSES = {
    "gguf": (ImportError("the gguf package is missing"), "pip install -U gguf"),
    "accelerate": (NameError("name 'init_empty_weights' is not defined"), "pip install accelerate"),
    "custom code": (ValueError("it contains custom code"), "trust_remote_code=True"),
    "remote code": (ValueError("pass trust_remote_code"), "trust_remote_code=True"),
    "first line": (OSError("first\nsecond"), "cannot load .*: first$"),
    "two lines": (OSError("first:\n  second\nthird"), "cannot load .*: first: second$"),
    "import": (ImportError("no module named flash"), "cannot load .*: no module named flash$"),
    "no message": (ValueError(), r"cannot be read, a file is missing, broken or of another version \(ValueError: "),
    "other": (KeyError("name"), r"the model cannot be read, a file is missing, .* \(KeyError: 'name'\)$"),
    "safetensors": (OSError("there is no safetensors file"), "no safetensors file$"),
}


@pytest.mark.parametrize("name", CAUSES)
def test_an_error_of_transformers_is_told_in_one_line(folder, monkeypatch, name):
    error, said = CAUSES[name]

    def fail(*_, **__):
        raise error

    monkeypatch.setattr("transformers.AutoModelForSequenceClassification.from_pretrained", fail)
    with pytest.raises(InputError, match=said) as caught:
        load(folder)
    assert "\n" not in str(caught.value)


def test_pickled_weights_beside_are_pointed_to(copied, monkeypatch):
    def fail(*_, **__):
        raise OSError("no file named model.safetensors")

    monkeypatch.setattr("transformers.AutoModelForSequenceClassification.from_pretrained", fail)
    (copied / "pytorch_model.bin").write_bytes(b"weights")
    with pytest.raises(InputError, match="allow_pickle=True would read"):
        load(copied)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("merges.txt", b"", None),
        ("notes.md", b"", None),
        ("extra.json", b"", "extra.json is empty; download it again"),
        ("vocab.txt", b"version https://git-lfs.github.com/spec/v1\n", "vocab.txt is a pointer of Git LFS"),
        ("extra.bin", b"version https://git-lfs", "extra.bin is a pointer of Git LFS"),
        ("extra.gguf", b"", "extra.gguf is empty"),
    ],
)
def test_a_file_that_is_not_whole_is_named(copied, monkeypatch, file, content, message):
    def fail(*_, **__):
        raise ValueError("something else")

    monkeypatch.setattr("transformers.AutoModelForSequenceClassification.from_pretrained", fail)
    (copied / file).write_bytes(content)
    with pytest.raises(InputError, match=message or "something else"):
        load(copied)


def test_a_tokenizer_without_files_is_said_to_be_missing(folder, monkeypatch):
    def fail(*_, **__):
        raise TypeError("expected str, not NoneType")

    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", fail)
    with pytest.raises(InputError, match="has no tokenizer: its files"):
        load(folder)

    def refuse(*_, **__):
        raise TypeError("expected str, not int")

    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", refuse)
    with pytest.raises(InputError, match="its tokenizer cannot be read"):
        load(folder)
    monkeypatch.setattr("transformers.AutoModelForSequenceClassification.from_pretrained", fail)
    with pytest.raises(InputError, match="the model cannot be read"):
        load(folder)


def test_a_tokenizer_of_special_tokens_alone_is_refused(folder, monkeypatch):
    class Tokenizer(SimpleNamespace):
        def __call__(self, text):
            raise AssertionError("it is refused before it reads a text")

    empty = Tokenizer(pad_token_id=0, get_vocab=lambda: {"[PAD]": 0}, all_special_tokens=["[PAD]", "[UNK]"])
    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", lambda *_, **__: empty)
    with pytest.raises(InputError, match="has no tokenizer: its files"):
        load(folder)
    empty.get_vocab = lambda: {"[PAD]": 0, "word": 1}
    assert load(folder)[1] is empty


def configured(monkeypatch, model_type="bert", architectures=None):
    """Let every configuration have these values; return what they are read with, source and options."""
    calls = []

    def from_pretrained(source, **options):
        calls.append((source, options))
        config = transformers.AutoConfig.for_model(model_type)
        config.architectures = architectures
        return config

    monkeypatch.setattr("transformers.AutoConfig.from_pretrained", from_pretrained)
    return calls


def test_a_hub_name_without_a_model_may_be_an_adapters(monkeypatch):
    error, calls = OSError("org/name does not appear to have a file named config.json"), []

    def without_configuration(*_, **__):
        raise error

    monkeypatch.setattr("transformers.PretrainedConfig.get_config_dict", without_configuration)
    monkeypatch.setattr(loading, "read_adapter", lambda *args, **options: calls.append((*args, options)))
    configured(monkeypatch)
    with pytest.raises(UnsupportedModelError):
        load("org/name", allow_pickle=True, revision="v2")
    assert calls.pop() == ("org/name", {"revision": "v2"}, {"allow_pickle": True})
    error = OSError("connection lost\nand more")
    with pytest.raises(InputError, match=r"cannot load org/name: connection lost$"):
        load("org/name")
    monkeypatch.setattr("transformers.PretrainedConfig.get_config_dict", lambda *_, **__: ({}, {}))
    with pytest.raises(UnsupportedModelError):
        load("org/name")
    assert not calls


def test_the_only_gguf_file_of_a_folder_is_its_model(tmp_path, monkeypatch):
    calls = configured(monkeypatch, "vit")

    def read(name, **options):
        with pytest.raises(UnsupportedModelError, match="does not say which head"):
            load(name, **options)
        source, passed_on = calls.pop()
        assert source == str(tmp_path)
        return passed_on.get("gguf_file")

    first, second = tmp_path / "a.gguf", tmp_path / "b.gguf"
    assert read(tmp_path) is None
    first.touch()
    assert read(tmp_path) == "a.gguf"
    second.touch()
    assert read(tmp_path) is None
    for name, options in ((tmp_path, {"gguf_file": "b.gguf"}), (second, {}), (second, {"gguf_file": "b.gguf"})):
        assert read(name, **options) == "b.gguf"
    assert read(None, gguf_file=second) == "b.gguf"
    with pytest.raises(InputError, match="two GGUF files are named"):
        load(first, gguf_file="b.gguf")
    second.unlink()
    (tmp_path / "config.json").write_text("{}")
    assert read(tmp_path) is None


def test_a_gguf_file_that_names_no_class_is_a_language_model(copied, passed, monkeypatch):
    (copied / "a.gguf").write_bytes(b"weights")
    configured(monkeypatch, "gpt2")
    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", lambda *_, **__: tiny.tokenizer_for("gpt2"))
    load(copied, gguf_file="a.gguf")
    assert "use_safetensors" not in passed.pop("AutoModelForCausalLM")
    for model_type, options in (("gpt2", {}), ("vit", {"gguf_file": "a.gguf"})):
        configured(monkeypatch, model_type)
        with pytest.raises(UnsupportedModelError, match="does not say which head it has"):
            load(copied, **options)


def test_a_folder_of_another_library_is_said_to_be_one(folder, tmp_path, passed, monkeypatch):
    asked, claimed = [], str(folder)
    wrapper = SimpleNamespace(check_files=asked.append, claims_files=lambda source: source == claimed)
    monkeypatch.setattr(loading, "wrappers", lambda: [("masked-lm", wrapper)])
    load(folder)
    assert asked == []
    with pytest.raises(InputError, match="cannot load"):
        load(tmp_path)
    assert asked == [str(tmp_path)]
    configured(monkeypatch, architectures=["BertModel"])
    load(folder)
    assert "AutoModelForMaskedLM" in passed
    claimed = "another"
    with pytest.raises(UnsupportedModelError, match="BertModel"):
        load(folder)


def test_an_adapter_brings_its_options_its_task_and_its_tokenizer(folder, tmp_path, passed, monkeypatch):
    for file in folder.glob("tokenizer*"):
        shutil.copy(file, tmp_path)
    tokenizer_file = tmp_path / "tokenizer_config.json"
    tokenizer_file.write_text(json.dumps(json.loads(tokenizer_file.read_text()) | {"model_max_length": 17}))
    added = []

    def made(has_tokenizer):
        class OfTest(loading.Adapter):
            def add_to(self, model, options):
                added.append(options)
                return model

        return OfTest(str(tmp_path), str(folder), None, "token-classification", {"score.weight": (3, 2)}, has_tokenizer)

    for has_tokenizer, length in ((True, 17), (False, 40)):
        monkeypatch.setattr(loading, "_find_adapter", lambda *_, has=has_tokenizer, **__: made(has))
        model, tokenizer = load(tmp_path, revision="v2")
        assert isinstance(model, nn.Module)
        assert tokenizer.model_max_length == length
        assert added.pop() == {"revision": "v2"}
        options = passed.pop("AutoModelForTokenClassification")
        assert (options["source"], options["num_labels"], options.get("revision")) == (str(folder), 3, None)
    load(tmp_path, task="sequence-classification", num_labels=4)
    assert passed["AutoModelForSequenceClassification"]["num_labels"] == 4


def test_a_converted_gguf_file_is_loaded_if_nothing_else_is_asked_for(folder, tmp_path, passed, monkeypatch):
    (tmp_path / "a.gguf").write_bytes(b"weights")
    monkeypatch.setattr(loading, "converted_folder", lambda file: folder if file == tmp_path / "a.gguf" else None)
    configured(monkeypatch, "gpt2")
    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", lambda *_, **__: tiny.tokenizer_for("gpt2"))
    load(tmp_path, task="causal-lm")
    options = passed.pop("AutoModelForCausalLM")
    assert (options["source"], options.get("gguf_file")) == (str(folder), None)
    monkeypatch.setattr(loading, "save_converted", lambda *_: None)
    for more in ({"attn_implementation": "eager"}, {"task": "masked-lm"}):
        load(tmp_path, **more)
        _, options = passed.popitem()
        assert (options["source"], options["gguf_file"]) == (str(tmp_path), "a.gguf")
