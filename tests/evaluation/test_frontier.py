"""Faithfulness against cost: what is counted, what is kept, what is drawn."""

import pytest
import torch

from normxlogit import DataError, Explainer, UnsupportedModelError
from normxlogit.evaluation import faithfulness, frontier_report
from normxlogit.evaluation import frontier as module
from normxlogit.evaluation import timing as clock
from normxlogit.evaluation.datasets import Example
from normxlogit.evaluation.frontier import Cost, Point, frontier, frontier_methods, measure_cost, run_frontier
from normxlogit.inputs.batching import batches
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
        explainer._model.module.register_forward_pre_hook(read, with_kwargs=True)
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
    passes = 1 + len({tuple(row) for row in _kept(count, 60)})
    assert measure_cost(explainer, [one], Lime(60), rounds=9) == Cost(passes, (passes, passes), 3), "slow: few rounds"


def _kept(count, samples):
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(0, 2, (count,), generator=generator).tolist() for _ in range(samples)]


def test_more_than_twenty_passes_are_timed_in_three_rounds(explainer, tokens_as_time):
    explainer(tiny.TEXTS)  # the model is taken apart
    tokens_as_time(explainer)
    for words, passes, rounds in ((18, 20, 4), (19, 21, 3)):
        texts = explainer.encode([" ".join(["good"] * words)])
        assert measure_cost(explainer, texts, method_named("occlusion"), rounds=4) == Cost(
            passes, (passes, passes), rounds
        )
        assert measure_cost(explainer, texts, method_named("occlusion"), rounds=2).rounds == 2


def test_a_cost_is_the_median_of_neighbours_in_time(explainer, monkeypatch):
    seconds = {"forward": (5.0, 5.0, 50.0), "method": (2.0, 4.0, 30.0)}  # the machine was busy in the last round
    asked = []

    def in_turn(sides, *, rounds, warmup):
        asked.append((rounds, warmup))
        return {name: clock.Timing(name, seconds[name][:rounds]) for name in sides}

    monkeypatch.setattr(module, "in_turn", in_turn)
    found = measure_cost(explainer, explainer.encode(tiny.TEXTS), Random(), rounds=3)
    assert found == Cost(3.0, (2.0, 4.0), 3)
    assert asked == [(1, 0), (3, 0)]


def test_a_round_has_five_plain_passes_over_the_texts_as_they_are_batched(explainer, tokens_as_time, monkeypatch):
    encodings = explainer.encode(tiny.TEXTS)
    now, read = tokens_as_time(explainer), []

    def in_turn(sides, *, rounds, warmup):
        before = now[0]
        sides["forward"]()
        read.append(now[0] - before)
        return {name: clock.Timing(name, (1.0,) * rounds) for name in sides}

    monkeypatch.setattr(module, "in_turn", in_turn)
    for refuted in (False, True):  # a model that takes no padding reads each text alone
        explainer._model.copy.padding.refuted = refuted
        measure_cost(explainer, encodings, Random(), rounds=1)
    alone = sum(map(len, encodings))
    assert read[2:] == [5 * alone] * 2
    assert read[0] == 5 * sum(
        max(len(encodings[i]) for i in group) * len(group)
        for group in batches(encodings, explainer._model.batch_tokens)
    )


def test_timed_texts_are_of_all_lengths(explainer):
    encodings = explainer.encode([" ".join(["good"] * n) for n in range(32, 0, -1)])
    lengths = [len(e) - 2 for e in module._spread_out(encodings)]
    assert lengths == list(range(2, 33, 2)), "sixteen of thirty-two"
    assert module._spread_out(encodings[:2]) == encodings[1::-1]
    of_thirty = [len(e) - 2 for e in module._spread_out(encodings[2:])]
    assert of_thirty == [int((place + 0.5) * 30 / 16) + 1 for place in range(16)], "at the middle of each sixteenth"


