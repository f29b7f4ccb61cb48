"""What a caller asks for, as outputs of the head."""

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from normxlogit import TargetError
from normxlogit.model.task_model import TaskModel
from normxlogit.tasks.language import CausalLM
from normxlogit.tasks.targets import BatchTargets, describe_targets, index_of, resolve
from tests import tiny


def ran(family="bert", kind="SequenceClassification", **options):
    task = TaskModel(tiny.model(family, kind, **options), tiny.tokenizer_for(family))
    texts = [tiny.PAIR, tiny.PAIR] if kind == "QuestionAnswering" else tiny.TEXTS[:2]
    batch = task.batch(task.encoder(texts), [0, 1])
    with torch.no_grad():
        return task, task.run(batch)


def test_a_token_is_the_start_of_a_word_where_there_is_one():
    backend = Tokenizer(models.WordLevel({"[UNK]": 0, "good": 1, "Ġgood": 2, "ly": 3}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    task = TaskModel(
        tiny.model("llama", "CausalLM"), PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]")
    )
    assert index_of(task.task, "good", tiny.SIZE) == 2
    assert index_of(task.task, " good", tiny.SIZE) == 2
    assert index_of(task.task, "ly", tiny.SIZE) == 3, "a piece that begins no word"


LOGITS = torch.tensor([[1.0, 2, 4, 8], [10, 20, 40, 80], [100, 200, 400, 800]])
WORDS = CausalLM()


def test_a_target_reads_its_logits_less_the_contrasts_of_its_own_text():
    ids, others = torch.tensor([[0, 3], [2, 1]]), torch.tensor([1, 3])
    plain, less = (BatchTargets(ids, contrast, None, True, WORDS) for contrast in (None, others))
    assert plain.select(LOGITS[:2]).tolist() == [[1, 8], [40, 20]]
    assert less.select(LOGITS[:2]).tolist() == [[-1, 6], [-40, -60]]
    texts = torch.tensor([1, 0, 1])
    assert plain.select(LOGITS, texts).tolist() == [[4, 2], [10, 80], [400, 200]]
    assert less.select(LOGITS, texts).tolist() == [[-4, -6], [-10, 60], [-400, -600]]


def test_targets_are_described_by_kind_name_and_place():
    task, _ = ran(num_labels=3)
    first, second = describe_targets(
        BatchTargets(None, None, None, True, task.task), np.array([[0, 2], [1, 1]]), np.array([1, 1]), None
    )
    assert [(t.kind, t.name, t.id) for t in first] == [("label", "LABEL_0", 0), ("label", "LABEL_2", 2)]
    assert {(t.contrast, t.contrast_id, t.position) for t in first} == {("LABEL_1", 1, None)}
    assert [t.name for t in second] == ["LABEL_1", "LABEL_1"]
    words, _ = ran("llama", "CausalLM")
    ((one,),) = describe_targets(
        BatchTargets(None, None, None, False, words.task), np.array([[7]]), None, np.array([4])
    )
    assert (one.kind, one.name, one.contrast, one.contrast_id, one.position) == ("token", "movie", None, None, 4)
    reader, _ = ran(kind="QuestionAnswering")
    places = np.array([[3, 5], [6, 6]])
    for ids, positions in (([0], [[3], [6]]), ([1], [[5], [6]]), ([0, 1], [[3, 5], [6, 6]])):
        found = describe_targets(BatchTargets(None, None, None, True, reader.task), np.array([ids] * 2), None, places)
        assert [[one.position for one in targets] for targets in found] == positions
    values, _ = ran(num_labels=1)
    ((one,), _) = describe_targets(BatchTargets(None, None, None, True, values.task), np.array([[0]] * 2), None, None)
    assert one.kind == "value"


def test_names_of_tokens():
    task, run = ran("llama", "CausalLM")
    assert task.output_count == tiny.SIZE
    assert task.task.output_name(7) == "movie"
    assert index_of(task.task, "##ly", tiny.SIZE) == tiny.VOCABULARY["##ly"], "a piece by its own name"
    for text, said in [("cats", "'cats' is not one token for this model but 'cat', '##s'"), ("zzz", r"but '\[UNK\]'")]:
        with pytest.raises(TargetError, match=said):
            index_of(task.task, text, tiny.SIZE)
    assert resolve(task.task, run, "movie", "film").contrast.tolist() == [8, 8]
