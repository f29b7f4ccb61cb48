"""What a caller asks for, as outputs of the head."""

import numpy as np
import pytest
import torch

from normxlogit import ALL, TargetError
from normxlogit.models.predictions import top_predictions
from normxlogit.models.targets import check_target, choice_from_text, index_of, is_choice, resolve
from normxlogit.models.task_model import TaskModel
from normxlogit.models.tasks import Task
from tests import tiny


def ran(family="bert", kind="SequenceClassification", **options):
    task = TaskModel(tiny.model(family, kind, **options), tiny.tokenizer_for(family))
    batch = task.batch(task.encoder(tiny.TEXTS[:2]), [0, 1])
    with torch.no_grad():
        return task, task.run(batch)


LABELS = {"id2label": {0: "all", 1: "7", 2: "Good"}, "label2id": {"all": 0, "7": 1, "Good": 2}}


def test_labels_are_never_magic_words():
    task, run = ran(**LABELS)
    assert resolve(task, run, "all").ids.tolist() == [[0], [0]]
    assert resolve(task, run, "7").ids.tolist() == [[1], [1]]
    assert resolve(task, run, "good").ids.tolist() == [[2], [2]], "case folds where nothing else fits"
    every = resolve(task, run, ALL)
    assert (every.ids.tolist(), every.labelled) == ([[0, 1, 2]] * 2, True)
    assert choice_from_text(task, "7") == "7", "a label of digits is a label"
    assert choice_from_text(task, "2") == 2


def test_each_text_has_its_own():
    task, run = ran()
    found = resolve(task, run, each=["LABEL_1", np.int64(0)])
    assert (found.ids.tolist(), found.labelled) == ([[1], [0]], False)


@pytest.mark.parametrize("choice", [True, np.bool_(True), None, 1.0, torch.tensor([1, 2]), b"a", ["a"]])
def test_what_is_no_choice(choice):
    assert not is_choice(choice)
    task, run = ran()
    with pytest.raises(TargetError, match="a name or an index"):
        index_of(task, choice, run.logits.shape[-1])


@pytest.mark.parametrize("choice", [1, np.int8(1), torch.tensor(1), "LABEL_1"])
def test_what_is_one(choice):
    task, _ = ran()
    assert index_of(task, choice, 2) == 1


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("no such", "no label 'no such'"),
        (9, "outside the model's 2 outputs"),
        (-1, "outside"),
        ([], "empty"),
        ({}, "not dict"),
    ],
)
def test_what_does_not_exist(spec, said):
    task, run = ran()
    with pytest.raises(TargetError, match=said):
        resolve(task, run, spec)


def test_a_whole_vocabulary_is_refused():
    task, run = ran("llama", "CausalLM")
    with pytest.raises(TargetError, match="whole vocabulary"):
        resolve(task, run, ALL)


def test_many_labels_are_not_all_listed():
    names = {i: f"label number {i}" for i in range(1000)}
    task, run = ran(id2label=names, label2id={v: k for k, v in names.items()})
    with pytest.raises(TargetError, match="and 980 more") as error:
        resolve(task, run, "nothing")
    assert len(str(error.value)) < 1000


def test_the_largest_logit_its_index_and_its_probability():
    logits = torch.tensor([[1.0, 3.0], [0.0, -1.0]])
    single, many = (
        top_predictions(Task("sequence-classification", k, ("a", "b")), logits) for k in ("single-label", "multi-label")
    )
    np.testing.assert_allclose(single[:, :2], [[3, 1], [0, 0]])
    np.testing.assert_allclose(single[:, 2], logits.softmax(-1).amax(-1))
    np.testing.assert_allclose(many[:, 2], logits.amax(-1).sigmoid())


def test_what_holds_for_no_text_is_refused_before_one_is_read():
    task, _ = ran()
    check_target(task, None, None)
    check_target(task, ALL, 1)
    check_target(task, None, 1, [0, 0])
    for spec, contrast, each, says in [
        ("no such", None, None, "no label 'no such'"),
        (2, None, None, "outside the model's 2 outputs"),
        (None, 2, None, "outside the model's 2 outputs"),
        (None, None, [0, "no such"], "no label"),
        (["LABEL_0", 1], "LABEL_1", None, "the target 'LABEL_1' is also the contrast"),
        (None, 0, [1, 0], "the target 0 is also the contrast"),
    ]:
        with pytest.raises(TargetError, match=says):
            check_target(task, spec, contrast, each)
    words = TaskModel(tiny.model("llama", "CausalLM"), tiny.tokenizer_for("llama"))
    with pytest.raises(TargetError, match="outside the model's 64 outputs"):
        check_target(words, tiny.SIZE, None)
    check_target(words, tiny.SIZE - 1, None)
