import math
from dataclasses import replace

import pytest
import torch
from torch.optim.swa_utils import AveragedModel

from normxlogit import Explainer, InputError, TargetError, UnsupportedModelError
from normxlogit.inputs.batches import Batch
from normxlogit.inputs.encoding import Encoding
from normxlogit.model.forward_pass import ForwardPass
from normxlogit.tasks.question_answering import AtSpan
from tests import tiny


def test_a_position_chooses_among_several_masks():
    explainer = tiny.explainer("bert", "MaskedLM")
    text = "the [MASK] sat on the [MASK] here"
    with pytest.raises(TargetError, match="choose one with position="):
        explainer(text)
    first, second = (explainer(text, position=place, target="cat", method="normxlogit") for place in (2, 6))
    assert (first.target.position, second.target.position) == (2, 6)
    assert first.prediction.value != second.prediction.value
    assert (first.scores == second.scores).all()  # the score of a token for a word does not depend on the place


READER = AtSpan()


def reading(length, starts, ends, *, first_special=True, padding=0):
    """A question of one token and a context up to the last token, with start and end logits at the places given."""
    sequences = (None if first_special else 0, 0, None, *[1] * (length - 4), None)
    special = tuple(s is None for s in sequences)
    encoding = Encoding({"input_ids": [5] * length}, ("x",) * length, None, None, sequences, special)
    logits = torch.full((1, length + padding, 2), -9.0)
    for column, values in enumerate((starts, ends)):
        for place, value in values.items():
            logits[0, place, column] = value
    mask = torch.tensor([[True] * length + [False] * padding])
    return READER.of_batch(Batch({}, mask, [encoding], [0]), logits)[0].tolist()


@pytest.mark.parametrize(
    ("length", "starts", "ends", "options", "answer"),
    [
        (40, {5: 3.0}, {19: 3.0, 8: 2.0}, {}, [5, 19]),  # fifteen tokens
        (40, {5: 3.0}, {20: 3.0, 8: 2.0}, {}, [5, 8]),  # sixteen are too many
        (12, {6: 3.0}, {6: 3.0}, {}, [6, 6]),
        (12, {3: 3.0}, {10: 3.0}, {}, [3, 10]),  # the first and the last token of the context
        (12, {10: 3.0}, {3: 3.0, 10: 1.0}, {}, [10, 10]),  # an end before the start is none
        (12, {6: 3.0, 11: 9.0}, {7: 3.0, 11: 9.0, 1: 9.0}, {}, [6, 7]),  # only the context holds answers
        (12, {6: 3.0, 13: 9.0}, {7: 3.0, 13: 9.0}, {"padding": 3}, [6, 7]),  # nor does padding
        (12, {0: 4.0, 6: 3.0}, {0: 3.0, 7: 3.0}, {}, [0, 0]),  # no answer, where its own sum is larger
        (12, {0: 3.0, 6: 3.0}, {0: 3.0, 7: 3.0}, {}, [6, 7]),  # not where it is equal
        (12, {0: 4.0, 6: 3.0}, {0: 3.0, 7: 3.0}, {"first_special": False}, [6, 7]),  # nor by a word
    ],
)
def test_an_answer_is_the_best_span_of_the_context_or_none(length, starts, ends, options, answer):
    assert reading(length, starts, ends, **options) == answer


def test_an_answer_is_what_stands_between_its_ends():
    sequences = (None, 0, None, 1, 1, 1, None)
    offsets = ((0, 0), (0, 1), (0, 0), (0, 3), (3, 7), (8, 11), (0, 0))
    special = tuple(s is None for s in sequences)
    tokens = ("[CLS]", "x", "[SEP]", "the", " cat", "sat", "[SEP]")
    pair = Encoding({"input_ids": [5] * 7}, tokens, offsets, None, sequences, special, "x", "the cat sat on")
    logits = torch.zeros(1, 9, 2)
    logits[0, 3, 0] = logits[0, 4, 1] = 2.0
    mask = torch.tensor([[False] * 2 + [True] * 7])  # padded on the left

    def said(encoding, start, end):
        batch = Batch({}, mask, [encoding], [0])
        empty = torch.zeros(1, 9, 1)
        places = torch.tensor([[start, end]])
        run = ForwardPass(batch, empty, empty, None, logits[:, [start, end], [0, 1]], None, places, logits)
        (found,) = READER.spans(run)
        return found

    one = said(pair, 5, 6)
    assert (one.label, one.id) == ("the cat", 3)
    assert said(replace(pair, offsets=None), 5, 6).label == "the cat"
    assert said(replace(pair, text_pair=None), 6, 6).label == "cat", "its tokens, without the space"
    assert said(pair, 2, 2).label == "", "no answer"
    e = math.exp(2)
    assert said(pair, 3, 4).value == 4.0
    whole = logits[0, 2:].softmax(0)
    assert said(pair, 3, 4).probability == pytest.approx(float(whole[1, 0] * whole[2, 1]))
    assert whole[1, 0] == pytest.approx(e / (e + 6)), "padding has no part in it"
    with pytest.raises(ValueError, match="not the forward pass of a question-answering model"):
        READER.spans(ForwardPass(Batch({}, mask, [pair], [0]), None, None, None, None, None, None))


