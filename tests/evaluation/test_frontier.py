"""Faithfulness against cost: what is counted, what is kept, what is drawn."""

import pytest

from normxlogit import DataError, Explainer
from normxlogit.decompositions import Lime
from normxlogit.evaluation import faithfulness, frontier_report
from normxlogit.evaluation import frontier as module
from normxlogit.evaluation import timing as clock
from normxlogit.evaluation.datasets import Example
from normxlogit.evaluation.frontier import Cost, Point, frontier, frontier_methods, measure_cost, run_frontier
from normxlogit.methods import NormXLogit, Random, method_named
from tests import plain, tiny

EXAMPLES = [Example(text, label) for text, label in zip(tiny.TEXTS, [0, 1, 0], strict=True)]


@pytest.fixture
def explainer():
    return tiny.explainer("bert", scale=8.0)


def maskless():
    made = tiny.tokenizer_for("gpt2")
    made.mask_token = None
    return Explainer(tiny.model("gpt2"), made)


def point(name, passes, aopc, reason=""):
    if reason:
        return Point(name, reason=reason)
    curves = dict.fromkeys(("aopc", "sufficiency", "quality"), (aopc,) * 9)
    result = faithfulness.Faithfulness(
        name, aopc, (aopc - 0.05, aopc + 0.05), 0.1, (0.02, 0.2), 0.5, "accuracy", curves, 3, (aopc,) * 3
    )
    return Point(name, result, Cost(passes, (passes, passes), 1))


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
    assert [p.method for p in frontier([*twins[3:], Point("e", twins[0].result)])] == ["d"], (
        "what has no cost is left out"
    )


def test_layers_are_compared_where_there_are_any():
    specs = [method.spec for method in frontier_methods(tiny.explainer("bert"))]
    assert "frozen-gradient:read_at=-2" in specs, "half of three layers"
    plain_module = plain.grown(plain.Recurrent())
    explainer = Explainer(plain_module, tiny.tokenizer(), task="sequence-classification", labels=list("abc"))
    specs = [method.spec for method in frontier_methods(explainer)]
    assert specs.count("frozen-gradient:read_at=-1") == 1
    assert "frozen-gradient:read_at=-2" not in specs


def test_what_a_model_cannot_do_is_a_row_that_says_why():
    explainer = maskless()
    names = ["decompx", "frozen-gradient:read_at=0,points=0.3,baseline=mask", "frozen-gradient:read_at=9", "random"]
    found = run_frontier(explainer, EXAMPLES, list(map(method_named, names)), rounds=1)
    assert "post-LayerNorm encoder" in found[0].reason
    assert "no mask token" in found[1].reason
    assert "layers 1 to" in found[2].reason
    assert [p.method for p in found] == names
    assert [p.cost is None for p in found] == [True, True, True, False]
    table = frontier_report.frontier_table(found)
    assert "| decompx | N/A: " in table
    with pytest.raises(DataError, match="label 7"):
        run_frontier(explainer, [Example("fine", 7)])


def test_a_stopped_run_goes_on(explainer, tmp_path, monkeypatch):
    methods = [NormXLogit(), Random(), method_named("frozen-gradient:read_at=9")]
    seen = []

    def stop(name, done, total):
        seen.append(name)
        if name == "random":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_frontier(explainer, EXAMPLES, methods, folder=tmp_path, rounds=1, on_progress=stop)
    assert seen == ["normxlogit", "random"]
    kept = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert len(kept) == 3, "two results and a cost"
    first = run_frontier(explainer, EXAMPLES, methods, folder=tmp_path, rounds=1)
    assert len(list(tmp_path.iterdir())) == 5
    assert all((tmp_path / name).read_text() == text for name, text in kept.items())
    monkeypatch.setattr(module, "measure_cost", lambda *_, **__: pytest.fail("a kept cost is measured again"))
    monkeypatch.setattr(explainer._model, "answer", None)
    assert run_frontier(explainer, EXAMPLES, methods, folder=tmp_path, rounds=1) == first
    assert first[2].reason


def test_the_table_begins_with_the_cheapest_and_marks_the_frontier():
    without_cost = Point("lime:samples=8", POINTS[0].result)
    lines = frontier_report.frontier_table([*POINTS, without_cost]).splitlines()[2:]
    assert [line.split("|")[1].strip() for line in lines] == [
        "random",
        "logat",
        "normxlogit",
        "frozen-gradient:read_at=-1",
        "frozen-gradient",
        "occlusion",
        "lime",
        "decompx",
    ]
    assert lines[0] == "| random | 1 | **0.250** | 0.200 to 0.300 | 0.100 | 0.020 to 0.200 |"
    assert "| 0.280 |" in lines[3]
    assert lines[-1] == "| decompx | N/A: needs an encoder / of some kind |  |  |  |  |"


def test_a_line_joins_what_no_other_setting_beats():
    axes, without = frontier_report.frontier_figure({"one": POINTS, "none": POINTS[-1:]}).axes
    line = axes.lines[0]
    assert line.get_xydata().tolist() == [[1.0, 0.25], [1.02, 0.3], [2.2, 0.5], [25.0, 0.6]]
    assert line.get_drawstyle() == "steps-post"
    assert line.get_zorder() < min(bar.lines[0].get_zorder() for bar in axes.containers), "it lies behind the points"
    assert not without.lines
    heights = [
        top - bottom
        for bar in axes.containers
        for lines in bar.lines[2]
        for (_, bottom), (_, top) in lines.get_segments()
    ]
    assert max(heights) == pytest.approx(0.1), "of intervals of 0.05 to both sides"
