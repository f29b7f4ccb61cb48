"""Pairs of sentences are read, expanded and compared as they should be, and every row is accounted for."""

import json

import pytest

from paper.blimp import PARADIGMS, Counts, expanded, load_pairs
from paper.minimal_pairs import difference
from tests import blimp


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("She couldn't see it.", "She could not see it."),
        ("They can't and won't go.", "They cannot and will not go."),
        ("Won’t it hurt?", "Will not it hurt?"),
        ("Can't we? We shan't.", "Cannot we? We shall not."),
        ("Aren't these Tara's keys, which weren't here?", "Are not these Tara's keys, which were not here?"),
        ("Cannot recant.", "Cannot recant."),
    ],
)
def test_contractions_are_written_out(short, long):
    assert expanded(short) == long


def test_the_word_that_differs():
    good, bad = "The keys are not here.", "The keys is not here."
    ours, theirs = difference(good, bad)
    assert (good[slice(*ours)], bad[slice(*theirs)]) == ("are", "is")
    assert difference("He saw himself.", "He saw themselves.") == ((7, 14), (7, 17)), "the full stop is no part of it"
    assert difference("a cat", "a cat") == "no word differs"
    assert difference("a cat sat", "the cat sits") == "several words differ"
    assert difference("a cat", "a cat sat") == "the sentences have different numbers of words"


def test_halves_have_nothing_in_common_and_miss_nothing(tmp_path):
    folder = blimp.write(tmp_path / "data")
    counts = {half: Counts() for half in ("train", "test")}
    halves = {half: load_pairs(half, counts[half], data_dir=folder) for half in counts}
    sentences = {half: {(p.group, p.good, p.bad) for p in pairs} for half, pairs in halves.items()}
    assert not sentences["train"] & sentences["test"]
    for short, paradigm in PARADIGMS.items():
        lines = (folder / f"{paradigm.name}.jsonl").read_text().splitlines()
        rows = {(short, expanded(r["sentence_good"]), expanded(r["sentence_bad"])) for r in map(json.loads, lines)}
        assert rows == {s for half in sentences.values() for s in half if s[0] == short}
        assert abs(counts["train"].rows[short] - counts["test"].rows[short]) <= 1
    again = load_pairs("test", Counts(), data_dir=folder)
    assert again == halves["test"]
    assert len(load_pairs("test", Counts(), data_dir=folder, limit=2)) == 10


def test_rows_that_do_not_fit_are_counted(tmp_path):
    folder = blimp.write(tmp_path / "data")
    rows = [blimp.row("a cat", "a cat"), blimp.row("a cat sat", "the cat was"), blimp.row("a cat", "a cat sat")]
    path = folder / "anaphor_number_agreement.jsonl"
    path.write_text("".join(2 * rows + 6 * [blimp.row("A cat saw himself.", "A cat saw themselves.")]))
    counts = [Counts(), Counts()]
    kept = [p for half, c in zip(("train", "test"), counts, strict=True) for p in load_pairs(half, c, data_dir=folder)]
    assert sum(p.group == "ana" for p in kept) == sum(c.kept("ana") for c in counts) == 6
    total = counts[0].dropped["ana"] + counts[1].dropped["ana"]
    assert total == {
        "no word differs": 2,
        "several words differ": 2,
        "the sentences have different numbers of words": 2,
    }
    assert counts[0].state()["ana"]["rows"] == 6
