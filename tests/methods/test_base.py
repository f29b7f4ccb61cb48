"""The base of all methods: what a class must be, what its objects say of themselves, and what may come out."""

from typing import Literal

import numpy as np
import pytest
import torch

from normxlogit import ALL, Method, MethodError, Request, Scores, list_methods, register
from normxlogit.decompositions import IntegratedGradients
from normxlogit.methods import LogAt, registry
from normxlogit.methods import run_method as run
from normxlogit.tasks.targets import resolve
from tests import commands, tiny


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Forget what a test registers."""
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))


@pytest.fixture
def explainer():
    return tiny.explainer("bert", num_labels=3)


def place_method():
    """Register a method from outside, as another package would."""

    @register("place", paper="nobody", per_layer=True, signed=True, tokenwise=True)
    class Place(Method):
        """Where a token stands, times a factor.

        Args:
            factor: The factor.
            way: From the "left" or the "right".
        """

        def __init__(self, factor: float = 1.0, way: Literal["left", "right"] = "left") -> None:
            self.factor, self.way = factor, way

        def score(self, request: Request) -> Scores:
            mask = request.forward.batch.mask
            places = mask.cumsum(-1).float() * self.factor  # (B, T)
            if self.way == "right":
                places = -places
            count, layers = request.target.ids.shape[1], max(len(request.layers), 1)
            values = places[:, None, None].expand(-1, count, layers, -1)
            return Scores(values, {"largest": values.amax((2, 3))})

    return Place


def test_a_method_from_outside_works_wherever_the_own_ones_do(explainer, capsys):
    place = place_method()
    assert place.info in list_methods()
    for method in (place(factor=2, way="right"), "place:factor=2,way=right", "place:way=right,factor=2.0"):
        together = explainer(tiny.TEXTS, method=method, target=ALL, layers=[1, 3])
        for text, found in zip(tiny.TEXTS, together, strict=True):
            assert found.scores.shape == (3, 2, len(found.units))
            np.testing.assert_array_equal(found.scores[1, 0], -2.0 * np.arange(1, len(found.units) + 1))
            assert (found.method, dict(found.settings)) == ("place", {"factor": 2.0, "way": "right"})
            assert found.diagnostics == {"largest": (-2.0,) * 3}
            assert found.signed
            alone = explainer(text, method=method, target=ALL, layers=[1, 3])
            np.testing.assert_array_equal(alone.scores, found.scores)
    writer = tiny.explainer("llama", "CausalLM")
    written = writer.explain_completion("the cat", " sat on", method="place:factor=2")
    np.testing.assert_array_equal(written.scores, [[2, 4, 0, 0], [2, 4, 6, 0]])
    code, out, _ = commands.run(capsys, "explain", "a film", "--method", "place:factor=2", "--format", "json")
    assert code == 0
    assert '"place"' in out


def test_an_object_of_a_class_that_is_not_registered_is_refused(explainer):
    class Unnamed(LogAt):
        """What its base is registered as, this one is not."""

    for made in (Unnamed(), type("Bare", (Method,), {"score": LogAt.score})()):
        with pytest.raises(MethodError, match=r"is not registered: put @register\(...\) before the class"):
            explainer(tiny.TEXTS[0], method=made)


def test_a_class_has_one_name_and_its_subclasses_have_others():
    place = place_method()
    with pytest.raises(MethodError, match="Place is registered already, as place: make a subclass"):
        register("somewhere", paper="nobody")(place)

    @register("elsewhere", paper="nobody")
    class Elsewhere(place): ...

    assert (place().spec, Elsewhere(factor=2).spec) == ("place", "elsewhere:factor=2.0")
    assert place() != Elsewhere()


def test_settings_spec_and_repr():
    method = IntegratedGradients("l1", steps=np.int64(7))
    assert method.settings == {
        "aggregate": "l1",
        "steps": 7,
        "baseline": "zero",
        "internal_batch_size": None,
        "protocol": "default",
    }
    assert type(method.settings["steps"]) is int, "settings are written as JSON"
    assert method.spec == "integrated-gradients:aggregate=l1,steps=7"
    assert repr(method) == (
        "IntegratedGradients(aggregate='l1', steps=7, baseline='zero', internal_batch_size=None, protocol='default')"
    )
    assert repr(LogAt()) == "LogAt()"
    assert LogAt().spec == "logat"


def answering(values):
    """Register a method that gives what a function makes of the right scores, (B, K, L, T)."""

    @register("given", paper="nobody", per_layer=True)
    class Given(Method):
        def score(self, request: Request) -> Scores:
            shape = (*request.target.ids.shape, max(len(request.layers), 1), request.forward.batch.mask.shape[1])
            return Scores(values(torch.ones(shape), request.forward.batch.mask))

    return Given()


@pytest.mark.parametrize(
    "values",
    [
        lambda right, mask: right[:, :, :, :-1],
        lambda right, mask: right[:, :1],
        lambda right, mask: right[:1],
        lambda right, mask: right[:, :, 0],
        lambda right, mask: right.transpose(1, 3),
        lambda right, mask: right.repeat(1, 1, 2, 1),
    ],
)
def test_scores_of_another_shape_are_refused(explainer, values):
    model = explainer._model
    forward = model.run(model.batch(explainer.encode(tiny.TEXTS[:2]), [0, 1]))
    request = Request(model, forward, resolve(model.task, forward, ALL))
    width = forward.batch.mask.shape[1]
    with pytest.raises(MethodError, match=rf"given gives scores of shape \(.*\), not \(2, 3, 1, {width}\)"):
        run(answering(values), request)
    with pytest.raises(MethodError, match="given gives scores of shape"):
        explainer(tiny.TEXTS[:2], target=ALL, method="given")


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_scores_that_are_not_finite_are_refused_and_the_layer_is_named(explainer, bad):
    def from_layer_two(right, mask):
        right[:, :, 1:, 2] = bad
        return right

    answering(from_layer_two)
    with pytest.raises(MethodError, match="given gives scores that are not finite at layer 2: a weight or a state of "):
        explainer(tiny.TEXTS, layers=[1, 2, 3], method="given")
    with pytest.raises(MethodError, match="not finite at layer 3"):
        explainer(tiny.TEXTS, layers=[1, 3], method="given")
    assert explainer(tiny.TEXTS[0], layers=[1], method="given").scores.all()
