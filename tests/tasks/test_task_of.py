"""What a model is for: by its class and settings, or as its owner says."""

import ast
import re
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest
import torch
import transformers
from torch import nn

import normxlogit
from normxlogit.errors import InputError, TargetError, UnsupportedModelError
from normxlogit.inputs.batching import Batch
from normxlogit.inputs.encoding import Encoding
from normxlogit.models.input_limits import autoregressive
from normxlogit.tasks import TASKS, TaskName, is_bare, no_head, task_name, task_of
from normxlogit.tasks.classification import Classification
from normxlogit.tasks.language import MaskedLM
from normxlogit.tasks.positions import at
from normxlogit.tasks.sentence_embedding import SentenceEmbedding, Steps
from normxlogit.tasks.tagging import TokenClassification
from tests import tiny

SOURCE = Path(normxlogit.__file__).parent


def test_only_tasks_ask_which_task_it_is():
    kinds = {task.__name__ for task in TASKS.values()} | {"Task", "TaskModel"}
    for file in SOURCE.rglob("*.py"):
        if file.parent.name == "tasks":
            continue
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"\bmodel\.task\.name (==|!=|in|not in)\b|\btask\.kind\b", text), file
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
                assert not kinds & {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}, file


def test_every_name_has_a_task():
    assert get_args(TaskName) == tuple(TASKS)
    for task in TASKS.values():
        assert hasattr(transformers, task.auto_class)
        assert not task.mapping or hasattr(transformers.models.auto.modeling_auto, task.mapping)


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
    ("count", "problem", "expected"),
    [
        (3, None, "single-label"),
        (1, None, "regression"),
        (3, "regression", "regression"),
        (3, "multi_label_classification", "multi-label"),
    ],
)
def test_what_the_outputs_of_a_classifier_are(count, problem, expected):
    task = task_of(tiny.model("bert", num_labels=count, problem_type=problem))
    assert (task.name, task.problem) == ("sequence-classification", expected)
    assert task.labels == tuple(f"LABEL_{i}" for i in range(count))
    tagger = task_of(tiny.model("bert", "TokenClassification", num_labels=count, problem_type=problem))
    assert tagger.problem == "single-label", "tags are labels, whatever the settings"


def test_a_subclass_is_still_the_model_that_it_comes_from():
    class Own(transformers.BertForSequenceClassification):
        pass

    model = tiny.model("bert")
    bare = model.bert
    model.__class__ = Own
    assert task_of(model).name == "sequence-classification"
    assert task_of(model, "token-classification").name == "token-classification", "as its owner says"
    assert [is_bare(part) for part in (model, bare, nn.Linear(1, 1))] == [False, True, False]
    with pytest.raises(UnsupportedModelError, match="BertModel is a bare encoder"):
        task_of(bare)
    assert task_of(SentenceEmbedding(bare, Steps())).name == "embedding"
    assert "has no head of a supported kind (sequence-classification, " in no_head("BertThing")


@pytest.mark.parametrize(
    ("labels", "message"),
    [("ab", "labels are a list of names"), ([0, 1], "labels are a list"), (["a"], "2 outputs and 1 labels")],
)
def test_labels_that_do_not_name_the_outputs(labels, message):
    with pytest.raises(InputError, match=message):
        task_of(tiny.model("bert"), None, labels)
    assert task_of(tiny.model("bert"), None, ["no", "yes"]).labels == ("no", "yes")
    assert task_of(tiny.model("bert"), None, []).labels == ("LABEL_0", "LABEL_1")


def test_families_that_read_from_left_to_right():
    kinds = ("llama", "gpt2", "bert", "xlnet", "own")
    assert [autoregressive(SimpleNamespace(model_type=kind)) for kind in kinds] == [True, True, False, True, False]
    assert autoregressive(SimpleNamespace(model_type="bert", is_decoder=True))


# --- where the answer is read ----------------------------------------------------------------------------------------


def batch_of(*specials, left=0):
    """Texts by whether each token is special, padded."""
    width = max(map(len, specials)) + left
    mask = torch.tensor([[False] * left + [True] * len(s) + [False] * (width - left - len(s)) for s in specials])
    encodings = [
        Encoding({"input_ids": [5] * len(s)}, ("x",) * len(s), None, None, (0,) * len(s), tuple(s)) for s in specials
    ]
    inputs = {"input_ids": torch.full(mask.shape, 5)}
    return Batch(inputs, mask, encodings, list(range(7, 7 + len(encodings))))


@pytest.mark.parametrize("left", [0, 2])
def test_the_first_entity_or_else_the_first_word(left):
    batch = batch_of([True, False, False, True], [True, False, False], left=left)
    logits = torch.zeros(2, 4 + left, 3)
    logits[..., 1] = 1.0  # all outside
    tagger = TokenClassification(("PER", "O", "LOC"))
    assert tagger.positions(batch, logits).tolist() == [left + 1, left + 1]
    logits[:, left + 2, 0] = logits[:, left, 2] = 2.0  # an entity, and one at a special token
    logits[1, left + 2, 0] = 0.5
    assert tagger.positions(batch, logits).tolist() == [left + 2, left + 1]
    other = TokenClassification(("PER", "X", "LOC"))
    assert other.positions(batch, logits).tolist() == [left + 1, left + 1], "no label means outside"
    batch.encodings[0].__dict__["position"] = 3
    assert tagger.positions(batch, logits).tolist() == [left + 3, left + 1], "as the caller says"
    assert Classification(("a",)).positions(batch, None) is None


@pytest.mark.parametrize(("masks", "message"), [([], "nowhere"), ([1, 2], "2 times; choose one with position=")])
def test_a_text_with_no_mask_or_several_is_named(masks, message):
    batch, task = batch_of([False] * 3, [False] * 3), MaskedLM((), tiny.tokenizer())
    batch.inputs["input_ids"][0, 1] = 4
    batch.inputs["input_ids"][1, masks] = 4
    with pytest.raises(
        TargetError, match=rf"input 8 must hold the mask token \[MASK\] once; it stands there {message}"
    ):
        task.positions(batch, None)
    batch.encodings[1].__dict__["position"] = 2
    assert task.positions(batch, None).tolist() == [1, 2]
    with pytest.raises(TargetError, match="tokenizer has no mask token"):
        MaskedLM((), SimpleNamespace(mask_token_id=None)).positions(batch, None)


def test_logits_at_one_place_or_at_a_place_for_each_output():
    logits = torch.arange(12.0).view(2, 3, 2)
    assert at(logits, torch.tensor([2, 0])).tolist() == [[4, 5], [6, 7]]
    assert at(logits, torch.tensor([[2, 0], [1, 2]])).tolist() == [[4, 1], [8, 11]]
