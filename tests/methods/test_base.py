import pytest
import torch

from normxlogit import ALL, Method, MethodError, Request, Scores, register
from normxlogit.methods import registry
from tests import tiny


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))


@pytest.fixture
def explainer():
    return tiny.explainer("bert", num_labels=3)


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
    answering(values)
    width = max(map(len, explainer.encode(tiny.TEXTS[:2])))
    with pytest.raises(MethodError, match=rf"given gives scores of shape \(.*\), not \(2, 3, 1, {width}\)"):
        explainer(tiny.TEXTS[:2], target=ALL, method="given")


@pytest.mark.parametrize("bad", [torch.nan, -torch.inf])
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


@pytest.mark.parametrize(("extra", "installs"), [("", "all"), ("eval", "eval")])
def test_a_method_whose_package_is_missing_names_it_and_the_line_that_installs_it(explainer, extra, installs):
    @register("needy", paper="nobody", extra=extra)
    class Needy(Method):
        def __init__(self, size: int = 3) -> None:
            raise ModuleNotFoundError("No module named 'rare'", name="rare")

        def score(self, request: Request) -> Scores:
            raise NotImplementedError

    with pytest.raises(MethodError, match=rf"needy needs the package rare: pip install 'normxlogit\[{installs}\]'"):
        explainer("the cat", method="needy:size=4")


@pytest.mark.parametrize("needs", [True, False])
def test_a_pass_has_gradients_only_for_methods_that_need_them(explainer, needs):
    seen = []

    @register("watching", paper="nobody")
    class Watching(Method):
        needs_grad = needs

        def score(self, request: Request) -> Scores:
            seen.append(torch.is_grad_enabled())
            return Scores(torch.zeros(*request.target.ids.shape, 1, request.forward.batch.mask.shape[1]))

    assert not Method.needs_grad
    explainer(tiny.TEXTS[0], method=Watching())
    assert seen == [needs]
