"""A task model: what it is called, what a pass computes and keeps, and what it refuses."""

from dataclasses import replace

import pytest
import torch

from normxlogit.errors import HeadMismatchError, UnsupportedModelError
from normxlogit.models.task_model import TaskModel
from tests import tiny
from tests.contract.test_own_answers import CLOSE


def made(family="bert", kind="SequenceClassification", texts=tiny.TEXTS, **options):
    task = TaskModel(tiny.model(family, kind, **options), tiny.tokenizer_for(family))
    return task, task.batch(task.encoder(texts), list(range(len(texts))))


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


def test_a_head_that_sees_other_tokens_reads_the_whole_text_and_the_last_layer_is_what_it_reads():
    task, batch = made(kind="TokenClassification")
    with torch.no_grad():
        run = task.run(batch, layers=True)
        alone = task.read(run.hidden, batch)
        task.copy.parts = replace(task.copy.parts, tokenwise=False)
        torch.testing.assert_close(task.read(run.hidden, batch), alone, **CLOSE)
        torch.testing.assert_close(
            task.read(run.hidden, batch), task.caller_model(**batch.inputs).logits[batch.mask], **CLOSE
        )
        assert task.final(run, 3) is run.hidden
        torch.testing.assert_close(task.final(run, 2)[batch.mask], run.states[2][batch.mask])
    assert task.layer_count() == 3
    task.copy.parts = replace(task.copy.parts, layers=None)
    with pytest.raises(UnsupportedModelError, match="layers of BertForTokenClassification cannot be read one by one"):
        task.layer_count()


@pytest.mark.parametrize("name", ["states_of", "hidden_of", "answer_of", "embedded"])
@pytest.mark.parametrize("layers", [True, False])
def test_a_model_that_gives_no_states_or_logits_is_refused(monkeypatch, name, layers):
    task, batch = made()
    with torch.no_grad():
        own = task.run(batch).logits
        if name == "embedded":
            task.copy.parts = replace(task.copy.parts, embedding_tap=None)
            torch.testing.assert_close(task.run(batch, layers=layers).embedded.shape, (3, len(batch.mask[0]), 32))
            name = "embedded_of"
        room = "surgery.parts" if name == "hidden_of" else "models.task_model"
        monkeypatch.setattr(f"normxlogit.{room}.{name}", lambda _: None)
        if name == "states_of" and not layers:
            torch.testing.assert_close(task.run(batch).logits, own)
            return
        says = {"hidden_of": "returned no hidden states", "answer_of": None}.get(
            name, "does not give its layers' outputs"
        )
        if says is None:  # the head is run over the states again
            torch.testing.assert_close(task.run(batch, layers=layers).logits, own, **CLOSE)
            with pytest.raises(HeadMismatchError, match="returned no logits"):
                task.answer(batch.inputs)
            return
        with pytest.raises((UnsupportedModelError, HeadMismatchError), match=says):
            _ = task.run(batch, layers=layers).embedded
        if name == "hidden_of":
            with pytest.raises(HeadMismatchError, match=says):
                task.states(batch)
