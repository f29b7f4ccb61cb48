"""Which question a model answers: by its class and settings, or as its owner says."""

from types import SimpleNamespace

import pytest
import torch
import transformers
from torch import nn

from normxlogit.errors import InputError, TargetError, UnsupportedModelError
from normxlogit.inputs.batching import Batch
from normxlogit.inputs.encoding import Encoding
from normxlogit.models.sentence_embedding import SentenceEmbedding, Steps
from normxlogit.models.task_classes import causal, is_bare, no_head, task_name
from normxlogit.models.tasks import Task, answering, at, check_answer, task_of
from tests import tiny


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("BertForMaskedLM", "masked-lm"),
        ("GPT2LMHeadModel", "causal-lm"),
        ("OwnForQuestionAnswering", "question-answering"),
        ("OwnLMHeadModel", "causal-lm"),
        ("T5ForConditionalGeneration", "seq2seq-lm"),
        ("BertModel", None),
        ("ForMaskedLMOwn", None),
    ],
)
def test_a_class_tells_its_task_by_its_name(name, task):
    assert task_name(name) == task


@pytest.mark.parametrize(
    ("count", "problem", "kind"),
    [
        (3, None, "single-label"),
        (1, None, "regression"),
        (3, "regression", "regression"),
        (3, "multi_label_classification", "multi-label"),
    ],
)
def test_what_the_outputs_of_a_classifier_are(count, problem, kind):
    found = task_of(tiny.model("bert", num_labels=count, problem_type=problem))
    assert (found.name, found.kind) == ("sequence-classification", kind)
    assert found.labels == tuple(f"LABEL_{i}" for i in range(count))
    tagger = task_of(tiny.model("bert", "TokenClassification", num_labels=count, problem_type=problem))
    assert tagger.kind == "single-label", "tags are labels, whatever the settings"


@pytest.mark.parametrize(
    ("kind", "task"),
    [
        ("MaskedLM", Task("masked-lm", "token", ())),
        ("QuestionAnswering", Task("question-answering", "span", ("start", "end"))),
        ("MultipleChoice", Task("multiple-choice", "choice", ("choice",))),
    ],
)
def test_other_heads(kind, task):
    assert task_of(tiny.model("bert", kind)) == task


def test_a_subclass_is_still_the_model_that_it_comes_from():
    class Own(transformers.BertForSequenceClassification):
        pass

    model = tiny.model("bert")
    bare = model.bert
    model.__class__ = Own
    assert task_of(model).name == "sequence-classification"
    assert task_of(model, "token-classification").name == "token-classification", "as its owner says"
    assert not is_bare(model)
    assert is_bare(bare)
    assert not is_bare(nn.Linear(1, 1))
    with pytest.raises(UnsupportedModelError, match="BertModel is a bare encoder"):
        task_of(bare)
    assert task_of(SentenceEmbedding(bare, Steps())) == Task("embedding", "vector", ())
    assert "has no head of a supported kind (sequence-classification, " in no_head("BertThing")


@pytest.mark.parametrize(
    ("labels", "said"),
    [("ab", "labels are a list of names"), ([0, 1], "labels are a list"), (["a"], "2 outputs and 1 labels")],
)
def test_labels_that_are_no_names_for_the_outputs(labels, said):
    with pytest.raises(InputError, match=said):
        task_of(tiny.model("bert"), None, labels)
    assert task_of(tiny.model("bert"), None, ["no", "yes"]).labels == ("no", "yes")
    assert task_of(tiny.model("bert"), None, []).labels == ("LABEL_0", "LABEL_1")


def test_the_task_of_a_plain_module_is_what_its_owner_says():
    module = nn.Linear(1, 1)
    assert task_of(module, "masked-lm") == Task("masked-lm", "token", ())
    assert task_of(module, "causal-lm") == Task("causal-lm", "token", ())
    assert task_of(module, "question-answering") == Task("question-answering", "span", ("start", "end"))
    assert task_of(module, "token-classification", ["a"]) == Task("token-classification", "single-label", ("a",))
    assert task_of(module, "sequence-classification") == Task("sequence-classification", "single-label", ())


@pytest.mark.parametrize(
    ("name", "shape", "kind", "labels"),
    [
        ("sequence-classification", (1, 1), "regression", ("LABEL_0",)),
        ("sequence-classification", (1, 2), "single-label", ("LABEL_0", "LABEL_1")),
        ("token-classification", (1, 3, 1), "single-label", ("LABEL_0",)),
    ],
)
def test_a_plain_modules_answer_completes_its_task(name, shape, kind, labels):
    assert answering(Task(name, "single-label", ()), torch.zeros(shape), "M") == Task(name, kind, labels)
    wrong = torch.zeros((1, 2) if len(shape) == 3 else (1, 3, 2))
    wanted = "every token" if len(shape) == 3 else "the whole text"
    with pytest.raises(UnsupportedModelError, match=rf"shape \(1, [23, ]+\), and {name} needs logits for {wanted}"):
        answering(Task(name, "single-label", ()), wrong, "M")


