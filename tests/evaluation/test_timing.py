"""Timing in turn, on a clock that the work itself moves."""

from normxlogit.evaluation import timing
from normxlogit.evaluation.timing import Timing, in_turn


class Work:
    def __init__(self, monkeypatch, **seconds):
        self.now, self.order, self.left = 100.0, [], {name: iter(each) for name, each in seconds.items()}
        monkeypatch.setattr(timing.time, "perf_counter", lambda: self.now)

    def sides(self):
        def side(name):
            self.order.append(name)
            self.now += next(self.left[name])

        return {name: lambda name=name: side(name) for name in self.left}


def test_sides_take_turns_and_only_what_comes_after_the_warm_up_counts(monkeypatch):
    work = Work(monkeypatch, a=(9, 8, 1, 2, 3), b=(9, 8, 4, 5, 6))
    told = []
    found = in_turn(work.sides(), rounds=3, warmup=2, on_round=lambda *round_: told.append(round_))
    assert found == {"a": Timing("a", (1, 2, 3)), "b": Timing("b", (4, 5, 6))}
    assert "".join(work.order) == "abbaabbaab", "the order turns around"
    assert told == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]


def test_a_side_waits_for_the_device_before_and_after(monkeypatch):
    work = Work(monkeypatch, a=(1,))
    monkeypatch.setattr(timing, "synchronise", lambda: setattr(work, "now", work.now + 10))
    assert in_turn(work.sides(), rounds=1, warmup=0)["a"].seconds == (11,), "what it left to do is its own"
