"""Needles: one sentence of each document answers its question, in each part in turn."""

from benchmarks import needles
from tests import tiny


def test_one_sentence_answers_in_each_part_in_turn():
    for number, needle in enumerate(needles.write_needles(20, 23, seed=3)):
        thing = needle.question.removeprefix("What is the number of ").rstrip("?")
        holding = [i for i, sentence in enumerate(needle.sentences) if f" {thing} " in sentence]
        assert holding == [needle.place]
        assert needle.answer == needle.sentences[needle.place]
        assert number % 5 == needle.part
        assert needle.part == min(p for p in range(5) if needle.place < (p + 1) * 23 // 5)


def test_a_reader_that_guesses_is_counted_as_such(tmp_path):
    for _ in range(2):
        needles.measure(tiny.writer(length=300), 5, 5, tmp_path / "rows.jsonl")
    results = needles.load_measured(tmp_path / "rows.jsonl")
    assert [found.part for found in results] == list(range(5))
    assert "| 5, numbers | 5 |" in needles.report(tmp_path / "rows.jsonl")
