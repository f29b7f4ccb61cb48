"""Labels as models and pipelines have them: of any name, in a list, of tokens outside every entity."""

import copy

import pytest
import torch
import transformers

from normxlogit import ALL, Explainer
from tests import tiny

SCHEMES = {
    "O": (["B-PER", "O", "I-PER"], {"O"}),
    "a small o": (["B-PER", "o", "I-PER"], {"o"}),
    "another word": (["B-PER", "OTHER", "I-PER"], {"OTHER"}),
    "another scheme": (["S-PER", "E-LOC", "outside"], {"outside"}),
    "underscores": (["_", "B_PER", "I_PER"], {"_"}),
    "no scheme": (["NOUN", "VERB", "X"], set()),
}


def tagger(labels):
    """A model that tags tokens by their ids, each label for some of them, the first label of every text also later."""
    model = tiny.model("bert", "TokenClassification", num_labels=len(labels), id2label=dict(enumerate(labels)))
    with torch.no_grad():
        model.classifier.weight.mul_(50)
        logits = model(**tiny.tokenizer_for("bert")(tiny.TEXTS, return_tensors="pt", padding=True)).logits
        model.classifier.bias.sub_(logits.mean((0, 1)))
    return model, tiny.tokenizer_for("bert")


def tags_of(model, tokenizer, text):
    """The label of each token but special ones, with its place."""
    encoded = tokenizer(text, return_tensors="pt", return_special_tokens_mask=True)
    special = encoded.pop("special_tokens_mask")[0]
    with torch.no_grad():
        ids = model(**encoded).logits[0].argmax(-1).tolist()
    return [(place, model.config.id2label[i]) for place, i in enumerate(ids) if not special[place]]


def first(tags, ignored):
    return next((place for place, label in tags if label not in ignored), tags[0][0])


TEXT = " ".join(tiny.TEXTS)
"""A text with every label."""


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("rotated", range(3))
def test_the_first_token_of_an_entity_is_explained(scheme, rotated):
    labels, outside = SCHEMES[scheme]
    labels = labels[rotated:] + labels[:rotated]
    model, tokenizer = tagger(labels)
    tags = tags_of(model, tokenizer, TEXT)
    assert {label for _, label in tags} == set(labels)
    for text in (TEXT, *tiny.TEXTS):
        expected = first(tags_of(model, tokenizer, text), outside)
        assert Explainer(model, tokenizer)(text).target.position == expected
    (result,) = Explainer(model, tokenizer)([TEXT])
    assert result.prediction.label == dict(tags)[first(tags, outside)]


@pytest.mark.parametrize("strategy", ["none", "simple"])
@pytest.mark.parametrize("ignored", [["PER"], ["B-PER"], ["B-PER", "OTHER"], ["OTHER", "PER"], [], None])
def test_the_labels_that_a_pipeline_ignores_are_not_explained(ignored, strategy):
    model, tokenizer = tagger(["I-LOC", "B-PER", "OTHER"])
    pipeline = transformers.pipeline(
        "ner", model=model, tokenizer=tokenizer, ignore_labels=ignored, aggregation_strategy=strategy
    )
    answers = pipeline(TEXT)
    found = Explainer(pipeline)(TEXT)
    start = found.offsets[found.target.position][0]
    if ignored is None:  # a pipeline shows every label then but "O"
        answers = [answer for answer in answers if "OTHER" not in answer.values()]
    assert start == answers[0]["start"]
    renamed = Explainer(pipeline, labels=["place", "person", "OTHER"])(TEXT)
    assert ignored is None or renamed.target.position == found.target.position


def test_id2label_may_be_a_list():
    model, tokenizer = copy.deepcopy(tiny.model("bert")), tiny.tokenizer_for("bert")
    expected = Explainer(model, tokenizer, labels=["no", "yes"])(tiny.TEXTS[0], target=ALL)
    try:
        model.config.id2label = ["no", "yes"]
    except Exception:  # an error of huggingface_hub, which not all versions have
        pytest.skip("configurations of this version of transformers take no list")
    found = Explainer(model, tokenizer)(tiny.TEXTS[0], target=ALL)
    assert found == expected
    assert [target.name for target in found.targets] == ["no", "yes"]


BROKEN = ["no\nway", "yes\r\nplease\u2028now"]


def test_labels_with_line_breaks_stand_on_one_line():
    explainer = Explainer(tiny.model("bert"), tiny.tokenizer_for("bert"), labels=BROKEN)
    found = explainer(tiny.TEXTS[0], target=BROKEN, verify=1)
    assert [target.name for target in found.targets] == BROKEN
    drawings = [str(found), str(explainer(tiny.TEXTS)), repr(found), str(explainer.compare(tiny.TEXTS[0]))]
    for line in "\n".join(drawings).splitlines():
        assert not line.startswith(("way", "please", "now"))
    assert explainer(tiny.TEXTS[0], target="NO WAY").target.name == BROKEN[0]
