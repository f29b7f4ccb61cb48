"""Grounding: which signals tell answers with evidence from answers without it."""

import json

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from normxlogit import DataError, Explainer, InputError
from normxlogit.evaluation.grounding import (
    SHARE,
    choose_threshold,
    evaluate_grounding,
    grounding_cases,
    grounding_table,
    load_cases,
)
from tests import tiny
from tests.commands import run

ROWS = [{"question": f"is movie {i} good ?", "sentence": f"Movie {i} is good .", "label": i % 2} for i in range(12)]


def written(path, rows):
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_a_question_of_qnli_is_a_case_with_its_evidence_and_one_without_it():
    cases = grounding_cases(ROWS, 4)
    assert [case.supported for case in cases] == [True, False] * 4
    for with_evidence, without in zip(cases[::2], cases[1::2], strict=True):
        row = next(row for row in ROWS if row["question"] == with_evidence.question == without.question)
        first, second = (case.documents["text"].split("\n\n") for case in (with_evidence, without))
        assert row["label"] == 0
        assert row["sentence"] in first
        assert row["sentence"] not in second
        assert len(set(first)) == len(set(second)) == 3
        assert sum(a == b for a, b in zip(first, second, strict=True)) == 2
    assert grounding_cases(ROWS, 4) == cases
    assert grounding_cases(ROWS, 4, seed=1) != cases


def test_the_threshold_is_that_of_the_best_balanced_accuracy():
    shares = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    assert choose_threshold(shares, [False, False, True, False, True, True]) == (0.3, 1.0, pytest.approx(2 / 3))


def test_signals_are_measured_on_given_and_generated_answers(tmp_path):
    explainer = Explainer(tiny.model("llama", "CausalLM"), tiny.tokenizer_for("llama"))
    rows = [
        {
            "question": "was it good ?",
            "documents": ["the movie was great .", tail],
            "supported": known,
            "answer": answer,
        }
        for tail, known in (("a cat sat here .", True), ("the keys are bad .", False))
        for answer in ("the movie was great .", "the cat sat .", "the plot is bad .")
    ]
    cases = load_cases(written(tmp_path / "cases.jsonl", rows), 10)
    signals, shares, supported = evaluate_grounding(explainer, cases, samples=4, folder=tmp_path / "kept")
    assert supported == [row["supported"] for row in rows]
    for share, row in zip(shares, rows, strict=True):
        answer = explainer.cite(row["question"], row["documents"], answer=row["answer"])
        parts = answer.table.sum() + 0.0, answer.rest.sum(), answer.written.sum()
        assert share == pytest.approx(parts[0] / np.abs(parts).sum(), abs=1e-5)
    assert [s.auroc[0] for s in signals] == sorted((s.auroc[0] for s in signals), reverse=True)
    (of_documents,) = (s for s in signals if s.name == SHARE)
    mean, low, high = of_documents.auroc
    assert mean == pytest.approx(roc_auc_score(supported, shares))
    assert low <= mean <= high
    kept = len(list((tmp_path / "kept").iterdir()))
    again = evaluate_grounding(explainer, cases, samples=4, folder=tmp_path / "kept")
    assert again[0] == signals
    assert len(list((tmp_path / "kept").iterdir())) == kept == len(rows)
    assert "best balanced accuracy" in grounding_table(signals, shares, supported)
    with pytest.raises(InputError, match="add up"):
        evaluate_grounding(explainer, cases, method="occlusion", samples=0)


@pytest.mark.parametrize(
    "rows",
    [
        [{"question": "a", "documents": ["b"], "supported": True}],
        [{"question": "a", "documents": ["b"], "supported": "yes"}],
        [{"question": 3, "documents": ["b"], "supported": True}],
        [{"question": "a", "documents": [], "supported": True}],
        [{"question": "a"}],
        [{"question": "a", "documents": ["b"], "supported": True}, ROWS[0]],
        ["text"],
        [],
    ],
)
def test_files_without_cases_are_refused(tmp_path, rows):
    with pytest.raises(DataError, match=r"cases\.jsonl"):
        load_cases(written(tmp_path / "cases.jsonl", rows), 5)


def test_the_command_prints_and_writes_the_signals(tmp_path, capsys):
    tiny.model("llama", "CausalLM").save_pretrained(tmp_path / "model")
    tiny.tokenizer_for("llama").save_pretrained(tmp_path / "model")
    rows = [
        {"question": "was it good ?", "documents": ["the movie was great ."], "supported": known, "answer": "it was ."}
        for known in (True, False)
    ]
    data = written(tmp_path / "cases.jsonl", rows)
    options = ["--data", data, "--model", tmp_path / "model", "--samples", 0, "--output", tmp_path / "out"]
    code, out, err = run(capsys, "evaluate", "grounding", *options)
    assert code == 0, err
    assert SHARE in out
    signals = json.loads((tmp_path / "out" / "grounding.json").read_text())["signals"]
    assert {signal["name"] for signal in signals} >= {SHARE, "log-probability"}
