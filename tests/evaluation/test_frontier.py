"""Faithfulness against cost: what is counted, what is kept, what is drawn."""

import json

import numpy as np
import pytest
import torch

from normxlogit import DataError, Explainer
from normxlogit.evaluation import faithfulness, frontier_report
from normxlogit.evaluation import frontier as module
from normxlogit.evaluation import timing as clock
from normxlogit.evaluation.datasets import Example
from normxlogit.evaluation.frontier import Cost, Point, default_methods, frontier, measure_cost, run_frontier
from normxlogit.methods import Lime, NormXLogit, Random, method_named
from tests import tiny

EXAMPLES = [Example(text, label) for text, label in zip(tiny.TEXTS, [0, 1, 0], strict=True)]


@pytest.fixture
def explainer():
    return Explainer(tiny.model("bert", scale=8.0), tiny.tokenizer_for("bert"))


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
    """A clock that shows how many tokens a module has read."""

    def watch(explainer):
        now = [0.0]
        read = lambda _, __, kwargs: now.__setitem__(0, now[0] + kwargs["input_ids"].numel())  # noqa: E731
        explainer.model.module.register_forward_pre_hook(read, with_kwargs=True)
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
    assert measure_cost(explainer, [one], method_named("occlusion"), rounds=1).passes == count + 2
    passes = 1 + len({tuple(row) for row in _kept(count, 60)})
    assert measure_cost(explainer, [one], Lime(60), rounds=9) == Cost(passes, (passes, passes), 3), "slow: few rounds"


def _kept(count, samples):
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(0, 2, (count,), generator=generator).tolist() for _ in range(samples)]


def test_a_cost_is_the_median_of_neighbours_in_time(explainer, monkeypatch):
    seconds = {"forward": (5.0, 5.0, 50.0), "method": (2.0, 4.0, 30.0)}  # the machine was busy in the last round

    def in_turn(sides, *, rounds, warmup):
        return {name: clock.Timing(name, seconds[name][:rounds]) for name in sides}

    monkeypatch.setattr(module, "in_turn", in_turn)
    found = measure_cost(explainer, explainer.encode(tiny.TEXTS), Random(), rounds=3)
    assert found == Cost(3.0, (2.0, 4.0), 3)


def test_timed_texts_are_of_all_lengths(explainer):
    encodings = explainer.encode([" ".join(["good"] * n) for n in range(32, 0, -1)])
    lengths = [len(e) - 2 for e in module._spread_out(encodings)]
    assert lengths == list(range(2, 33, 2)), "sixteen of thirty-two"
    assert module._spread_out(encodings[:2]) == encodings[1::-1]


def test_the_frontier_is_what_no_cheaper_setting_reaches():
    assert [p.method for p in frontier(POINTS)] == ["random", "normxlogit", "frozen-gradient", "occlusion"]
    assert frontier([]) == []
    assert frontier(POINTS[-1:]) == []


def test_figures_are_those_of_faithfulness(explainer):
    found = run_frontier(explainer, EXAMPLES, [NormXLogit(), Random()], rounds=1)
    assert [p.result for p in found] == faithfulness.evaluate(explainer, EXAMPLES, [NormXLogit(), Random()])
    assert all(p.cost.passes > 0 and not p.reason for p in found)


def test_what_a_model_cannot_do_is_a_row_that_says_why():
    explainer = maskless()
    names = ["decompx", "frozen-gradient:points=0.3,baseline=mask", "frozen-gradient:read_at=9", "random"]
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
    assert len(kept) == 2, "a result and a cost"
    first = run_frontier(explainer, EXAMPLES, methods, folder=tmp_path, rounds=1)
    assert all((tmp_path / name).read_text() == text for name, text in kept.items())
    monkeypatch.setattr(module, "measure_cost", None)
    monkeypatch.setattr(explainer.model, "answer", None)
    assert run_frontier(explainer, EXAMPLES, methods, folder=tmp_path, rounds=1) == first
    assert first[2].reason


def test_settings_fit_the_model(explainer):
    specs = [m.spec for m in default_methods(explainer)]
    assert "frozen-gradient:points=0.3,baseline=mask" in specs
    assert "guided-lime:samples=8" in specs
    assert len(set(specs)) == len(specs)
    assert "integrated-gradients:steps=20" in specs
    without = [m.spec for m in default_methods(maskless())]
    assert "frozen-gradient:points=0.3,baseline=pad" in without
    assert not any("mask" in spec for spec in without)
    deep = Explainer(tiny.model("bert", num_hidden_layers=5), tiny.tokenizer_for("bert"))
    assert "frozen-gradient:read_at=-3" in [m.spec for m in default_methods(deep)]


def test_the_table_begins_with_the_cheapest_and_marks_the_frontier():
    lines = frontier_report.frontier_table(POINTS).splitlines()[2:]
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
    assert lines[-1] == "| decompx | N/A: needs an encoder / of some kind | | | | |"


def test_bars_reach_from_the_lower_end_of_the_interval_to_the_upper():
    (axes,) = frontier_report.frontier_figure({"one": POINTS[:1]}).axes
    (bar,) = axes.containers[0].lines[2][0].get_segments()  # (2, 2)
    np.testing.assert_allclose(bar, [[200, 0.55], [200, 0.65]])


def test_what_is_written_can_be_read(tmp_path):
    panels = {"one": POINTS, "two": POINTS[:2], "three": POINTS[-1:]}
    about = {title: {"texts": 3} for title in panels}
    frontier_report.write_frontier(tmp_path / "new" / "out", panels, about, torch.device("cpu"))
    text = (tmp_path / "new" / "out" / "frontier.md").read_text()
    assert text == frontier_report.frontier_text(panels, about)
    assert text.startswith("one: texts 3\n\n| method |")
    state = json.loads((tmp_path / "new" / "out" / "frontier.json").read_text())
    assert [panel["title"] for panel in state["panels"]] == list(panels)
    assert state["environment"]["device"] == "cpu"
    assert state["panels"][0]["points"][0]["cost"]["passes"] == 200.0
    assert state["panels"][2]["points"][0]["reason"].startswith("needs")
    drawn = (tmp_path / "new" / "out" / "frontier.svg").read_text()
    assert "frozen-gradient:read_at=-1" in drawn
    assert "decompx" not in drawn
    assert (tmp_path / "new" / "out" / "frontier.png").stat().st_size > 1000
