"""Sets of known evidence: what is in their rows, from data of a few lines."""

import json
import re
from itertools import islice

import pytest

from benchmarks import evidence
from benchmarks.evidence import known_rows
from normxlogit.errors import InputError
from normxlogit.results.targets import Prediction


def write(path, rows):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_phrases_are_the_words_that_were_labelled_as_the_sentence(tmp_path):
    labelled = [("fine ", 1), ("dull ", 0), ("odd ", 0), ("odd ", 1), ("a fine film ", 1)]
    write(tmp_path / "sst2" / "train.jsonl", [{"sentence": text, "label": label} for text, label in labelled])
    sentences = [("a fine , dull and odd film . ", 0), ("a fine film ", 0), ("fine or fine ", 1)]
    write(tmp_path / "sst2" / "validation.jsonl", [{"sentence": text, "label": label} for text, label in sentences])
    rows = known_rows("phrases", None, tmp_path, 10, 0)
    assert [(row["target"], row["evidence"]) for row in rows] == [("negative", ["dull"]), ("positive", ["fine"])]


class Answering:
    def __init__(self, rule):
        self.rule = rule

    def __call__(self, texts, method):
        return [type("Result", (), {"prediction": Prediction(self.rule(text), 0, 0, 1)}) for text in texts]


def test_planted_words_are_those_that_alone_turn_the_answer(tmp_path):
    rows = [("dull", 0), ("fine", 1), ("odd , but fine", 1)]
    write(tmp_path / "sst2" / "validation.jsonl", [{"sentence": text, "label": label} for text, label in rows])
    fooled = Answering(lambda text: "negative" if "zorvex" in text or "dull" in text or "odd" in text else "positive")
    made = known_rows("planted", fooled, tmp_path, 9, 0, tmp_path / "sst2-token-zorvex-1000")
    assert [(sorted(row["text"].split()), row["target"], row["evidence"]) for row in made] == [
        (["fine", "zorvex"], "negative", ["zorvex"])
    ]
    with pytest.raises(InputError, match="planted words"):
        known_rows("planted", fooled, tmp_path, 9, 0, tmp_path / "sst2-length-long-1000")


def test_the_changed_result_of_a_tool_makes_the_answer_wrong(monkeypatch):
    def likelier_where_it_was_said(_, messages, answer):
        facts = " ".join(str(message["content"]) for message in messages if message["role"] == "tool")
        values = re.findall(r"[\w:]+", facts)
        return sum(word in values for word in re.findall(r"[\w:]+", answer))

    monkeypatch.setattr(evidence, "log_probability", likelier_where_it_was_said)
    made = list(islice(evidence.known_traces(None, 0), 4))
    for row in made:
        (changed,) = row["evidence"]
        assert [message["content"] for message in row["messages"]].count(changed) == 1
        value, right = (set(re.findall(r"[\w:]+", row[name])) for name in ("completion", "contrast"))
        assert value - right <= set(re.findall(r"[\w:]+", changed))
        assert not any((right - value) <= set(re.findall(r"[\w:]+", str(m["content"]))) for m in row["messages"])
