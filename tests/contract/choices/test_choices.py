"""A zero-shot pipeline and a multiple-choice model: explained as they choose, without words, or refused in a line."""

import pickle
from functools import partial

import numpy as np
import pytest
import torch
from transformers import pipeline

from normxlogit import ALL, Explainer, InputError, NormXLogitError, TargetError, UnsupportedModelError
from tests import tiny
from tests.contract.cases import Case
from tests.contract.compare import refused, same
from tests.contract.decided import parameters_of

TEXT = "the movie is not good"
NLI = {0: "contradiction", 1: "neutral", 2: "entailment"}
CANDIDATES = ["movie", "cat", "cabinet"]
"""Of the tokenizer's words."""

NOT_NONE = r"^(?!.*None)"


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
    assert explainer(TEXT, method="frozen-gradient").target.name == said["labels"][0]
    for label, chance in zip(said["labels"], said["scores"], strict=True):
        a = explainer(TEXT, target=label, method="frozen-gradient")
        hypothesis = (template or "This example is {}.").format(label)
        assert (a.text, a.text_pair, a.target.name) == (TEXT, hypothesis, label)
        logits = pipe.model(**pipe.tokenizer(TEXT, hypothesis, return_tensors="pt")).logits[0].detach()
        asked = logits[2] - logits[0] if multi_label or len(labels) == 1 else logits[2]
        assert a.scores.sum() + a.bias == pytest.approx(float(asked), abs=1e-3)
        if label == said["labels"][0]:
            assert a.prediction.label == label
            assert a.prediction.value == pytest.approx(float(asked), abs=1e-4)
            assert a.prediction.probability == pytest.approx(chance, abs=1e-4)


def test_choices_are_found_by_name_in_whatever_way_it_is_written():
    explainer = Explainer(zero_shot(), labels=CANDIDATES)
    for name in ("Movie", "**movie**", "ｍｏｖｉｅ", "mo\u00advie"):
        assert explainer(TEXT, target=name).target.name == "movie"
    refused(TargetError, "no choice", lambda: explainer(TEXT, target="movies"))


def test_zero_shot_scores_are_those_of_the_pair_with_a_target_for_each_text():
    pipe = zero_shot()
    explainer = Explainer(pipe, labels=CANDIDATES)
    a = explainer(TEXT, target="cat")
    pair = Explainer(pipe.model, pipe.tokenizer)((TEXT, "This example is cat."), target="entailment")
    np.testing.assert_allclose(a.scores, pair.scores, atol=1e-5)
    assert type(a).from_dict(a.to_dict()) == a
    texts = [TEXT, "a cat sat on the mat", "bad"]
    many = explainer(texts, targets=["cat", "movie", 2])
    assert [a.target.name for a in many] == ["cat", "movie", "cabinet"]
    same(many, [explainer(text, target=target) for text, target in zip(texts, ["cat", "movie", 2], strict=True)])
    assert [a.text for a in explainer.compare(TEXT, ["normxlogit", "occlusion"], target="cat")] == [TEXT] * 2
    assert pickle.loads(pickle.dumps(explainer))(TEXT) == explainer(TEXT)
    pipe = zero_shot(candidate_labels="movie, cat", hypothesis_template="it is {}")
    assert Explainer(pipe)(TEXT).prediction.label == pipe(TEXT)["labels"][0]  # candidates of the pipeline are enough
    assert Explainer(pipe)(TEXT).text_pair in ("it is movie", "it is cat")


def test_every_setting_of_a_zero_shot_pipeline_is_decided() -> None:
    """All are applied, as the test above compares; one that is new in transformers must be decided here."""
    pipe = zero_shot()
    steps = parameters_of(pipe.preprocess), parameters_of(pipe.postprocess)
    decided = {"inputs", "model_outputs", "candidate_labels", "hypothesis_template", "multi_label"}
    assert {name for names in steps for name in names} <= decided


