"""What a model is for comes from its class; a task that its head cannot have is an error, and so are labels."""

import pickle

import numpy as np
import pytest
import torch
from transformers import BertForSequenceClassification, pipeline

from normxlogit import Explainer, InputError, NormXLogitError, UnsupportedModelError
from tests import plain, tiny

TEXT = "the movie is not good"
HEADS = {
    "sequence-classification": "SequenceClassification",
    "token-classification": "TokenClassification",
    "question-answering": "QuestionAnswering",
    "multiple-choice": "MultipleChoice",
    "masked-lm": "MaskedLM",
}


@pytest.mark.parametrize("task", [*HEADS, "causal-lm", "seq2seq-lm"])
@pytest.mark.parametrize("own", HEADS)
def test_a_task_that_the_class_is_not_for_is_an_error(own, task):
    model, tokenizer = tiny.model("bert", HEADS[own]), tiny.tokenizer_for("bert")
    if task == own:
        assert f"task={own!r}" in repr(Explainer(model, tokenizer, task=task))
        return
    with pytest.raises(InputError, match=f"is a model for {own}, not for {task}: leave out task="):
        Explainer(model, tokenizer, task=task)


def test_a_class_of_two_tasks_may_be_either():
    model, tokenizer = tiny.model("bart", "Seq2SeqLM"), tiny.tokenizer_for("bart")
    for task in ("masked-lm", "seq2seq-lm"):
        Explainer(model, tokenizer, task=task)
    with pytest.raises(InputError, match="masked-lm and seq2seq-lm, not for causal-lm"):
        Explainer(model, tokenizer, task="causal-lm")


class Tagger(BertForSequenceClassification):
    """A user's subclass that answers at every token."""

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, **_):
        hidden = self.bert(input_ids, attention_mask, token_type_ids).last_hidden_state
        return {"logits": self.classifier(hidden)}


def test_a_subclass_may_have_another_task_if_it_answers_so():
    config = tiny.model("bert", num_labels=3).config
    torch.manual_seed(0)
    model = plain.grown(Tagger(config))
    a = Explainer(model, tiny.tokenizer_for("bert"), task="token-classification")(TEXT)
    with torch.inference_mode():
        logits = model(torch.tensor([a.token_ids]))["logits"][0]
    assert a.prediction.value == pytest.approx(logits[a.target.position].max().item(), abs=1e-4)
    for task in ("sequence-classification", "question-answering", "causal-lm"):
        with pytest.raises(UnsupportedModelError, match=task):
            Explainer(model, tiny.tokenizer_for("bert"), task=task)(TEXT)


@pytest.mark.parametrize("task", ["causal-lm", "masked-lm", "question-answering"])
def test_a_plain_module_of_a_few_classes_is_none_for_tokens_or_spans(task):
    text = ("the movie", "is good [MASK]") if task == "question-answering" else "the movie is [MASK]"
    with pytest.raises(UnsupportedModelError, match=rf"answers with 3 numbers .*{task}"):
        Explainer(plain.grown(plain.Tagger()), tiny.tokenizer(), task=task)(text)


def test_models_without_classes_take_no_labels():
    for kind in ("MaskedLM", "QuestionAnswering", "MultipleChoice"):
        with pytest.raises(InputError, match="leave out labels="):
            Explainer(tiny.model("bert", kind), tiny.tokenizer_for("bert"), labels=["no", "yes"])
    for model, options in ((tiny.model("gpt2", "CausalLM"), {}), (plain.LanguageModel(), {"task": "causal-lm"})):
        with pytest.raises(InputError, match="leave"):
            Explainer(model, tiny.tokenizer(), labels=["no", "yes"], **options)


def test_labels_come_in_any_container_that_has_an_order():
    model, tokenizer = tiny.model("bert"), tiny.tokenizer_for("bert")
    numbered = {0: "no", 1: "yes"}, {"yes": 1, "no": 0}  # as configurations have them
    for labels in (["no", "yes"], ("no", "yes"), np.array(["no", "yes"]), iter(["no", "yes"]), *numbered):
        explainer = Explainer(model, tokenizer, labels=labels)
        before = explainer(TEXT)
        model.classifier.bias.data += 1e-3
        model.config.problem_type = "single_label_classification"
        model.train(), model.eval()
        model.register_module("other", torch.nn.Linear(1, 1))  # the model is copied anew
        after = explainer(TEXT)
        assert before.prediction.label == after.prediction.label == ["no", "yes"][before.prediction.id]
        assert type(after.prediction.label) is str
        del model.other
    for labels in ({"no", "yes"}, {"yes": 1, "no": 1}, "no", 2, [0, 1], ["no", "yes", "maybe"]):
        with pytest.raises(InputError, match="labels"):
            Explainer(model, tokenizer, labels=labels)


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
    from normxlogit import ALL

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
