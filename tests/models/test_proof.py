"""What a model is proved on."""

from types import SimpleNamespace

import pytest
import torch

from normxlogit import Explainer
from normxlogit.errors import HeadMismatchError, InputError, UnsupportedModelError
from normxlogit.inputs.batching import Batch
from normxlogit.inputs.encoding import Encoding
from normxlogit.models import proof
from normxlogit.models.proof import TOKENS, compare, failed_inside, first_alone, reading, sample_of
from normxlogit.models.task_model import TaskModel
from normxlogit.tasks.classification import Classification
from normxlogit.tasks.image import ImageClassification
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
    sample = sample_of(batch, task.task)
    assert sample["input_ids"].tolist() == [batch.encodings[0].ids]
    assert sample["attention_mask"].all()
    task, batch = batch_of(["bad", "good", "awful"])
    assert sample_of(batch, task.task)["input_ids"].shape == (2, 3)


def test_a_sample_of_texts_that_are_padded_on_the_left_has_no_padding_either():
    task = TaskModel(tiny.model("xlnet"), tiny.tokenizer_for("xlnet"))
    assert task.pad_left, "its head takes the last position as it is"
    batch = task.batch(task.encoder(["bad", "the movie is bad"]), [0, 1])
    assert not batch.mask[0, 0]
    assert batch.mask[:, -1].all()
    sample = sample_of(batch, task.task)
    assert sample["input_ids"].tolist() == [batch.encodings[0].ids]
    assert sample["attention_mask"].all()


def test_a_sample_has_two_tokens_at_least_and_for_vocabularies_not_many():
    task, batch = batch_of(["bad"], specials=False)
    sample = sample_of(batch, task.task)
    assert sample["input_ids"].tolist() == [batch.encodings[0].ids * 2]
    assert sample["attention_mask"].tolist() == [[1, 1]]
    tokenizer = tiny.tokenizer(specials=False)
    tokenizer.model_max_length = 200
    task = TaskModel(tiny.model("llama", "CausalLM"), tokenizer)
    batch = task.batch(task.encoder(["bad " * 100]), [0])
    assert sample_of(batch, task.task)["input_ids"].shape == (1, TOKENS)


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


def by_hand(lengths, *, left=False, **more):
    """A batch of texts of given lengths, padded with 0."""
    width = max(lengths)
    mask = torch.tensor([[(t >= width - n) if left else (t < n) for t in range(width)] for n in lengths])
    texts = [Encoding({"input_ids": [7] * n}, ("x",) * n, None, None, (0,) * n, (False,) * n) for n in lengths]
    inputs = {"input_ids": torch.arange(1, mask.numel() + 1).view(mask.shape) * mask, "attention_mask": mask.long()}
    return Batch(inputs | more, mask, texts, list(range(len(lengths))))


CLASSIFIER, WRITER = Classification(), CausalLM()


def test_a_sample_is_the_first_text_and_the_second_if_it_is_as_long():
    for lengths, rows in [((2, 3, 2), [0]), ((3, 3, 3), [0, 1]), ((2,), [0]), ((3, 2, 3), [0])]:
        batch = by_hand(lengths, picture=torch.arange(len(lengths))[:, None, None])
        sample = sample_of(batch, CLASSIFIER)
        assert sample["input_ids"].tolist() == [batch.inputs["input_ids"][row][: lengths[0]].tolist() for row in rows]
        assert sample["picture"].flatten().tolist() == rows, "what does not run along the tokens goes with its text"


def test_a_sample_of_one_token_gets_another_behind_it_where_there_are_words():
    batch = by_hand((1,), position_ids=torch.tensor([[4]]))
    sample = sample_of(batch, CLASSIFIER)
    assert {name: value.tolist() for name, value in sample.items()} == {
        "input_ids": [[1, 1]],
        "attention_mask": [[1, 1]],
        "position_ids": [[4, 5]],
    }
    picture = sample_of(batch, ImageClassification())
    assert picture["input_ids"].tolist() == [[1]]


def test_only_samples_of_language_models_are_cut():
    for task, width in ((CLASSIFIER, 70), (WRITER, TOKENS)):
        assert sample_of(by_hand((70,)), task)["input_ids"].tolist() == [list(range(1, width + 1))]
    assert sample_of(by_hand((3,)), WRITER)["input_ids"].shape == (1, 3)


def test_the_first_text_has_neither_padding_nor_neighbours():
    for left in (False, True):
        found = first_alone(by_hand((2, 3), left=left, picture=torch.tensor([[[5]], [[6]]])))
        assert found["attention_mask"].tolist() == [[1, 1]]
        assert found["input_ids"].tolist() == [[2, 3] if left else [1, 2]]
        assert found["picture"].tolist() == [[[5]]]


LOGITS = torch.tensor([[1.0, 2.0]])


@pytest.mark.parametrize(
    ("found", "wanted", "said"),
    [
        (LOGITS, LOGITS, None),
        (None, LOGITS, None),
        (LOGITS, None, None),
        (LOGITS, LOGITS * torch.nan, "by nan"),
        (LOGITS * torch.nan, LOGITS * torch.nan, None),
        (LOGITS * torch.nan, LOGITS, "by nan"),
        (LOGITS[:, :1], LOGITS, "by inf"),
        (LOGITS - 0.5, LOGITS, r"by 0\.5"),
        (LOGITS + 0.5, LOGITS, r"by 0\.5"),
    ],
)
def test_a_copy_is_compared_where_there_is_something_to_compare(monkeypatch, found, wanted, said):
    monkeypatch.setattr(proof, "private_clone", lambda model: model)
    monkeypatch.setattr(proof, "answer_of", lambda output: output)
    copy = SimpleNamespace(module=lambda **_: found, called=lambda **_: wanted)
    if said is None:
        compare(copy, {}, {})
        return
    with pytest.raises(HeadMismatchError, match=said):
        compare(copy, {}, {})


def test_an_error_says_how_much_was_read_and_what_the_model_did():
    for inputs, options, said in [
        ({"input_ids": torch.ones(2, 4)}, {}, r"Linear cannot read 2 texts of 4 tokens: RuntimeError: $"),
        ({"input_ids": torch.ones(1, 3)}, {"doing": "continue"}, "Linear cannot continue a text of 3 tokens: "),
        ({"pixel_values": torch.ones(2, 4)}, {}, "cannot read a text of 0 tokens"),
    ]:
        with pytest.raises(InputError, match=said) as caught, reading(torch.nn.Linear(1, 1), inputs, **options):
            raise RuntimeError
        assert failed_inside(caught.value)
    assert not failed_inside(InputError("the caller's"))


@pytest.mark.parametrize(("tokens", "named"), [(36, "max_position_embeddings=40"), (35, None), (400, "=40")])
def test_a_setting_is_named_where_the_text_reaches_it(tokens, named):
    model = tiny.model("bert", own_positions=1, takes_positions=True, position_name="x")
    said = proof._bounds(model, tokens)
    assert (named in said) if named else not said
    assert "own_positions" not in said
    assert "takes_positions" not in said
    assert not proof._bounds(torch.nn.Linear(1, 1), tokens)
