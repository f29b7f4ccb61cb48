"""Methods on the next token, against a loop with the caller's own model."""

import gzip
import json

import numpy as np
import pytest
import torch

from normxlogit import DataError, Explainer, UnsupportedModelError
from normxlogit.evaluation.next_token import evaluate_next_token, load_beginnings, next_token_table, write_next_token
from normxlogit.evaluation.statistics import Candidate, mean_interval, recommendations
from tests import tiny

TEXTS = ["the movie is very good and the plot", "a cat sat on the mat here", "bad"]


@pytest.fixture(scope="module")
def writer():
    return tiny.model("llama", "CausalLM"), tiny.tokenizer_for("llama")


def left_out(model, tokenizer, text):
    """Leave-one-out by a plain loop."""
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
    assert found.nats == pytest.approx(sum(firsts) / sum(t.max() for t in truth), abs=1e-4)
    assert found.agrees[0] == np.mean([s.argmax() == t.argmax() for s, t in zip(scores, truth, strict=True)])
    earlier = [s[:-1].argmax() == t[:-1].argmax() for s, t in zip(scores, truth, strict=True)]
    assert found.earlier_agrees[0] == np.mean(earlier)
    assert found.drops[1][0] == pytest.approx(np.mean(firsts), abs=1e-4)
    assert by_name["leave-one-out"].agrees == (1.0, 1.0, 1.0)
    assert by_name["last token"].agrees[0] == np.mean([t.argmax() == len(t) - 1 for t in truth])
    assert found.passes > 0
    again = evaluate_next_token(explainer, TEXTS, ["frozen-gradient", "random", "decompx"], rounds=1, folder=tmp_path)
    assert again == results, "what was measured is read from the folder"
    table = next_token_table(results)
    assert "at most 40 passes" in table
    write_next_token(tmp_path / "out", results, {"data": "x"})
    assert json.loads((tmp_path / "out" / "next-token.json").read_text())["results"][1]["method"] == "frozen-gradient"


def test_what_no_text_is_long_enough_for_is_left_out(writer, tmp_path):
    results = evaluate_next_token(Explainer(*writer), ["the movie is"], ["frozen-gradient"], rounds=1)
    assert [set(r.drops) for r in results] == [{1}] * len(results), "three tokens less three are none"
    assert "nan" not in next_token_table(results)
    write_next_token(tmp_path, results, {})
    assert "NaN" not in (tmp_path / "next-token.json").read_text()


def test_what_cannot_be_measured(writer):
    with pytest.raises(DataError, match="3 tokens"):
        evaluate_next_token(Explainer(*writer), ["bad"], ["random"])
    with pytest.raises(UnsupportedModelError):
        evaluate_next_token(Explainer(tiny.model("bert"), tiny.tokenizer_for("bert")), TEXTS, ["random"])


def test_beginnings_are_drawn_from_the_lines_of_a_split(tmp_path):
    lines = [f"{'even' if i % 2 == 0 else 'odd'} " * 30 for i in range(40)]
    plain, packed, rows = tmp_path / "a.txt", tmp_path / "a.txt.gz", tmp_path / "a.jsonl"
    plain.write_text("\n".join(lines))
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    rows.write_text("\n".join(json.dumps({"text": line}) for line in lines))
    for path in (plain, packed, rows):
        train, held = (load_beginnings(path, 10, split) for split in ("train", "validation"))
        assert {word for text in train for word in text.split()} == {"even"}
        assert {word for text in held for word in text.split()} == {"odd"}
        assert all(6 <= len(text.split()) <= 24 for text in train + held)
    assert load_beginnings(plain, 10) == load_beginnings(packed, 10) == load_beginnings(rows, 10)
    for path, said in ((tmp_path / "none.txt", "cannot be read"), (plain, "split is")):
        with pytest.raises(DataError, match=said):
            load_beginnings(path, 10, "test" if path is plain else "train")
    plain.write_text("too short\n" * 5)
    with pytest.raises(DataError, match="no sentence"):
        load_beginnings(plain, 10)


def test_the_best_for_a_budget_with_the_interval_of_its_lead():
    values = np.linspace(0, 1, 50)
    found = recommendations(
        [Candidate("cheap", 1.0, values), Candidate("dear", 3.0, values + 0.5), Candidate("dearer", 39, values)], "AOPC"
    )
    assert "at most 1.2 passes: `cheap` (AOPC 0.500, 1 passes)" in found
    assert "at most 3 passes: `dear` (AOPC 1.000, 3 passes); +0.500 (+0.500 to +0.500) to `cheap`" in found
    assert found.count("`dear`") == 2
    assert recommendations([Candidate("a", 99, values)], "AOPC") == ""


def test_intervals_hold_the_mean_of_the_population():
    random, inside = np.random.default_rng(0), 0
    for _ in range(200):
        mean, low, high = mean_interval(random.normal(size=60))
        inside += low <= 0 <= high
        assert low <= mean <= high
    assert 180 <= inside <= 199
