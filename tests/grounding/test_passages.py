"""How much likelier a sentence makes a passage, against plain passes of the model."""

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from normxlogit import Explainer
from normxlogit.grounding.citations.passages import PASSAGE_TOKENS, WINDOW, WITH, WITHOUT, passage_gains, passages_of
from tests import tiny

DOCUMENTS = ["the cat sat on the mat. a good movie is here.", "the actor was never great. the plot was bad."]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = LlamaConfig(**tiny.CONFIGS["llama"], max_position_embeddings=400)
    return Explainer(LlamaForCausalLM(config).eval(), tiny.tokenizer(specials=False)).language_model


def passage_nats(model, request, passage):
    """Return the log-probabilities of a passage's tokens after a request, by a loop over a plain pass."""
    before, ids = (model.tokenizer(text, add_special_tokens=False)["input_ids"] for text in (request, passage))
    with torch.no_grad():
        logits = model.caller_model(torch.tensor([before + ids])).logits[0].log_softmax(-1)
    return np.array([logits[len(before) + place - 1, token].item() for place, token in enumerate(ids)])


def test_the_gain_is_that_of_plain_passes(model):
    sentences = ["a movie is here", "the actor was bad", "a cat sat"]
    gains = passage_gains(model, sentences, DOCUMENTS)
    for sentence, gain, text in zip(sentences, gains, [DOCUMENTS[place] for place in (0, 1, 0)], strict=True):
        difference = passage_nats(model, WITH.format(sentence=sentence), text) - passage_nats(model, WITHOUT, text)
        width = min(WINDOW, len(difference))
        means = [difference[i : i + width].mean() for i in range(len(difference) - width + 1)]
        assert gain == pytest.approx(max(means), abs=1e-4)


def test_alone_and_among_others_a_sentence_gains_the_same(model):
    sentences = ["a movie is here", "the actor was bad and the plot was not great !"]
    together = passage_gains(model, sentences, DOCUMENTS)
    alone = [passage_gains(model, [sentence], DOCUMENTS)[0] for sentence in sentences]
    assert together == pytest.approx(alone, abs=1e-5)


def test_passages_are_whole_sentences_in_order_and_not_too_long(model):
    text = "A cat sat on the mat. " * 40
    passages = passages_of(model, [text, "", "a cat."])
    assert passages[-1] == "a cat."
    assert " ".join(passages[:-1]) == text.strip()
    lengths = [len(model.tokenizer(passage, add_special_tokens=False)["input_ids"]) for passage in passages]
    assert max(lengths) <= 1.5 * PASSAGE_TOKENS


def test_a_very_long_sentence_is_divided_between_words(model):
    text = "A cat. " + "The movie " * 3 * PASSAGE_TOKENS + ". A mat."
    passages = passages_of(model, [text])
    lengths = [len(model.tokenizer(passage, add_special_tokens=False)["input_ids"]) for passage in passages]
    assert max(lengths) <= 1.5 * PASSAGE_TOKENS
    assert " ".join(passages) == text


def test_the_passages_are_read_once_and_each_sentence_once(model, monkeypatch):
    from normxlogit.model.task_model import TaskModel

    tokens = []
    states = TaskModel.states

    def counted(self, batch):
        tokens.append(int(batch.mask.sum()))
        return states(self, batch)

    monkeypatch.setattr(TaskModel, "states", counted)
    passage_gains(model, ["a cat sat"], DOCUMENTS)
    one = sum(tokens)
    tokens.clear()
    passage_gains(model, ["a cat sat"] * 5, DOCUMENTS)
    assert sum(tokens) == one


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_an_encoder_reads_the_request_and_the_decoder_the_passage(name):
    model = tiny.explainer(name, "Seq2SeqLM").language_model
    (gain,) = passage_gains(model, ["a cat"], ["the cat sat on the mat ."])
    assert np.isfinite(gain)
    assert gain != 0


def test_without_a_sentence_in_the_sources_there_is_no_gain(model):
    assert passage_gains(model, ["a cat"], [" ", ""]) == [0.0]
    assert passage_gains(model, [], DOCUMENTS) == []
