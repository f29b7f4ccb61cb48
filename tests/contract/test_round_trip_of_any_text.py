"""What is written is read back the same, whatever text it is of; and a corpus run says what the explainer says."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import normxlogit
from normxlogit import ALL, Attribution, Attributions, InputError, TargetError
from tests.contract.compare import present

from .cases import Case, cases
from .texts import texts

KINDS = [
    Case("bert", "SequenceClassification"),
    *(case for case in cases("MultipleChoice") if case.family == "roberta"),  # none without its wing
    Case("electra", "QuestionAnswering"),
]
KINDS += [
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


def comes_back(result, kind):
    state = result.to_dict()
    assert kind.from_dict(state) == result
    assert kind.from_dict(json.loads(json.dumps(state, allow_nan=False))) == result
    several = Attributions([result, result])
    with tempfile.TemporaryDirectory() as folder:
        result.save(Path(folder) / "one.json")
        assert normxlogit.load(Path(folder) / "one.json") == result
        json.loads((Path(folder) / "one.json").read_text("utf-8"), parse_constant=pytest.fail)
        for name in ("all.json", "all.parquet"):
            several.save(Path(folder) / name)
            assert normxlogit.load(Path(folder) / name) == several
    table = result.to_pandas()
    assert table["score"].tolist() == pytest.approx(result.scores.reshape(-1).tolist())


@pytest.mark.parametrize("case", KINDS, ids=str)
@given(text=texts, options=ASKED)
def test_a_result_comes_back_the_same(case, text, options):
    comes_back(explained(case.explainer, case.input_of(text), **options), Attribution)


@given(text=texts, method=st.sampled_from(present("frozen-gradient", "integrated-gradients:steps=3", "random")))
def test_so_does_one_of_all_labels_with_what_the_method_measured(text, method):
    comes_back(explained(KINDS[0].explainer, text, target=ALL, method=method), Attribution)


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
