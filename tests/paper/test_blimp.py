import pytest

from paper.blimp import Counts, expanded, load_pairs
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