def test_other_tasks_of_plain_modules_are_complete():
    for task in (Task("causal-lm", "token", ()), Task("question-answering", "span", ("start", "end"))):
        assert answering(task, torch.zeros(1, 3, 2), "M") is task
    named = Task("sequence-classification", "single-label", ("a", "b"))
    assert answering(named, torch.zeros(1, 2), "M").labels == ("a", "b")


@pytest.mark.parametrize("kind", ["single-label", "multi-label", "regression"])
def test_a_head_has_as_many_outputs_as_names_where_they_are_named(kind):
    task = Task("sequence-classification", kind, ("a", "b"))
    check_answer(task, torch.zeros(1, 2), "M", 0)
    for count in (1, 3):
        with pytest.raises(
            UnsupportedModelError, match=f"head of M answers with {count} numbers and .* names 2 labels"
        ):
            check_answer(task, torch.zeros(1, count), "M", 0)


def test_a_head_for_tokens_has_about_as_many_outputs_as_there_are_tokens():
    task = Task("causal-lm", "token", ())
    for count in (50, 99, 120):
        check_answer(task, torch.zeros(1, count), "M", 100)
    with pytest.raises(UnsupportedModelError, match="answers with 49 numbers and the tokenizer knows 100 tokens"):
        check_answer(task, torch.zeros(1, 49), "M", 100)


def test_families_that_read_from_left_to_right():
    def config(kind, **options):
        return SimpleNamespace(model_type=kind, **options)

    assert [causal(config(kind)) for kind in ("llama", "gpt2", "bert", "xlnet", "own")] == [
        True,
        True,
        False,
        True,
        False,
    ]
    assert causal(config("bert", is_decoder=True))
    assert causal(config("llama", is_decoder=False))


# --- where the answer stands ----------------------------------------------------------------------------------------


def batch_of(*specials, left=0):
    """Texts by whether each token is special, padded."""
    width = max(map(len, specials)) + left
    mask = torch.tensor([[False] * left + [True] * len(s) + [False] * (width - left - len(s)) for s in specials])
    own = [
        Encoding({"input_ids": [5] * len(s)}, ("x",) * len(s), None, None, (0,) * len(s), tuple(s)) for s in specials
    ]
    return Batch({"input_ids": torch.full(mask.shape, 5)}, mask, own, list(range(7, 7 + len(own))))


@pytest.mark.parametrize("left", [0, 2])
def test_the_first_entity_or_else_the_first_word(left):
    batch = batch_of([True, False, False, True], [True, False, False], left=left)
    logits = torch.zeros(2, 4 + left, 3)
    logits[..., 1] = 1.0  # all outside
    tagger = Task("token-classification", "single-label", ("PER", "O", "LOC"))
    assert tagger.positions(batch, None, logits).tolist() == [left + 1, left + 1]
    logits[:, left + 2, 0] = logits[:, left, 2] = 2.0  # an entity, and one at a special token
    logits[1, left + 2, 0] = 0.5
    assert tagger.positions(batch, None, logits).tolist() == [left + 2, left + 1]
    other = Task("token-classification", "single-label", ("PER", "X", "LOC"))
    assert other.positions(batch, None, logits).tolist() == [left + 1, left + 1], "no label means outside"
    batch.encodings[0].__dict__["position"] = 3
    assert tagger.positions(batch, None, logits).tolist() == [left + 3, left + 1], "as the caller says"
    with pytest.raises(ValueError, match="logits are needed"):
        tagger.positions(batch, None, None)
    assert Task("sequence-classification", "single-label", ()).positions(batch, None, None) is None


@pytest.mark.parametrize(("masks", "said"), [([], "nowhere"), ([1, 2], "2 times; choose one with position=")])
def test_a_text_with_no_mask_or_several_is_named(masks, said):
    batch, task = batch_of([False] * 3, [False] * 3), Task("masked-lm", "token", ())
    batch.inputs["input_ids"][0, 1] = 4
    batch.inputs["input_ids"][1, masks] = 4
    tokenizer = tiny.tokenizer()
    with pytest.raises(TargetError, match=rf"input 8 must hold the mask token 4 once; it stands there {said}"):
        task.positions(batch, tokenizer, None)
    batch.encodings[1].__dict__["position"] = 2
    assert task.positions(batch, tokenizer, None).tolist() == [1, 2]
    with pytest.raises(TargetError, match="tokenizer has no mask token"):
        task.positions(batch, SimpleNamespace(mask_token_id=None), None)


def test_logits_at_one_place_or_at_a_place_for_each_output():
    logits = torch.arange(12.0).view(2, 3, 2)
    assert at(logits, torch.tensor([2, 0])).tolist() == [[4, 5], [6, 7]]
    assert at(logits, torch.tensor([[2, 0], [1, 2]])).tolist() == [[4, 1], [8, 11]]
