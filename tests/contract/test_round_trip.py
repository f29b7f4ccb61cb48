"""JSON that any parser reads, that comes back the same, and that cannot crash its reader."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import normxlogit
from normxlogit import ALL, Attribution, Attributions, InputError, TargetError
from normxlogit.errors import DataError
from normxlogit.results import Prediction, Target
from tests.contract.compare import comes_back, present, refused
from tests.factories import make_attribution, make_generation
from tests.makers import MAKERS

from .cases import Case, cases
from .texts import texts

ODD = [np.nan, np.inf, -np.inf, -0.0, 1e-40, 3.4e38, 0.1, 1.0, 2.0, 3.0]


def undefined() -> Attribution:
    return make_attribution(
        scores=ODD,
        prediction=Prediction("x", 0, float("nan"), float("inf")),
        token_predictions=tuple(Prediction("y", 1, float("-inf"), float("nan")) for _ in range(12)),
        diagnostics={"error": float("nan"), "size": np.float32(2.5)},
        settings={"p": float("inf"), "steps": np.int64(20), "each": [np.float64(0.5), (1, None)], "on": np.bool_(True)},
    )


def test_numbers_that_are_not_finite_come_back_the_same(tmp_path):
    a = undefined()
    assert a == undefined()
    assert a != replace(a, diagnostics={"error": 0.0, "size": 2.5})
    a.save(tmp_path / "a.json")
    state = json.loads((tmp_path / "a.json").read_text("utf-8"), parse_constant=pytest.fail)
    assert state["scores"][1:4] == ["NaN", "Infinity", "-Infinity"]
    found = normxlogit.load(tmp_path / "a.json")
    assert found == a
    np.testing.assert_array_equal(np.signbit(found.scores), np.signbit(a.scores))
    assert Attribution.from_dict(a.to_dict()) == a
    assert found.settings == {"p": float("inf"), "steps": 20, "each": (0.5, (1, None)), "on": True}
    assert type(a.settings["steps"]) is int
    assert a.settings["each"] == (0.5, (1, None))
    str(found), found.to_html()


def test_half_surrogate_pairs_and_hidden_characters_come_back_the_same(tmp_path):
    a = make_attribution(("\ud800", "\u2028"), (1.0, 2.0), text="\ud800 \u2028")
    a.save(tmp_path / "a.json")
    assert normxlogit.load(tmp_path / "a.json") == a


def deep(levels: int):
    value: list = []
    for _ in range(levels):
        value = [value]
    return value


BROKEN = {
    "scores": [None, [], "x", {}, 3.0, ["1"], [True] * 12, [1.0] * 11, [10**400] * 12, [1e300] * 12, deep(900)],
    "units": [None, [], {}, "x"],
    "text": [1, ["a"]],
    "text_pair": [1],
    "predictions": [None, {}, [{}], [{"label": 1, "id": 0, "value": 0.0, "probability": None}]],
    "targets": [None, {}, [], [{"kind": "magic"}]],
    "layers": [[], [1], 1, "all", [1, 2]],
    "token_predictions": [[], [{}] * 12, 3],
    "method": [None, 1, ["a"]],
    "settings": [None, [], "x", {"a": deep(99)}],
    "model": [None, 1],
    "signed": [None, 0, "yes"],
    "notes": [None, "note", [1]],
    "version": [None, 1],
    "diagnostics": [None, [], {"a": "x"}, {"a": [[1]]}, {"a": None}],
    "merge": [None, "median", 1],
    "format_version": [None, 2, "1", True, 2.5, 10**5000],
    "kind": [None, "citations", 1, ["attribution"]],
}


BROKEN_UNITS = {
    "kind": [None, "x" * 12, ["token"] * 11, ["letter"] * 12],
    "text": [None, "x" * 12, [1] * 12, ["a"] * 11, [["a"]] * 12],
    "ids": [None, ["1"] * 12, [-1] * 12, [1.5] * 12, [1] * 11, [True] * 12, [2**60] * 12],
    "spans": [[[0, 1]] * 11, [[1, 0]] * 12, [[0, 99]] * 12, [[0]] * 12, [0] * 12, [[0, -1]] * 12, "ab" * 6],
    "sequence": [None, [0] * 11, [2] * 12, ["0"] * 12],
    "special": [None, [0] * 12, [False] * 11],
    "name": [None, ["a"] * 11, [1] * 12],
}


@pytest.mark.parametrize(
    ("of_units", "name", "place"),
    [
        (table is BROKEN_UNITS, name, i)
        for table in (BROKEN, BROKEN_UNITS)
        for name in table
        for i in range(len(table[name]))
    ],
)
def test_hostile_fields_are_refused_with_a_word_on_where(of_units, name, place):
    state = make_attribution().to_dict()
    if of_units:
        state["units"][name] = BROKEN_UNITS[name][place]
    else:
        state[name] = BROKEN[name][place]
    with pytest.raises(DataError, match=r"format version|an attribution") as error:
        Attribution.from_dict(state)
    assert name in str(error.value) or name in ("format_version", "kind")
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("make", MAKERS)
def test_every_field_is_needed(make):
    state = make().to_dict()
    for name in state:
        with pytest.raises(DataError):
            type(make()).from_dict({k: v for k, v in state.items() if k != name})


@pytest.mark.parametrize("changes", [
    {"prompt_tokens": 9}, {"generated": [{}]}, {"targets": []}, {"scores": [[0.0] * 7]}, {"layers": [1]},
    {"diagnostics": {"e": [1.0]}}, {"completion": "x" * 99}, {"messages": [{"role": "user", "start": 5, "end": 99}]},
], ids=lambda changes: next(iter(changes)))  # fmt: skip
def test_generated_text_checks_its_own_fields(changes):
    with pytest.raises(DataError, match=f"an attribution: ({next(iter(changes))}|prompt_tokens|scores|a span)"):
        type(make_generation()).from_dict(make_generation().to_dict() | changes)


def test_several_targets_need_a_row_each():
    state = make_attribution(targets=(Target("label", "a", 0), Target("label", "b", 1))).to_dict()
    refused(DataError, "scores: not the axes of its targets", lambda: Attribution.from_dict(state))


CLASSIFIER = Case("bert", "SequenceClassification")
KINDS = [
    *(case for case in cases("MultipleChoice") if case.family == "roberta"),  # none without its wing
    Case("bert", "SequenceClassification"),
    Case("electra", "QuestionAnswering"),
    Case("gpt2", "CausalLM"),
    Case("deberta-v2", "TokenClassification"),
    Case("llama", "SequenceClassification", True),
]
ASKED = st.sampled_from([{}, {"layers": ALL}, {"layers": [2]}, {"token_predictions": True}])


def explained(explain, *args, **options):
    try:
        return explain(*args, **options)
    except (InputError, TargetError):
        assume(False)


def is_kept(result):
    with tempfile.TemporaryDirectory() as folder:
        comes_back(result, Path(folder))
        comes_back(Attributions([result, result]), Path(folder))
    table = result.to_pandas()
    assert table["score"].tolist() == pytest.approx(result.scores.reshape(-1).tolist())


@pytest.mark.parametrize("case", KINDS, ids=str)
@given(text=texts, options=ASKED)
def test_a_result_comes_back_the_same(case, text, options):
    is_kept(explained(case.explainer, case.input_of(text), **options))


@given(text=texts, method=st.sampled_from(present("frozen-gradient", "integrated-gradients:steps=3", "random")))
def test_so_does_one_of_all_labels_with_what_the_method_measured(text, method):
    is_kept(explained(CLASSIFIER.explainer, text, target=ALL, method=method))


@pytest.mark.parametrize("case", [c for c in cases("CausalLM") if c.family != "mamba"], ids=str)
@given(prompt=texts, completion=texts, layers=st.sampled_from([None, [1]]))
def test_and_one_of_generated_text(case, prompt, completion, layers):
    result = explained(case.explainer.explain_completion, prompt, completion, method="normxlogit", layers=layers)
    assert result.text == prompt + completion
    assert result.prompt + result.completion == result.text
    for start, end in result.offsets:
        assert 0 <= start <= end <= len(result.text)
    for row in range(len(result)):
        assert not result.scores[row, ..., result.prompt_tokens + row :].any()
    assert str(result)
    state = result.to_dict()
    assert Attribution.from_dict(json.loads(json.dumps(state, allow_nan=False))) == result
