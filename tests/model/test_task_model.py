"""A task model: what it is called, what a pass computes and keeps, and what it refuses."""

from normxlogit.model.task_model import TaskModel
from tests import tiny


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
