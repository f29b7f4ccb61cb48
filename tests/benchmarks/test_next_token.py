import numpy as np
import pytest
import torch

from benchmarks.next_token import evaluate_next_token, next_token_table
from normxlogit import Explainer
from tests import tiny

TEXTS = ["the movie is very good and the plot", "a cat sat on the mat here", "bad"]


@pytest.fixture(scope="module")
def writer():
    return tiny.model("llama", "CausalLM"), tiny.tokenizer_for("llama")


def left_out(model, tokenizer, text):
    ids = tokenizer(text)["input_ids"]
    with torch.no_grad():
        whole = model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)
        best = int(whole.argmax())
        return np.array(
            [
                (whole[best] - model(torch.tensor([ids[:i] + ids[i + 1 :]])).logits[0, -1].log_softmax(-1)[best]).item()
                for i in range(len(ids))
            ]
        )


def test_figures_are_those_of_a_plain_loop(writer, tmp_path):
    model, tokenizer = writer
    explainer = Explainer(model, tokenizer)
    results = evaluate_next_token(explainer, TEXTS, ["frozen-gradient", "random", "decompx"], rounds=1, folder=tmp_path)
    by_name = {r.method: r for r in results}
    names = ["leave-one-out", "frozen-gradient", "random", "last token", "first token"]
    assert [r.method for r in results] == names, "each once"
    assert "decompx" not in by_name, "it does not work on this model"
    truth = [left_out(model, tokenizer, text) for text in TEXTS[:2]]  # the third has one token
    scores = [explainer(text, method="frozen-gradient").scores for text in TEXTS[:2]]
    found = by_name["frozen-gradient"]
    assert found.texts == 2
    firsts = [t[s.argmax()] for s, t in zip(scores, truth, strict=True)]
    np.testing.assert_allclose(found.per_text, firsts, atol=1e-4)
    assert found.shares["nats"] == pytest.approx(sum(firsts) / sum(t.max() for t in truth), abs=1e-4)
    assert found.means["agrees"][0] == np.mean([s.argmax() == t.argmax() for s, t in zip(scores, truth, strict=True)])
    earlier = [s[:-1].argmax() == t[:-1].argmax() for s, t in zip(scores, truth, strict=True)]
    assert found.means["earlier agrees"][0] == np.mean(earlier)
    assert found.means["top 1"][0] == pytest.approx(np.mean(firsts), abs=1e-4)
    assert by_name["leave-one-out"].means["agrees"] == (1.0, 1.0, 1.0)
    assert by_name["last token"].means["agrees"][0] == np.mean([t.argmax() == len(t) - 1 for t in truth])
    assert found.passes > 0
    again = evaluate_next_token(explainer, TEXTS, ["frozen-gradient", "random", "decompx"], rounds=1, folder=tmp_path)
    assert again == results, "what was measured is read from the folder"
    assert "frozen-gradient" in next_token_table(results)
