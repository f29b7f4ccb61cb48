"""Models, labels and methods that are measured, and those that are refused."""

import importlib

import numpy as np
import pytest

from normxlogit import DataError, Explainer, MethodError, UnsupportedModelError
from normxlogit.cli import main
from normxlogit.evaluation.datasets import Example
from normxlogit.evaluation.faithfulness import evaluate, run_methods
from normxlogit.methods import LogAt, method_named
from tests import adapters, tiny

FEELINGS = ("joy", "anger", "fear")
SPELLED = {"names": list, "zeros and ones": lambda names: [int(name in names) for name in FEELINGS]}


@pytest.mark.parametrize("module", ["datasets", "faithfulness", "report"])
def test_every_public_name_is_described(module):
    imported = importlib.import_module(f"normxlogit.evaluation.{module}")
    for name, value in vars(imported).items():
        if not name.startswith("_") and callable(value) and getattr(value, "__module__", "") == imported.__name__:
            assert value.__doc__, name


@pytest.mark.parametrize("spelled", SPELLED)
def test_the_accuracy_of_several_labels_is_the_share_of_answers_among_them(spelled):
    model = tiny.model("bert", num_labels=3, problem_type="multi_label_classification")
    explainer = Explainer(model, tiny.tokenizer_for("bert"), labels=FEELINGS)
    answers = [result.prediction.label for result in explainer(tiny.TEXTS)]
    others = [[name for name in FEELINGS if name != label] for label in answers]
    gold = [[others[i][0], label] if i % 2 else others[i] for i, label in enumerate(answers)]
    examples = [Example(text, SPELLED[spelled](names)) for text, names in zip(tiny.TEXTS, gold, strict=True)]
    (result,) = evaluate(explainer, examples, "input-norm")
    assert result.whole_quality == pytest.approx(np.mean([i % 2 for i in range(len(gold))]))
    with pytest.raises(DataError, match="answers with one label"):
        evaluate(Explainer(tiny.model("bert", num_labels=3), tiny.tokenizer_for("bert"), labels=FEELINGS), examples)


def test_a_regression_of_several_values_is_refused():
    model = tiny.model("bert", num_labels=3, problem_type="regression")
    with pytest.raises(UnsupportedModelError, match=r"one value, and .* answers with 3"):
        evaluate(Explainer(model, tiny.tokenizer_for("bert")), [Example("the movie", 1.0)], ["random"])


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")  # peft's call
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")  # torch's own
def test_measurements_of_one_adapter_are_not_those_of_another(tmp_path):
    pytest.importorskip("peft")
    examples = [Example("the movie is not good", 0), Example("a great film with charm", 1)]

    def measured(model, folder):
        explainer = Explainer(model, tiny.tokenizer(), name="tiny")
        (result,) = run_methods(explainer, examples, [method_named("occlusion")], folder=folder)
        return result.aopc

    model = adapters.adapted("bert", "other")
    first = measured(model, tmp_path)
    assert measured(model, tmp_path) == first
    assert len(list(tmp_path.iterdir())) == 1, "read, not measured again"
    model.set_adapter("other")
    assert measured(model, tmp_path) == measured(model, None) != first


def test_a_method_of_your_own_is_measured(explainer):
    class Unregistered(LogAt):
        """Not what its base is registered as."""

    examples = [Example(text, 0) for text in tiny.TEXTS]
    (result,) = evaluate(explainer, examples, LogAt())
    assert (result.method, result.texts) == ("logat", len(examples))
    with pytest.raises(MethodError, match="is not registered"):
        evaluate(explainer, examples, Unregistered())


@pytest.mark.parametrize(
    "words", [("faithfulness", "--methods", "logat normxlogt"), ("frontier", "--methods", "normxlogt")]
)
def test_a_misspelt_method_is_refused_before_a_model_is_loaded(words, capsys, monkeypatch):
    monkeypatch.setattr(Explainer, "from_pretrained", lambda *_, **__: pytest.fail("a model was loaded"))
    with pytest.raises(SystemExit):
        main(["evaluate", *words])
    assert "no method named 'normxlogt'; did you mean normxlogit" in capsys.readouterr().err
