import pytest
import torch
import transformers

from normxlogit import Explainer
from normxlogit.model.generation import generated_ids, until_end
from normxlogit.pipeline.completions.completed_prompts import encode_prompt
from tests import tiny


@pytest.mark.parametrize(
    ("ids", "kept"),
    [([5, 6, 3, 0, 0], [5, 6, 3]), ([3, 3, 5], [3]), ([5, 4, 3], [5, 4]), ([5, 6], [5, 6]), ([], [])],
)
def test_an_answer_ends_with_the_first_of_its_ends(ids, kept):
    assert until_end(ids, {3, 4}) == kept
    assert until_end(ids, set()) == ids


@pytest.mark.parametrize(
    ("padding", "expected"),
    [
        (0, [[3, 5, 3], [3, 6], [3, 5, 6, 7, 8]]),
        (3, [[3, 5, 3], [3, 6, 0, 0, 0], [3, 5, 6, 7, 8]]),
        (None, [[3, 5, 3], [3, 6, 0, 0, 0], [3, 5, 6, 7, 8]]),
    ],
)
def test_of_several_sequences_the_padding_is_taken_away(padding, expected, monkeypatch):
    """The decoder begins with the end token, as BART's does."""
    rows = torch.tensor([[3, 5, 3, 0, 0], [3, 6, 0, 0, 0], [3, 5, 6, 7, 8]])
    monkeypatch.setattr(transformers.BartForConditionalGeneration, "generate", lambda *_, **__: rows)
    explainer = Explainer(tiny.model("bart", "Seq2SeqLM"), tiny.tokenizer_for("bart"), task="seq2seq-lm")
    config = transformers.GenerationConfig(eos_token_id=3, pad_token_id=padding, num_return_sequences=3, num_beams=3)
    model = explainer._model
    prompt = encode_prompt(model, "a film").encoding
    assert generated_ids(model, [prompt], config, {}) == [expected]
