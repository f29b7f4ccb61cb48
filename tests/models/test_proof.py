"""What a model is proved on."""

import pytest
import torch

from normxlogit import Explainer
from normxlogit.errors import HeadMismatchError, InputError, UnsupportedModelError
from normxlogit.models import proof
from normxlogit.models.proof import TOKENS, compare, first_alone, reading, sample_of
from normxlogit.models.task_model import TaskModel
from normxlogit.tasks.classification import Classification
from normxlogit.tasks.language import CausalLM
from tests import tiny
from tests.architectures.base import build

INPUTS = {"input_ids": torch.ones(1, 4, dtype=torch.long)}


def batch_of(texts, family="bert", kind="SequenceClassification", **options):
    task = TaskModel(tiny.model(family, kind), tiny.tokenizer(**options))
    return task, task.batch(task.encoder(texts), list(range(len(texts))))


def test_a_sample_has_no_padding_and_few_texts():
    task, batch = batch_of(["bad", "the movie is bad", "bad"])
    assert batch.padded
    sample = sample_of(batch, task.task, task.module)
    assert sample["input_ids"].tolist() == [batch.encodings[0].ids]
    assert sample["attention_mask"].all()
    task, batch = batch_of(["bad", "good", "awful"])
    assert sample_of(batch, task.task, task.module)["input_ids"].shape == (2, 3)


def test_a_sample_of_texts_that_are_padded_on_the_left_has_no_padding_either():
    task = TaskModel(tiny.model("xlnet"), tiny.tokenizer_for("xlnet"))
    assert task.pad_left, "its head takes the last position as it is"
    batch = task.batch(task.encoder(["bad", "the movie is bad"]), [0, 1])
    assert not batch.mask[0, 0]
    assert batch.mask[:, -1].all()
    sample = sample_of(batch, task.task, task.module)
    assert sample["input_ids"].tolist() == [batch.encodings[0].ids]
    assert sample["attention_mask"].all()


def test_a_sample_has_two_tokens_at_least_and_for_vocabularies_not_many():
    task, batch = batch_of(["bad"], specials=False)
    sample = sample_of(batch, task.task, task.module)
    assert sample["input_ids"].tolist() == [batch.encodings[0].ids * 2]
    assert sample["attention_mask"].tolist() == [[1, 1]]
    tokenizer = tiny.tokenizer(specials=False)
    tokenizer.model_max_length = 200
    task = TaskModel(tiny.model("llama", "CausalLM"), tokenizer)
    batch = task.batch(task.encoder(["bad " * 100]), [0])
    assert sample_of(batch, task.task, task.module)["input_ids"].shape == (1, TOKENS)


def test_the_first_text_by_itself():
    _, batch = batch_of(["bad", "the movie is bad"])
    row = min(range(2), key=lambda i: len(batch.encodings[i]))
    assert first_alone(batch)["input_ids"].tolist() == [batch.encodings[0].ids]
    assert row == 0


def test_a_copy_that_differs_is_refused():
    task, batch = batch_of(["the movie is bad"])
    row = first_alone(batch)
    compare(task.copy, row, row)
    task.module.classifier.register_forward_hook(lambda _, __, output: output + 0.01)
    with pytest.raises(HeadMismatchError, match=r"differ from the model's own by 0\.01"):
        compare(task.copy, row, row)


def test_a_copy_that_cannot_be_compared_is_a_note_on_results(monkeypatch):
    explainer, answers = Explainer(tiny.model("bert"), tiny.tokenizer()), [None, LOGITS]
    monkeypatch.setattr(proof, "private_clone", lambda model: lambda **inputs: {"logits": answers.pop()})
    explainer._model.copy.adapted = True
    notes = explainer(tiny.TEXTS[0], method="normxlogit").notes
    assert [note for note in notes if "returns no logits that the copy" in note]


def test_a_model_that_makes_as_many_distances_as_its_configuration_says_is_cut_there():
    model = build("causal-lm", "mpt")
    model.config.max_seq_len = 30
    tokenizer = tiny.tokenizer(specials=False)
    tokenizer.model_max_length = 1000
    assert Explainer(model, tokenizer)("the " * 30).notes == ()
    cut = Explainer(model, tokenizer)("the " * 31)
    assert (len(cut), cut.notes) == (30, ("the text has 31 tokens; only the first 30 were read",))
    with pytest.raises(InputError, match="31 tokens and the model reads 30; shorten it"):
        Explainer(model, tokenizer)("the " * 31, long_text="error")


def test_an_error_on_a_long_text_names_what_the_configuration_says_of_lengths_and_the_remedy():
    model = build("causal-lm", "prophetnet")  # its decoder looks up one row beyond each token's position
    inputs = {"input_ids": torch.full((1, 511), 7)}
    says = r"cannot read a text of 511 tokens: .*max_position_embeddings=512: .*set the tokenizer's model_max_length"
    with pytest.raises(InputError, match=says), reading(model, inputs):
        model(**inputs)


def test_errors_of_the_model_name_the_input_and_others_pass():
    model = tiny.model("bert")
    with (
        pytest.raises(InputError, match="BertForSequenceClassification cannot read a text of 4 tokens: ValueError: no"),
        reading(model, INPUTS),
    ):
        raise ValueError("no\nmore")
    with pytest.raises(UnsupportedModelError, match="mine"), reading(model, INPUTS):
        raise UnsupportedModelError("mine")
    with pytest.raises(MemoryError), reading(model, INPUTS):
        raise MemoryError
    with pytest.raises(ValueError, match="theirs"), reading(model, INPUTS, gradients=True):
        raise ValueError("theirs")


# --- on inputs and answers made by hand -----------------------------------------------------------------------------


CLASSIFIER, WRITER = Classification(), CausalLM()


LOGITS = torch.tensor([[1.0, 2.0]])
