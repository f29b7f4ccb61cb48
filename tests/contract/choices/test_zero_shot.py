"""A zero-shot pipeline and a multiple-choice model are explained as they choose, or refused in a line."""

import pickle

import numpy as np
import pytest
import torch
from transformers import pipeline

from normxlogit import ALL, Explainer, InputError, NormXLogitError
from tests import tiny

TEXT = "the movie is not good"
NLI = {0: "contradiction", 1: "neutral", 2: "entailment"}
CANDIDATES = ["movie", "cat", "cabinet"]
"""Of the tokenizer's words."""


def zero_shot(**options):
    model = tiny.model("bert", id2label=NLI, label2id={name: i for i, name in NLI.items()})
    return pipeline("zero-shot-classification", model=model, tokenizer=tiny.tokenizer_for("bert"), **options)


@pytest.mark.parametrize("labels", [CANDIDATES, ["movie"]], ids=str)
@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("template", [None, "the plot has {} ."])
def test_a_zero_shot_pipeline_is_explained_as_it_asks(labels, multi_label, template):
    options = {} if template is None else {"hypothesis_template": template}
    pipe = zero_shot(multi_label=multi_label, **options)
    said = pipe(TEXT, labels)
    explainer = Explainer(pipe, labels=labels)
    a = explainer(TEXT, method="frozen-gradient")
    assert a.prediction.label == said["labels"][0]
    assert a.prediction.probability == pytest.approx(said["scores"][0], abs=1e-4)
    for label, chance in zip(said["labels"], said["scores"], strict=True):
        a = explainer(TEXT, target=label, method="frozen-gradient")
        hypothesis = (template or "This example is {}.").format(label)
        assert (a.text, a.text_pair) == (TEXT, hypothesis)
        assert a.target.name == label
        inputs = pipe.tokenizer(TEXT, hypothesis, return_tensors="pt")
        with torch.inference_mode():
            logits = pipe.model(**inputs).logits[0]
        asked = logits[2] - logits[0] if multi_label or len(labels) == 1 else logits[2]
        assert a.scores.sum() + a.bias == pytest.approx(float(asked), abs=1e-3)
        if label == said["labels"][0]:
            assert a.prediction.value == pytest.approx(float(asked), abs=1e-4)
            assert a.prediction.probability == pytest.approx(chance, abs=1e-4)


def test_zero_shot_scores_are_those_of_the_pair():
    pipe = zero_shot()
    a = Explainer(pipe, labels=CANDIDATES)(TEXT, target="cat")
    pair = Explainer(pipe.model, pipe.tokenizer)((TEXT, "This example is cat."), target="entailment")
    np.testing.assert_allclose(a.scores, pair.scores, atol=1e-5)
    assert type(a).from_dict(a.to_dict()) == a


def test_zero_shot_texts_are_many_and_targets_one_each():
    explainer = Explainer(zero_shot(), labels=CANDIDATES)
    texts = [TEXT, "a cat sat on the mat", "bad"]
    many = explainer(texts, targets=["cat", "movie", 2])
    assert [a.target.name for a in many] == ["cat", "movie", "cabinet"]
    for text, target, a in zip(texts, ["cat", "movie", 2], many, strict=True):
        np.testing.assert_allclose(a.scores, explainer(text, target=target).scores, atol=1e-5)
    assert [a.text for a in explainer.compare(TEXT, ["normxlogit", "occlusion"], target="cat")] == [TEXT] * 2
    again = pickle.loads(pickle.dumps(explainer))(TEXT)
    assert again == explainer(TEXT)


def test_the_candidate_labels_of_the_pipeline_are_enough():
    pipe = zero_shot(candidate_labels="movie, cat", hypothesis_template="it is {}")
    assert Explainer(pipe)(TEXT).prediction.label == pipe(TEXT)["labels"][0]
    assert Explainer(pipe)(TEXT).text_pair in ("it is movie", "it is cat")


def test_a_zero_shot_pipeline_without_labels_says_what_to_give():
    with pytest.raises(InputError, match=r"labels=\['politics', 'sports'\]"):
        Explainer(zero_shot())
    with pytest.raises(InputError, match="different"):
        Explainer(zero_shot(), labels=["cat", "cat"])
    with pytest.raises(InputError, match="list of names"):
        Explainer(zero_shot(), labels="cat")
    for template in ("no place", "{} and {}", "{label}"):
        with pytest.raises(InputError, match="hypothesis_template"):
            Explainer(zero_shot(hypothesis_template=template), labels=CANDIDATES)


def test_what_zero_shot_cannot_take_is_refused():
    explainer = Explainer(zero_shot(), labels=CANDIDATES)
    for use in (
        lambda: explainer((TEXT, "this is bad")),
        lambda: explainer(TEXT, target=ALL),
        lambda: explainer(TEXT, target="entailment"),
        lambda: explainer(TEXT, contrast="cat"),
        lambda: explainer(TEXT, long_text="window"),
        lambda: explainer(explainer.encode([TEXT])),
        lambda: (explainer([]) and None) or explainer(7),
        lambda: explainer.from_outputs({}, {}),
        lambda: explainer.generate(TEXT),
    ):
        with pytest.raises(NormXLogitError) as error:
            use()
        assert "None" not in str(error.value)


def test_a_multiple_choice_model_has_one_task_and_no_labels():
    model, tokenizer = tiny.model("bert", "MultipleChoice"), tiny.tokenizer_for("bert")
    assert "task='multiple-choice'" in repr(Explainer(model, tokenizer, task="multiple-choice"))
    with pytest.raises(InputError, match="is a model for multiple-choice, not for masked-lm: leave out task="):
        Explainer(model, tokenizer, task="masked-lm")
    with pytest.raises(InputError, match="leave out labels="):
        Explainer(model, tokenizer, labels=["no", "yes"])


def test_states_of_one_pass_are_not_taken_for_a_choice():
    pytest.importorskip("normxlogit.recorded")
    explainer = Explainer(tiny.model("bert", "MultipleChoice"), tiny.tokenizer_for("bert"))
    with pytest.raises(InputError, match="call the explainer on the input itself"):
        explainer.from_outputs({}, {})
