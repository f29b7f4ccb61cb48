import numpy as np
import pytest

from benchmarks.answer_pairs import AnswerPair, explain_pairs, pairs_table
from normxlogit import Explainer
from tests import tiny
from tests.contract.compare import nats

PROMPT, FIRST, SECOND = "the movie is not", " very bad", " good"


def test_figures_are_those_of_a_plain_loop():
    explainer = Explainer(tiny.model("llama", "CausalLM"), tiny.tokenizer_for("llama"))
    (pair,) = explain_pairs(explainer, [AnswerPair(PROMPT, (FIRST, SECOND))])
    words = PROMPT.split()
    texts = [PROMPT, *(" ".join(words[:i] + words[i + 1 :]) for i in range(len(words)))]
    whole, *without = (nats(explainer, text, FIRST) - nats(explainer, text, SECOND) for text in texts)
    assert pair.difference == pytest.approx(whole, abs=1e-4)
    np.testing.assert_allclose(pair.losses, whole - np.array(without), atol=1e-4)
    expected = explainer.explain_completion(PROMPT, FIRST, contrast=SECOND).scores
    np.testing.assert_allclose(pair.scores["log-probability"], expected, atol=1e-5)
    assert not np.allclose(pair.scores["logit"], expected, atol=1e-3)
    assert not pair.same_length
    row = pairs_table([pair]).splitlines()[-1]
    correlation = np.corrcoef(expected, pair.losses)[0, 1]
    is_found = abs(expected).argmax() == abs(pair.losses).argmax()
    assert f"| 1 | {correlation:.2f} | {correlation:.2f} | {is_found:d} | {expected.sum() * whole > 0:d} |" in row
