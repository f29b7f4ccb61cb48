import torch

from normxlogit.model.model_copy import sample_of
from normxlogit.model.task_model import TaskModel
from tests import tiny


def test_a_sample_of_texts_that_are_padded_on_the_left_has_no_padding_either():
    task = TaskModel(tiny.model("xlnet"), tiny.tokenizer_for("xlnet"))
    assert task.pad_left, "its head takes the last position as it is"
    batch = task.batch(task.encoder(["bad", "the movie is bad"]), [0, 1])
    assert not batch.mask[0, 0]
    assert batch.mask[:, -1].all()
    sample = sample_of(batch, task.task)
    assert sample["input_ids"].tolist() == [batch.encodings[0].ids]
    assert sample["attention_mask"].all()


def test_on_which_side_is_padded_and_where_padding_would_be_taken_for_text():
    for family, kind, left in [
        ("xlnet", "SequenceClassification", True),
        ("xlnet", "TokenClassification", False),
        ("electra", "MultipleChoice", False),
    ]:
        assert TaskModel(tiny.model(family, kind), tiny.tokenizer_for(family)).pad_left is left
    for family, kind, pad, together in [
        ("llama", "SequenceClassification", None, False),
        ("llama", "SequenceClassification", 0, True),
        ("llama", "CausalLM", None, True),
        ("xlnet", "SequenceClassification", None, True),
    ]:
        model = tiny.model(family, kind)
        model.config.pad_token_id = pad
        assert TaskModel(model, tiny.tokenizer_for(family)).copy.padding.refuted is not together


def test_a_sample_of_one_token_has_it_twice_at_two_places():
    task = TaskModel(tiny.model("bert"), tiny.tokenizer_for("bert"))
    batch = task.batch([encoding.take([1]) for encoding in task.encoder(["bad"])], [0])
    batch.inputs["position_ids"] = torch.tensor([[4]])
    sample = sample_of(batch, task.task)
    assert sample["input_ids"].tolist() == [batch.encodings[0].ids * 2]
    assert sample["attention_mask"].tolist() == [[1, 1]]
    assert sample["position_ids"].tolist() == [[4, 5]]
