"""Arguments that a call does not take are errors of the library, and name the right one."""

import pytest

from normxlogit import Explainer, InputError, MethodError, NormXLogitError
from tests import tiny

TEXT = "the movie is not good"


@pytest.mark.parametrize(
    ("argument", "advice"),
    [
        ({"text_pair": "bad"}, r"explainer\(\(text, text_pair\)\)"),
        ({"layer": 2}, "layers="),
        ({"batch_size": 8}, "batch_tokens="),
        ({"label": "LABEL_0"}, "target="),
        ({"labels": ["LABEL_0"]}, "target="),
        ({"max_length": 10}, "long_text="),
        ({"truncation": True}, "long_text="),
        ({"device": "cpu"}, r"from_pretrained\(name, device=\.\.\.\)"),
        ({"targts": [0]}, "did you mean targets="),
        ({"progres": False}, "did you mean progress="),
        ({"nonsense": 1}, "target=, targets="),
    ],
    ids=str,
)
def test_an_argument_of_another_name_is_told_the_right_one(explainer, argument, advice):
    with pytest.raises(InputError, match=f"no argument {next(iter(argument))!r}.*{advice}"):
        explainer(TEXT, **argument)


@pytest.mark.parametrize(
    ("method", "argument", "right"),
    [
        ("frozen-gradient", {"read_at": 0}, "frozen-gradient:read_at=0"),
        ("random", {"seed": 3}, "random:seed=3"),
        ("occlusion:window=1", {"window": 2}, "occlusion:window=2"),
    ],
)
def test_a_setting_of_a_method_goes_with_the_method(explainer, method, argument, right):
    with pytest.raises(MethodError, match=f"method='{right}'"):
        explainer(TEXT, method=method, **argument)
    explainer(TEXT, method=right)


def test_two_texts_are_not_two_arguments(explainer):
    with pytest.raises(InputError, match=r"too many positional arguments.*explainer\(\(text, text_pair\)\)"):
        explainer(TEXT, "a cat is here")
    with pytest.raises(InputError, match="inputs"):
        explainer()
    with pytest.raises(InputError, match="comes first, without a name"):
        explainer(texts=[TEXT])


def test_every_door_says_so(explainer, writer):
    model, tokenizer = tiny.model("bert"), tiny.tokenizer_for("bert")
    calls = {
        "batch_tokens=": lambda: Explainer(model, tokenizer, batch_size=4),
        "did you mean target=": lambda: explainer.compare(TEXT, targets=[0]),
        "layers=": lambda: explainer.from_outputs({}, {}, layer=1),
        "max_length=": lambda: explainer.encode(TEXT, maxlength=3),
        "did you mean layers=": lambda: writer.generate("the cat", max_new_tokens=2, layer=1),
        "explain_completion has no argument 'layer'": lambda: writer.explain_completion("the cat", " sat", layer=1),
        "explain_completion has no argument 'methods'": lambda: writer.explain_completion(
            "the cat", " sat", methods="occlusion"
        ),
        "similarity has no argument 'layers'": lambda: explainer.similarity(TEXT, TEXT, layers=1),
        "from_pretrained has no argument 'batch_size'": lambda: Explainer.from_pretrained(batch_size=4),
    }
    for advice, call in calls.items():
        with pytest.raises(NormXLogitError) as error:
            call()
        assert advice in str(error.value), advice


def test_labels_name_the_outputs_of_a_loaded_model():
    explainer = Explainer.from_pretrained(labels=["bad", "good"])
    assert explainer("a fine film").prediction.label == "good"
    assert explainer("a fine film", target="bad").target.id == 0
