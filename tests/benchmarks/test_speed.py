"""The rows of speed: that every one is there and says what it compares. No clock is asked for its opinion."""

from benchmarks import speed
from benchmarks.speed import GROUPS
from tests.benchmarks.sizes import TINY


def test_every_group_measures_its_rows():
    rows = {name: list(speed.measure(TINY, [name])) for name in GROUPS}
    counts = {name: len(found) for name, found in rows.items()}
    assert counts == {
        "one-text": 10,
        "masked-lm": 1,
        "next-token": 2,
        "generated": 1,
        "first-call": 4,
        "from-outputs": 1,
        "corpus": 4,
        "gradients": 2,
        "decompx": 1,
    }
    for row in (r for found in rows.values() for r in found):
        assert len(row.figures) == TINY.rounds
        assert all(f > 0 for f in row.figures)
        assert row.seconds