def test_a_zero_shot_pipeline_without_labels_says_what_to_give():
    refused(InputError, r"labels=\['politics', 'sports'\]", lambda: Explainer(zero_shot()))
    refused(InputError, "different", lambda: Explainer(zero_shot(), labels=["cat", "cat"]))
    refused(InputError, "list of names", lambda: Explainer(zero_shot(), labels="cat"))
    for template in ("no place", "{} and {}", "{label}"):
        pipe = zero_shot(hypothesis_template=template)
        refused(InputError, "hypothesis_template", partial(Explainer, pipe, labels=CANDIDATES))


def test_what_zero_shot_cannot_take_is_refused():
    explainer = Explainer(zero_shot(), labels=CANDIDATES)
    for options in ({"target": ALL}, {"target": "entailment"}, {"contrast": "cat"}, {"long_text": "window"}):
        refused(NormXLogitError, NOT_NONE, partial(explainer, TEXT, **options))
    for given in ((TEXT, "this is bad"), explainer.encode([TEXT]), 7):
        refused(NormXLogitError, NOT_NONE, partial(explainer, given))
    assert explainer([]) == []
    refused(NormXLogitError, NOT_NONE, partial(explainer.generate, TEXT))


def test_outputs_of_a_call_of_ones_own_are_no_zero_shot_answer():
    pytest.importorskip("normxlogit.recorded", reason="which explains such outputs")
    refused(NormXLogitError, NOT_NONE, partial(Explainer(zero_shot(), labels=CANDIDATES).from_outputs, {}, {}))


def test_a_multiple_choice_model_has_one_task_and_no_labels():
    make = partial(Explainer, tiny.model("bert", "MultipleChoice"), tiny.tokenizer_for("bert"))
    assert "task='multiple-choice'" in repr(make(task="multiple-choice"))
    message = "is a model for multiple-choice, not for masked-lm: leave out task="
    refused(InputError, message, lambda: make(task="masked-lm"))
    refused(InputError, "leave out labels=", lambda: make(labels=["no", "yes"]))
    pytest.importorskip("normxlogit.recorded")
    refused(UnsupportedModelError, "call the explainer on it", lambda: make().from_outputs({}, {}))


PROMPT, CHOICES = "the movie is good and the plot is bad", ["good movie", "bad cat", "the plot sat"]


@pytest.mark.parametrize("words", [["plot"], ["good", "bad"]])
def test_words_of_the_prompt_are_left_out_of_every_pair_and_words_of_a_choice_of_its_own(words: list[str]) -> None:
    explainer = Case("bert", "MultipleChoice").explainer
    removal = explainer.without((PROMPT, CHOICES), words, target=1)
    logits = []
    for place, choice in enumerate(CHOICES):
        encoding = explainer.tokenizer(PROMPT, choice)
        tokens, of = explainer.tokenizer.convert_ids_to_tokens(encoding["input_ids"]), encoding.sequence_ids()
        kept = [i for i, token in enumerate(tokens) if token not in words or (of[i] == 1 and place != 1)]
        rows = {name: torch.tensor([[[values[i] for i in kept]]]) for name, values in encoding.items()}
        with torch.no_grad():
            logits.append(explainer.model(**rows).logits[0, 0])
    probabilities = torch.stack(logits).softmax(0)
    assert removal.value == pytest.approx(float(probabilities[1]), abs=1e-6)
    assert removal.prediction.id == int(probabilities.argmax())


def test_a_choice_is_verified() -> None:
    a = Case("bert", "MultipleChoice").explainer((PROMPT, CHOICES), verify=2)
    assert (len(a.verified.single), a.verified.original.prediction.label) == (2, a.prediction.label)
    assert a.verified.original.value == pytest.approx(a.prediction.probability, abs=1e-6)


@pytest.mark.parametrize("multi_label", [False, True])
def test_a_label_of_a_zero_shot_pipeline_without_a_word(multi_label: bool) -> None:
    pipe = zero_shot(multi_label=multi_label)
    explainer = Explainer(pipe, labels=["cat", "movie"])
    removal = explainer.without(PROMPT, "plot", target="movie")
    expected = pipe(PROMPT.replace("plot ", ""), ["cat", "movie"], multi_label=multi_label)
    scores = dict(zip(expected["labels"], expected["scores"], strict=True))
    assert removal.value == pytest.approx(scores["movie"], abs=1e-5)
    assert removal.prediction.label == ("movie" if multi_label else expected["labels"][0])
