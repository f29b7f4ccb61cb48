"""Every error is a `NormXLogitError` that says what was wrong; at the command line it is one line and exit code 2.

Bad calls and command lines by the hundred are in tests/catalogue; here are the types, and calls on results.
"""

import inspect
import pickle

import pytest

import normxlogit
from normxlogit import Attribution, Attributions, Explainer, NormXLogitError, register
from normxlogit.errors import (
    DataError,
    ExtensionError,
    HeadMismatchError,
    InputError,
    MethodError,
    TargetError,
    UnsupportedModelError,
)
from tests import tiny
from tests.commands import run
from tests.contract.compare import refused
from tests.factories import labels_and_layers, make_attribution, make_generation, pair

ERRORS = [DataError, ExtensionError, HeadMismatchError, InputError, MethodError, TargetError, UnsupportedModelError]


def test_every_error_inherits_from_one():
    exported = [getattr(normxlogit, name) for name in normxlogit.__all__]
    errors = {e for e in exported if inspect.isclass(e) and issubclass(e, Exception)}
    assert errors == {NormXLogitError, *ERRORS}
    assert all(issubclass(error, NormXLogitError) for error in errors)
    assert issubclass(HeadMismatchError, UnsupportedModelError), "who handles the one handles the other"
    assert not any(issubclass(error, ValueError | KeyError | TypeError) for error in errors)


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_crosses_processes_and_stays_short(error):
    said = error(f"no label {'x' * 100_000!r} \x1b[31m")
    assert len(str(said)) <= 1000
    assert "\x1b" not in str(said)
    copy = pickle.loads(pickle.dumps(said))
    assert (type(copy), str(copy)) == (error, str(said))


@pytest.mark.parametrize("error", [ValueError, KeyError, RuntimeError, AssertionError, IndexError, TypeError])
@pytest.mark.parametrize("used", [False, True], ids=["first call", "later call"])
def test_what_a_models_own_forward_raises_is_told_with_its_reason(error, used):
    model = tiny.model("bert")
    e = Explainer(model, tiny.tokenizer_for("bert"))
    assert e([]) == []
    if used:
        e("the cat")

    def fail(*_):
        raise error("the model's own reason")

    model.bert.encoder.layer[1].register_forward_pre_hook(fail)
    refused(NormXLogitError, "the model's own reason", lambda: e("the cat sat"))


CALLS = {
    "an unknown label of a result": lambda: labels_and_layers()["neutral"],
    "an unknown layer of a result": lambda: labels_and_layers().layer(9),
    "another label than the one of a result": lambda: make_attribution()["positive"],
    "an unknown way to merge": lambda: make_attribution().words("median"),
    "the top of several rows": lambda: labels_and_layers().top(),
    "the words of nothing": lambda: make_attribution(offsets=None).words(),
    "the top words of several rows": lambda: Attributions([labels_and_layers()]).top(),
    "gold labels of another number": lambda: Attributions([pair()]).filter(gold=["a", "b"]),
    "right answers without gold labels": lambda: Attributions([pair()]).filter(correct=True),
    "gold labels in one string": lambda: Attributions([pair()]).filter(gold="abc"),
    "a generated token that is not there": lambda: make_generation()[99],
    "a generated token that is not there by name": lambda: make_generation()["blue"],
    "an unknown part of an answer": lambda: make_generation().sources("word", "token")[3],
    "a part of an answer by name": lambda: make_generation().sources("word", "token")["blue"],
    "one target of several": lambda: labels_and_layers().target,
    "a layer that was not asked for": lambda: make_generation().layer(1),
    "an unknown kind of source": lambda: make_generation().sources("chapter"),
    "an unknown kind of plot": lambda: make_attribution().plot("pie"),
    "a plot of no word": lambda: make_attribution().plot(k=0),
    "bars of several rows": lambda: labels_and_layers().plot("bars"),
    "a page of a name that cannot be": lambda: make_attribution().to_html("a\0b.html"),
    "a result of another kind": lambda: Attribution.from_dict(make_attribution().to_dict() | {"kind": "another"}),
    "a dictionary of nothing": lambda: Attribution.from_dict({}),
    "a method class that scores nothing": lambda: register("x", paper="", needs="")(type("X", (), {})),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_bad_call_is_an_error_of_the_library(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NormXLogitError) as error:
        call()
    assert 10 < len(str(error.value)) <= 1000
    assert "\n" not in str(error.value).strip()
    assert not list(tmp_path.iterdir())


def test_a_fault_of_the_library_keeps_its_traceback(monkeypatch, capsys):
    """Only the library's own errors are one line: a defect must be seen."""

    def broken(*_, **__):
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(Explainer, "__call__", broken)
    with pytest.raises(ZeroDivisionError):
        run(capsys, "explain", "x")


PUBLIC = {"normxlogit", "normxlogit.cli", "normxlogit.errors", "normxlogit.methods", "normxlogit.results"}
"""Modules that the documentation imports from."""


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_every_public_name_is_there_and_described(module):
    imported = pytest.importorskip(module)
    for name in imported.__all__:
        value = getattr(imported, name)
        if callable(value) and getattr(value, "__module__", "").startswith("normxlogit"):
            assert value.__doc__, f"{module}.{name} has no docstring"


def test_dir_and_unknown_names():
    assert set(normxlogit.__all__) <= set(dir(normxlogit))
    assert not hasattr(normxlogit, "nothing_of_that_name")


TEXT = "the movie is not good"


@pytest.mark.parametrize(
    ("argument", "advice"),
    [
        ({"text_pair": "bad"}, r"explainer\(\(text, text_pair\)\)"),
        ({"layer": 2}, "layers="),
        ({"batch_size": 8}, "batch_tokens="),
        ({"label": "LABEL_0"}, "target="),
        ({"labels": ["LABEL_0"]}, "target="),
        ({"max_length": 10}, "long_text="),
        ({"truncation": True}, "long_text="),
        ({"device": "cpu"}, r"from_pretrained\(name, device=\.\.\.\)"),
        ({"targts": [0]}, "did you mean targets="),
        ({"progres": False}, "did you mean progress="),
        ({"nonsense": 1}, "target=, targets="),
    ],
    ids=str,
)
def test_an_argument_of_another_name_is_told_the_right_one(explainer, argument, advice):
    refused(InputError, f"no argument {next(iter(argument))!r}.*{advice}", lambda: explainer(TEXT, **argument))


@pytest.mark.parametrize(
    ("method", "argument", "right"),
    [
        ("frozen-gradient", {"read_at": 0}, "frozen-gradient:read_at=0"),
        ("random", {"seed": 3}, "random:seed=3"),
        ("occlusion:window=1", {"window": 2}, "occlusion:window=2"),
    ],
)
def test_a_setting_of_a_method_goes_with_the_method(explainer, method, argument, right):
    refused(MethodError, f"method='{right}'", lambda: explainer(TEXT, method=method, **argument))
    explainer(TEXT, method=right)


def test_labels_name_the_outputs_of_a_loaded_model():
    explainer = Explainer.from_pretrained(labels=["bad", "good"])
    assert explainer("a fine film").prediction.label == "good"
    assert explainer("a fine film", target="bad").target.id == 0


def test_every_call_of_the_explainer_has_its_own_name_and_description():
    calls = {name: call for name, call in vars(Explainer).items() if inspect.isfunction(call) and name[0] != "_"}
    assert len(calls) > 5
    assert all((call.__name__, bool(call.__doc__)) == (name, True) for name, call in calls.items())
