import pytest

from normxlogit import Explainer, Method, UnsupportedModelError, register
from normxlogit.evaluation import runs
from normxlogit.evaluation.datasets import Example
from normxlogit.evaluation.faithfulness import run_methods
from normxlogit.evaluation.runs import Refused
from normxlogit.methods import NormXLogit, Random, method_named, registry
from tests import tiny

EXAMPLES = [Example(text, label) for text, label in zip(tiny.TEXTS, [0, 1, 0], strict=True)]


def measure(explainer, examples, methods, **options):
    return list(run_methods(explainer, examples, methods, **options))


@pytest.fixture
def refusing():
    @register("refusing", paper="none")
    class Refusing(Method):
        def score(self, request):
            raise UnsupportedModelError("no model will do")

    yield "refusing"
    del registry._METHODS["refusing"]


def test_finished_cells_are_not_measured_again(explainer, tmp_path, refusing, monkeypatch):
    methods = [NormXLogit(), NormXLogit(norm_of="word_embedding"), method_named(refusing)]
    first = measure(explainer, EXAMPLES, methods, folder=tmp_path)
    assert first[2] == Refused(refusing, "no model will do"), "what a method cannot do is N/A, not an error"
    assert first[0].aopc != first[1].aopc
    assert len(list(tmp_path.iterdir())) == 3
    monkeypatch.setattr(NormXLogit, "score", lambda *_: pytest.fail("measured again"))
    told = []
    again = measure(
        explainer, EXAMPLES, methods, folder=tmp_path, on_progress=lambda name, done, total: told.append((name, done))
    )
    assert told == [(method.spec, len(EXAMPLES)) for method in methods], "each is told of once, or a bar would run over"
    assert again == first


def test_a_cell_is_of_its_texts_model_and_protocol(explainer, tmp_path):
    measure(explainer, EXAMPLES, [Random()], folder=tmp_path)
    measure(explainer, EXAMPLES[:2], [Random()], folder=tmp_path)
    measure(explainer, EXAMPLES, [Random()], folder=tmp_path, protocol="published")
    other = tiny.explainer("bert", seed=1)
    measure(other, EXAMPLES, [Random()], folder=tmp_path)
    named = Explainer(explainer.model, tiny.tokenizer_for("bert"), labels=["no", "yes"])
    measure(named, [Example(e.text, ("no", "yes")[e.label]) for e in EXAMPLES], [Random()], folder=tmp_path)
    assert len(list(tmp_path.iterdir())) == 5
    assert not list(tmp_path.glob("*.part"))


def test_a_cell_of_another_version_is_measured_anew(explainer, tmp_path, monkeypatch):
    measure(explainer, EXAMPLES, [NormXLogit()], folder=tmp_path)
    monkeypatch.setattr(runs, "__version__", "another")
    measure(explainer, EXAMPLES, [NormXLogit()], folder=tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
