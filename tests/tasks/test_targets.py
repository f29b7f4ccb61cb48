"""What a caller asks for, as outputs of the head."""

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from normxlogit import TargetError
from normxlogit.models.task_model import TaskModel
from normxlogit.tasks.classification import Classification
from normxlogit.tasks.language import CausalLM
from normxlogit.tasks.targets import (
    Target,
    choice_from_text,
    describe_targets,
    index_of,
    name_of,
    output_count,
    resolve,
    same_as_contrast,
)
from tests import tiny


def ran(family="bert", kind="SequenceClassification", **options):
    task = TaskModel(tiny.model(family, kind, **options), tiny.tokenizer_for(family))
    batch = task.batch(task.encoder(tiny.TEXTS[:2]), [0, 1])
    with torch.no_grad():
        return task, task.run(batch)


LABELS = {"id2label": {0: "all", 1: "7", 2: "Good"}, "label2id": {"all": 0, "7": 1, "Good": 2}}


def test_the_largest_logit_its_index_and_its_probability():
    logits = torch.tensor([[1.0, 3.0], [0.0, -1.0]])
    single, many = (Classification(("a", "b"), None, k).top(logits) for k in ("single-label", "multi-label"))
    np.testing.assert_allclose(single[:, :2], [[3, 1], [0, 0]])
    np.testing.assert_allclose(single[:, 2], logits.softmax(-1).amax(-1))
    np.testing.assert_allclose(many[:, 2], logits.amax(-1).sigmoid())


def test_a_token_is_the_start_of_a_word_where_there_is_one():
    backend = Tokenizer(models.WordLevel({"[UNK]": 0, "good": 1, "Ġgood": 2, "ly": 3}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    task = TaskModel(
        tiny.model("llama", "CausalLM"), PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]")
    )
    assert index_of(task, "good", tiny.SIZE) == 2
    assert index_of(task, " good", tiny.SIZE) == 2
    assert index_of(task, "ly", tiny.SIZE) == 3, "a piece that begins no word"


# --- on numbers worked out by hand ----------------------------------------------------------------------------------

LOGITS = torch.tensor([[1.0, 2, 4, 8], [10, 20, 40, 80], [100, 200, 400, 800]])
WORDS = CausalLM()


def test_a_target_reads_its_logits_less_the_contrasts_of_its_own_text():
    ids, others = torch.tensor([[0, 3], [2, 1]]), torch.tensor([1, 3])
    plain, less = (Target(ids, contrast, None, True, WORDS) for contrast in (None, others))
    assert plain.read(LOGITS[:2]).tolist() == [[1, 8], [40, 20]]
    assert less.read(LOGITS[:2]).tolist() == [[-1, 6], [-40, -60]]
    texts = torch.tensor([1, 0, 1])
    assert plain.read(LOGITS, texts).tolist() == [[4, 2], [10, 80], [400, 200]]
    assert less.read(LOGITS, texts).tolist() == [[-4, -6], [-10, 60], [-400, -600]]


@pytest.mark.parametrize("others", [None, torch.tensor([1, 2])])
def test_a_target_needs_no_other_rows_of_the_vocabulary(others):
    target = Target(torch.tensor([[3, 0], [3, 2]]), others, torch.tensor([5, 6]), False, WORDS)
    rows, counted = target.rows()
    assert rows.tolist() == [0, 2, 3] if others is None else [0, 1, 2, 3]
    assert counted.read(LOGITS[:2][:, rows]).tolist() == target.read(LOGITS[:2]).tolist()
    assert (counted.positions.tolist(), counted.labelled, counted.task) == ([5, 6], False, WORDS)


def test_a_target_that_is_its_own_contrast_is_noted():
    (note,) = same_as_contrast([4, 5], 5, "five")
    assert note.startswith("'five' is both target and contrast")
    assert same_as_contrast([4, 5], 6, "six") == same_as_contrast([4], None, None) == ()


def test_targets_are_described_by_kind_name_and_place():
    task, _ = ran(num_labels=3)
    first, second = describe_targets(
        task, Target(None, None, None, True, task.task), np.array([[0, 2], [1, 1]]), np.array([1, 1]), None
    )
    assert (first.kind, first.labels, first.ids) == ("label", ("LABEL_0", "LABEL_2"), (0, 2))
    assert (first.contrast, first.contrast_id, first.position) == ("LABEL_1", 1, None)
    assert second.labels == ("LABEL_1", "LABEL_1")
    words, _ = ran("llama", "CausalLM")
    (one,) = describe_targets(words, Target(None, None, None, False, words.task), np.array([[7]]), None, np.array([4]))
    assert (one.kind, one.labels, one.contrast, one.contrast_id, one.position) == ("token", ("movie",), None, None, 4)
    reader, _ = ran(kind="QuestionAnswering")
    places = np.array([[3, 5], [6, 6]])
    for ids, positions in (([0], [3, 6]), ([1], [5, 6]), ([0, 1], [None, 6])):
        found = describe_targets(reader, Target(None, None, None, True, reader.task), np.array([ids] * 2), None, places)
        assert [one.position for one in found] == positions
    values, _ = ran(num_labels=1)
    (one, _) = describe_targets(values, Target(None, None, None, True, values.task), np.array([[0]] * 2), None, None)
    assert one.kind == "value"


def labelled(*names):
    names = dict(enumerate(names))
    return TaskModel(
        tiny.model("bert", id2label=names, label2id={v: k for k, v in names.items()}), tiny.tokenizer_for("bert")
    )


def test_names_of_labels():
    task = labelled("good", "GOOD", "Bad")
    assert [index_of(task, name, 3) for name in ("good", "GOOD", "BAD")] == [0, 1, 2], "as written, before case folds"
    with pytest.raises(TargetError, match=r"more than one label 'Good'; the model knows 'good', 'GOOD', 'Bad'$"):
        index_of(task, "Good", 3)
    assert [choice_from_text(task, text) for text in ("bad", "1", "²", "٣", "x1", "")] == ["bad", 1, "²", "٣", "x1", ""]
    for count, ending in ((20, "'name 19'$"), (21, "'name 19' and 1 more$")):
        with pytest.raises(TargetError, match=ending):
            index_of(labelled(*(f"name {i}" for i in range(count))), "no", count)
    assert name_of(task, 2) == "Bad"
    assert output_count(task) == 3


def test_names_of_tokens():
    task, run = ran("llama", "CausalLM")
    assert output_count(task) == tiny.SIZE
    assert name_of(task, 7) == "movie"
    assert index_of(task, "##ly", tiny.SIZE) == tiny.VOCABULARY["##ly"], "a piece by its own name"
    for text, said in [
        ("cats", r"'cats' is not one token for this model but 'cat', '##s'; choose"),
        ("", "but nothing; choose"),
        ("zzz", r"but '\[UNK\]'; choose"),
        ("cat" + "s" * 19, r"(, '##s'){19}; choose"),
        ("cat" + "s" * 22, r"(, '##s'){19} and 3 more; choose"),
        ("\ud800", "half a character"),
        ("a\udfff", "half a character"),
    ]:
        with pytest.raises(TargetError, match=said):
            index_of(task, text, tiny.SIZE)
    assert resolve(task, run, "movie", "film").contrast.tolist() == [8, 8]