def test_the_frontier_is_what_no_cheaper_setting_reaches():
    assert [p.method for p in frontier(POINTS)] == ["random", "normxlogit", "frozen-gradient", "occlusion"]
    assert frontier([]) == []
    assert frontier(POINTS[-1:]) == []
    twins = [point("a", 1.0, 0.1), point("b", 1.0, 0.2), point("c", 2.0, 0.2), point("d", 3.0, -0.5)]
    assert [p.method for p in frontier(twins)] == ["b"], "of the same cost the better one, of the same AOPC the cheaper"
    assert [p.method for p in frontier([*twins[3:], Point("e", twins[0].result)])] == ["d"], (
        "what has no cost is left out"
    )


def test_figures_are_those_of_faithfulness(explainer):
    texts = [f"{one} {other}" for one in ("good", "bad", "cat", "not") for other in ("film", "the mat")]
    examples, methods = [Example(text, 0) for text in texts], [NormXLogit(), Random()]
    found = run_frontier(explainer, examples, methods, rounds=1)
    assert [p.result for p in found] == faithfulness.evaluate(explainer, examples, methods)
    others = run_frontier(explainer, examples, methods, rounds=1, seed=1)
    assert [p.result for p in others] == faithfulness.evaluate(explainer, examples, methods, seed=1)
    assert others[0].result != found[0].result
    assert all(p.cost.passes > 0 and not p.reason for p in found)


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
    assert len(kept) == 2, "a result and a cost"
    first = run_frontier(explainer, EXAMPLES, methods, folder=tmp_path, rounds=1)
    assert len(list(tmp_path.iterdir())) == 5
    assert all((tmp_path / name).read_text() == text for name, text in kept.items())
    monkeypatch.setattr(module, "measure_cost", None)
    monkeypatch.setattr(explainer._model, "answer", None)
    assert run_frontier(explainer, EXAMPLES, methods, folder=tmp_path, rounds=1) == first
    assert first[2].reason


def test_settings_fit_the_model(explainer, monkeypatch):
    def specs(explainer):
        return [method.spec for method in frontier_methods(explainer)]

    frozen = ["read_at=-1", "read_at=-2", "read_at=all", None, "baseline=mask"]
    frozen += [f"points={points},baseline=mask" for points in ("0.3", "0.5", "0.3+0.7")]
    guided = ["samples=8", "samples=16", None, "samples=64", "prior=frozen-gradient", "prior=normxlogit"]
    names = [
        *("random", "input-norm", "logat", "normxlogit"),
        *(f"frozen-gradient:{setting}" if setting else "frozen-gradient" for setting in frozen),
        *("gradient-x-input", "decompx"),
        *("integrated-gradients:steps=20", "integrated-gradients:steps=20,baseline=mask"),
        *("integrated-gradients", "integrated-gradients:baseline=mask", "occlusion"),
        *(f"guided-lime:{setting}" if setting else "guided-lime" for setting in guided),
        *("lime:samples=32", "lime", "kernel-shap"),
    ]
    wanted = list(dict.fromkeys(method_named(name).spec for name in names))
    assert specs(explainer) == wanted
    assert specs(maskless()) == [name.replace("baseline=mask", "baseline=pad") for name in wanted]
    deep = Explainer(tiny.model("bert", num_hidden_layers=5), tiny.tokenizer_for("bert"))
    assert specs(deep) == [name.replace("read_at=-2", "read_at=-3") for name in wanted]

    def refuses():
        raise UnsupportedModelError("no layers")

    monkeypatch.setattr(explainer._model, "layer_count", refuses)
    assert specs(explainer) == [name for name in wanted if "read_at=-2" not in name], "its rows will say so"


def test_the_frontier_methods_are_measured_in_nine_rounds(explainer, tokens_as_time, monkeypatch):
    monkeypatch.setattr(module, "frontier_methods", lambda explainer: [NormXLogit()])
    explainer(tiny.TEXTS)
    tokens_as_time(explainer)
    told = []
    (found,) = run_frontier(explainer, EXAMPLES, on_progress=lambda *step: told.append(step))
    assert (found.method, found.cost) == ("normxlogit", Cost(1.0, (1.0, 1.0), 9))
    assert told == [("normxlogit", 3, 3)]
