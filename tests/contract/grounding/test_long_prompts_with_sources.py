"""An answer is cited also where its documents are longer than what the model reads."""

import numpy as np
import pytest

from normxlogit import Explainer, InputError
from tests import tiny

SENTENCES = [f"Order {number} ships on {number} May." for number in range(20, 40)]
DOCUMENTS = {"orders": " ".join(SENTENCES[:12]), "more": " ".join(SENTENCES[12:])}
QUESTION, ANSWER = "When does order 31 ship?", "It ships on 31 May. It is paid."


@pytest.fixture(scope="module")
def model():
    return tiny.model("llama", "CausalLM", seed=5, vocab_size=100, max_position_embeddings=2000)


def reader(model, length):
    tokenizer = tiny.letters()
    tokenizer.model_max_length = length
    return Explainer(model, tokenizer, name="reader")


def test_the_sources_that_fit_are_cited_as_if_there_were_no_others(model):
    with pytest.raises(InputError, match="the model reads 300"):  # and writes no answer of its own
        reader(model, 300).cite(QUESTION, DOCUMENTS)
    cited = reader(model, 300).cite(QUESTION, DOCUMENTS, answer=ANSWER, verify=2)
    (note,) = (note for note in cited.attribution.notes if "windows" in note)
    assert f"{len(cited.names)} of {len(SENTENCES)}" in note
    assert 3 < len(cited.names) < len(SENTENCES)
    kept = {name: cited.text[slice(*span)] for name, span in zip(cited.names, cited.spans, strict=True)}
    assert list(kept.values()) == [sentence for sentence in SENTENCES if sentence in kept.values()]  # in their order

    # A prompt of one's own without the others, which stands in two pieces beside each that is left out.
    prompt, out = cited.text[: -len(cited.answer)], set(SENTENCES) - set(kept.values())
    for sentence in out:
        prompt = prompt.replace(sentence, "")
    spans = {name: (prompt.index(text), prompt.index(text) + len(text)) for name, text in kept.items()}
    alone = reader(model, 300).explain_completion(prompt, cited.answer, sources=spans, parts="sentence")
    scores = cited.attribution.scores[:, cited.attribution.units.sources]
    np.testing.assert_allclose(scores, alone.scores[:, alone.units.sources], rtol=1e-3, atol=1e-4)
    assert set(cited.losses) <= set(kept)


def test_what_fits_is_read_whole(model):
    short, long = (reader(model, length).cite(QUESTION, DOCUMENTS, answer=ANSWER) for length in (1200, 1900))
    assert short == long
    assert not any("windows" in note for note in long.attribution.notes)


@pytest.mark.parametrize("length", [60, 110])
def test_a_prompt_that_does_not_fit_without_its_sources_is_refused(model, length):
    with pytest.raises(InputError, match=f"reads {length}: no source fits"):
        reader(model, length).cite(QUESTION, {"a": "x" * 400}, answer=ANSWER)