@pytest.mark.parametrize("outputs", [1, 5])
@pytest.mark.parametrize("kind", ["SequenceClassification", "TokenClassification"])
def test_a_replaced_head_with_another_number_of_outputs_is_refused(kind, outputs):
    explainer = tiny.explainer("bert", kind, num_labels=3)
    assert explainer("a cat").target.name
    explainer.model.classifier = torch.nn.Linear(32, outputs)
    for call in ({}, {"target": 0}):
        with pytest.raises(UnsupportedModelError, match=f"answers with {outputs} numbers and .* names 3 labels"):
            explainer("a cat", **call)
    explainer.model.config.id2label = {i: f"kind {i}" for i in range(outputs)}
    assert explainer("a cat", target=outputs - 1).target.name == f"kind {outputs - 1}"


def test_of_what_wraps_a_model_it_must_be_said_what_it_is_for():
    wrapped = torch.nn.Sequential(tiny.model("bert"))
    with pytest.raises(UnsupportedModelError, match="what it is for must be said"):
        Explainer(wrapped, tiny.tokenizer_for("bert"))


@pytest.mark.parametrize("wrap", [torch.nn.DataParallel, AveragedModel])
def test_a_wrapper_whose_forward_pass_is_the_models_is_explained(wrap):
    model, tokenizer = tiny.model("bert"), tiny.tokenizer_for("bert")
    wrapped = wrap(model)
    explainer = Explainer(wrapped, tokenizer)
    assert explainer.model is wrapped.module
    assert explainer("a cat") == Explainer(model, tokenizer)("a cat")
    with torch.no_grad():
        wrapped.module.classifier.bias.add_(torch.tensor([3.0, 0.0]))
    logits = wrapped(**tokenizer("a cat", return_tensors="pt")).logits[0]
    assert explainer("a cat", target=0).predictions[0].value == pytest.approx(logits.max().item(), abs=1e-5)


def test_the_first_entity_or_else_the_first_word_is_explained():
    model, tokenizer, found = tiny.model("bert", "TokenClassification", num_labels=3), tiny.tokenizer_for("bert"), set()
    for outside in range(3):
        labels = ["PER", "LOC", "ORG"]
        labels[outside] = "O"
        explainer = Explainer(model, tokenizer, labels=labels)
        for text in ("the", *tiny.TEXTS):
            ids = tokenizer(text)["input_ids"]
            said = tiny.logits_of(model, ids).argmax(-1).tolist()
            entities = [place for place in range(1, len(ids) - 1) if said[place] != outside]
            assert explainer(text, method="normxlogit").target.position == (entities or [1])[0]
            found.add((bool(entities), (entities or [1])[0] > 1))
    assert len(found) > 1


def test_a_position_is_chosen_where_each_token_has_an_answer_and_others_are_told_what_to_use():
    classifier, writer = tiny.explainer("bert"), tiny.explainer("gpt2", "CausalLM")
    with pytest.raises(InputError, match="use explain_completion for the tokens of a text"):
        writer(tiny.TEXTS[0], position=1)
    with pytest.raises(InputError, match=r"token classifiers and masked language models$"):
        classifier(tiny.TEXTS[0], position=1)


@pytest.mark.parametrize("position", [("a", 3), (3, "a"), (1, 2, 3), (None, 3)])
def test_what_is_no_span_of_a_text_is_no_position(position):
    with pytest.raises(InputError, match="a position is a token's index, a piece of the text, or its characters"):
        tiny.explainer("bert", "TokenClassification")(tiny.TEXTS[0], position=position)
