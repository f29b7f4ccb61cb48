"""Faithfulness against cost: what is counted, what is kept, what is drawn."""

import pytest

from normxlogit.evaluation import faithfulness
from normxlogit.evaluation import timing as clock
from normxlogit.evaluation.frontier import Cost, Point, frontier, frontier_figure, measure_cost
from normxlogit.evaluation.runs import Refused
from normxlogit.methods import Lime, NormXLogit
from tests import tiny


@pytest.fixture
def explainer():
    return tiny.explainer("bert", scale=8.0)


def point(name, passes, aopc, reason=""):
    if reason:
        return Point(name, Refused(name, reason))
    curves, interval = dict.fromkeys(("aopc", "sufficiency", "quality"), (aopc,) * 9), (aopc - 0.05, aopc + 0.05)
    figures = (aopc, interval, 0.1, (0.02, 0.2), 0.5, "accuracy", curves, 3, (aopc,) * 3)
    return Point(name, faithfulness.Faithfulness(name, *figures), Cost(passes, (passes, passes), 1))


POINTS = [
    point("lime", 200.0, 0.6),
    point("normxlogit", 1.02, 0.3),
    point("logat", 1.01, 0.2),
    point("random", 1.0, 0.25),
    point("occlusion", 25.0, 0.6),
    point("frozen-gradient", 2.2, 0.5),
    point("frozen-gradient:read_at=-1", 1.3, 0.28),
    point("decompx", 0, 0, reason="needs an encoder | of some kind"),
]


@pytest.fixture
def tokens_as_time(monkeypatch):
    """A clock that shows how many tokens a model has embedded."""

    def watch(explainer):
        now, kind = [0.0], type(explainer._model.module.base_model.embeddings)
        forward = kind.forward

        def counted(self, *args, **kwargs):
            now[0] += kwargs["input_ids"].numel()
            return forward(self, *args, **kwargs)

        monkeypatch.setattr(kind, "forward", counted)  # of the caller's model and of its copies
        monkeypatch.setattr(clock.time, "perf_counter", lambda: now[0])
        return now

    return watch


def test_costs_are_in_forward_passes_over_the_same_texts(explainer, tokens_as_time):
    encodings = explainer.encode(tiny.TEXTS)
    explainer(encodings)  # the model is taken apart
    tokens_as_time(explainer)
    assert measure_cost(explainer, encodings, NormXLogit(), rounds=2) == Cost(1.0, (1.0, 1.0), 2)
    count = len(encodings[0]) - 2
    (one,) = explainer.encode(tiny.TEXTS[:1])
    passes = 1 + len({tuple(row) for row in Lime(60).subsets(count).tolist()})
    assert measure_cost(explainer, [one], Lime(60), rounds=9) == Cost(passes, (passes, passes), 3), "slow: few rounds"


def test_the_frontier_is_what_no_cheaper_setting_reaches():
    assert [p.method for p in frontier(POINTS)] == ["random", "normxlogit", "frozen-gradient", "occlusion"]
    assert frontier([]) == []
    assert frontier(POINTS[-1:]) == []
    twins = [point("a", 1.0, 0.1), point("b", 1.0, 0.2), point("c", 2.0, 0.2), point("d", 3.0, -0.5)]
    assert [p.method for p in frontier(twins)] == ["b"], "of the same cost the better one, of the same AOPC the cheaper"
    without_cost = Point("e", twins[0].result)
    assert [p.method for p in frontier([twins[3], without_cost])] == ["d"]


def test_a_line_joins_what_no_other_setting_beats():
    axes, without = frontier_figure({"one": POINTS, "none": POINTS[-1:]}).axes
    line = axes.lines[0]
    assert line.get_xydata().tolist() == [[1.0, 0.25], [1.02, 0.3], [2.2, 0.5], [25.0, 0.6]]
    assert line.get_drawstyle() == "steps-post"
    assert line.get_zorder() < min(bar.lines[0].get_zorder() for bar in axes.containers), "it lies behind the points"
    assert not without.lines
    segments = [segment for bar in axes.containers for lines in bar.lines[2] for segment in lines.get_segments()]
    heights = [top - bottom for (_, bottom), (_, top) in segments]
    assert max(heights) == pytest.approx(0.1), "of intervals of 0.05 to both sides"
