"""From a folder to a model with its head, and one line for what cannot be loaded."""

import pytest
import torch

from normxlogit import Explainer, InputError, UnsupportedModelError
from normxlogit.loading.load import load
from tests import tiny
from tests.contract.test_right_or_refused import configure


@pytest.mark.parametrize("named", [[], None, "BertModel", 5])
def test_a_configuration_that_names_no_class(tmp_path, named):
    tiny.save(tmp_path, "bert")
    configure(tmp_path, architectures=named)
    with pytest.raises((UnsupportedModelError, InputError), match=r"pass task=|configuration cannot be read"):
        load(tmp_path)
    if not named:
        loaded, _ = load(tmp_path, task="sequence-classification")
        torch.testing.assert_close(loaded.classifier.weight, tiny.model("bert").classifier.weight)


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


@pytest.mark.parametrize("key", ["error_msgs", "conversion_errors"])
def test_weights_that_could_not_be_put_in_place_are_refused(tmp_path, monkeypatch, key):
    tiny.save(tmp_path, "bert")
    model = tiny.model("bert")
    info = {"missing_keys": [], "mismatched_keys": [], "unexpected_keys": [], key: ["size of classifier.weight"]}
    loader = "transformers.AutoModelForSequenceClassification.from_pretrained"
    monkeypatch.setattr(loader, lambda *_, **__: (model, info))
    with pytest.raises(InputError, match=r"cannot give size of classifier.weight: its answers would come from random"):
        load(tmp_path)
    info[key] = []
    assert load(tmp_path)[0] is model


def sentencepiece_only(folder):
    """A DeBERTa whose tokenizer is an spm.model and nothing else, as on the hub."""
    tiny.model("deberta-v2").save_pretrained(folder)
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false, "vocab_type": "spm"}')
    return folder


def test_a_sentencepiece_file_is_enough(tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    with open(sentencepiece_only(tmp_path) / "spm.model", "wb") as file:
        places = {f"{name}_id": place for place, name in enumerate(("pad", "bos", "eos", "unk"))}
        names = {"pad_piece": "[PAD]", "bos_piece": "[CLS]", "eos_piece": "[SEP]", "unk_piece": "[UNK]"}
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(tiny.TEXTS * 20),
            model_writer=file,
            vocab_size=60,
            hard_vocab_limit=False,
            minloglevel=2,
            **places,
            **names,
        )
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
        ("float16", {"dtype": torch.bfloat16}, torch.bfloat16),
        ("float16", {"device_map": "cpu"}, torch.float16),
    ],
)
def test_half_precision_becomes_full_on_a_cpu_and_nowhere_else(tmp_path, named, options, wanted):
    configure(tiny.save(tmp_path, "bert"), dtype=named)
    model, _ = load(tmp_path, **options)
    assert (model.dtype, model.device.type) == (wanted, options.get("device", "cpu"))
