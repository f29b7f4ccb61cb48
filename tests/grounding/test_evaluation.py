import json

import pytest

from normxlogit.errors import DataError
from normxlogit.grounding.evaluation.evaluation import load_statements, measure_statements, verdict_table
from tests import tiny

ROW = {
    "question": "When?",
    "documents": {"a": "the pool was opened in 1974 ."},
    "pairs": [["number", "it was in 1974 .", "it was in 1980 ."], ["name", "the pool .", "the hall .", "What?"]],
}


def test_sentences_are_measured_and_judged_by_kind(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text(json.dumps(ROW) + "\n" + json.dumps({**ROW, "split": "train"}))
    prompted = load_statements([path])
    assert [(p.question, len(p.statements)) for p in prompted] == [("When?", 2), ("What?", 2)] * 2
    measured = measure_statements(tiny.writer(), prompted, tmp_path / "kept")
    assert [m.statement.true for m in measured] == [True, False] * 4
    assert measure_statements(tiny.writer(), prompted, tmp_path / "kept") == measured
    table = verdict_table(measured)
    kinds = [line.split("|")[1].strip() for line in table.splitlines()[2:]]
    assert kinds == ["true", "name", "number", "all that are false"]
    with pytest.raises(DataError, match="true and false"):
        verdict_table([m for m in measured if m.statement.true])
