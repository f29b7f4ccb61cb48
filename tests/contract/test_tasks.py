"""What a model is for comes from its class; a task that its head cannot have is an error, and so are labels."""

from functools import partial

import numpy as np
import pytest
import torch
from transformers import BertForSequenceClassification

from normxlogit import Explainer, InputError, UnsupportedModelError
from tests import plain, tiny
from tests.contract.compare import refused

TEXT = "the movie is not good"
HEADS = {
    "sequence-classification": "SequenceClassification",
    "token-classification": "TokenClassification",
    "question-answering": "QuestionAnswering",
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
    for kind in ("MaskedLM", "QuestionAnswering"):
        with pytest.raises(InputError, match="leave out labels="):
            Explainer(tiny.model("bert", kind), tiny.tokenizer_for("bert"), labels=["no", "yes"])
    for model, options in ((tiny.model("gpt2", "CausalLM"), {}), (plain.LanguageModel(), {"task": "causal-lm"})):
        with pytest.raises(InputError, match="leave"):
            Explainer(model, tiny.tokenizer(), labels=["no", "yes"], **options)


def test_labels_come_in_any_container_that_has_an_order():
    model, tokenizer = tiny.model("bert"), tiny.tokenizer_for("bert")
    datasets, names = pytest.importorskip("datasets"), ["no", "yes"]
    numbered = {0: "no", 1: "yes"}, {1: "yes", 0: "no"}, {"0": "no", "1": "yes"}, {"yes": 1, "no": 0}
    ordered = names, tuple(names), np.array(names), iter(names), datasets.ClassLabel(names=names)
    for labels in (*ordered, *numbered):
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
    wrong = {"no", "yes"}, {"yes": 1, "no": 1}, {1: "a", 2: "b"}, {"a": "b"}, {}, "no", 2, [0, 1], [*names, "maybe"]
    for labels in wrong:
        refused(InputError, "labels", partial(Explainer, model, tokenizer, labels=labels))
