import json
from contextlib import nullcontext

import numpy as np
import pytest
from scipy.stats import spearmanr

from normxlogit import DataError
from normxlogit.grounding.citations.cited_answer import read_answered
from normxlogit.grounding.evaluation import sources as generation
from normxlogit.grounding.evaluation.sources import AnsweredPrompt, Question, evaluate_sources
from normxlogit.methods import method_named
from normxlogit.methods.perturbation import random_subsets
from normxlogit.pipeline.completions.leave_out import Ablations
from normxlogit.pipeline.completions.sources import explain_sources
from normxlogit.pipeline.options import Options
from normxlogit.results.units.spans import prompt_sources
from tests import tiny
from tests.commands import run

DOCUMENT = "The movie is good. The cat sat on the mat. A plot with charm and wit! This was never bad."
METHODS = ["frozen-gradient", "normxlogit", "context-cite:samples=8"]
WORTH = generation.MATTERS


@pytest.fixture(scope="module")
def explainer():
    return tiny.writer()


@pytest.fixture(autouse=True)
def _any_source_matters(monkeypatch):
    monkeypatch.setattr(generation, "MATTERS", -1e9)


def test_what_is_measured_on_a_prompt(explainer):
    model = explainer.language_model
    question = Question("is this good?", {"text": DOCUMENT})
    prompt = AnsweredPrompt(model, question, 6, 12, 3)
    scored = dict(prompt.reference_scores)
    for method in METHODS:
        scored |= prompt.scored(method_named(method))
    state = {name: prompt.figures(each) for name, each in scored.items()}
    completed = read_answered(model, question.question, question.documents, max_new_tokens=6).completed
    measure = Ablations(model, completed, prompt_sources(completed.sequenced(), completed.named_sources))

    def total(out):
        kept = np.ones((1, 4), bool)
        kept[0, list(out)] = False
        return measure(kept).sum()

    removed = [total([]) - total([i]) for i in range(4)]
    np.testing.assert_allclose(prompt.drops, removed, rtol=1e-5, atol=1e-5)
    verified = [f"{name} (verified)" for name in METHODS[:2]]
    assert set(state) == {"occlusion", "random", "length", *METHODS, *verified}
    assert state[verified[0]]["figures"]["agrees"] >= state[METHODS[0]]["figures"]["agrees"]
    norms = explain_sources(model, completed, Options(method=method_named("normxlogit")), completed.named_sources)
    np.testing.assert_allclose(state["normxlogit"]["scores"], norms.scores[0, :-2], rtol=1e-3, atol=1e-4)
    kept = random_subsets(4, 12, 3 + 1_000_003)
    answers = measure(kept).sum(1)
    for name, found in state.items():
        order = np.argsort(-np.array(found["scores"]), kind="stable")
        found = found["figures"] | found
        for k in (1, 3, 5):
            assert found[f"top {k}"] == pytest.approx(total([]) - total(order[:k]), rel=1e-5, abs=1e-5), name
        assert found["agrees"] == float(order[0] == int(np.argmax(removed)))
        assert found["best"] == pytest.approx(max(removed))
        lds = spearmanr(kept @ np.array(found["scores"]), answers).statistic
        assert found["lds"] == pytest.approx(lds, abs=1e-6), name
        assert found["spearman"] == pytest.approx(spearmanr(found["scores"], removed).statistic, abs=1e-6), name
    assert state["occlusion"]["figures"]["spearman"] == pytest.approx(1)
    assert state["length"]["scores"] == [5, 7, 7, 5]
    passes = [state[m]["passes"] for m in (*METHODS, "occlusion", "random", "length")]
    assert passes == [3, 1, 8, 5, 0, 0]


@pytest.mark.parametrize("best", [1.9, 2.0])
def test_a_source_must_be_worth_two_nats(explainer, monkeypatch, best):
    def of_this_worth(*arguments):
        removed, *others = left_out(*arguments)  # (K, S)
        return np.where(removed == removed.max(), best, -5.0), *others

    left_out = generation.score_sources
    monkeypatch.setattr(generation, "score_sources", of_this_worth)
    monkeypatch.setattr(generation, "MATTERS", WORTH)
    questions = [Question("is this good?", {"text": DOCUMENT})]
    with nullcontext() if best >= 2 else pytest.raises(DataError, match="on any of 1 prompts"):
        evaluate_sources(explainer, questions, ["normxlogit"], max_new_tokens=4)


def test_the_command_prints_the_table_and_writes_it(tmp_path, capsys):
    tiny.save(tmp_path / "model", "llama", "CausalLM", length=200)
    data, written = tmp_path / "q.jsonl", tmp_path / "out"
    data.write_text(json.dumps({"question": "is this good?", "documents": [DOCUMENT]}))
    words = ["evaluate", "generation", "--data", data, "--model", tmp_path / "model", "--max-new-tokens", 5]
    words += ["--methods", "frozen-gradient normxlogit"]
    code, out, err = run(capsys, *words, "--ablations", 6, "--output", written)
    assert code == 0, err
    assert "of them some source matters in: 1" in out
    first, *others = [line.split(" | ") for line in out.splitlines()[4:]]
    assert first[:2] == ["| occlusion", "5"]
    ways = {f"| {m}{how}" for m in METHODS[:2] for how in ("", " (verified)")}
    assert {cells[0] for cells in others} == {"| random", "| length", *ways}
    drops = [float(cells[4].split()[0]) for cells in others]
    assert drops == sorted(drops, reverse=True), "behind leave-one-out, the best first"
    assert json.loads((written / "generation.json").read_text())["results"][0]["method"] == "occlusion"
    assert out.split("\n\n")[1] in (written / "generation.md").read_text()
