"""What scores are, computed anew from the caller's own model on any text."""

import numpy as np
import pytest
from hypothesis import assume, given

from normxlogit import ALL, InputError, TargetError

from .cases import CASES, Case, cases
from .compare import close as compare
from .compare import total
from .heads import read_layers, read_tokens
from .texts import texts

POST_NORM = [
    case
    for case in cases("SequenceClassification", "TokenClassification", "MaskedLM")
    if case.family in ("bert", "roberta", "distilbert", "electra", "deberta-v2", "albert", "xlnet", "big_bird")
]
FROZEN = cases("SequenceClassification", "CausalLM", "TokenClassification")


def close(one, other):
    compare(one, other, 1e-4)


def explained(case: Case, text, **options):
    """Explain a text, or give it up where it holds nothing to explain."""
    try:
        return case.explainer(case.input_of(text), **options)
    except (InputError, TargetError):  # any other error is one of the library
        assume(False)


def types_of(case: Case, result):
    """Return what else the model is given: which text of a pair each token is of."""
    if "token_type_ids" not in case.tokenizer.model_input_names:
        return {}
    known = case.tokenizer(result.text, result.text_pair)["token_type_ids"]
    return {"token_type_ids": known} if len(known) == len(result.units) else assume(False)


@pytest.mark.parametrize("case", [case for case in CASES if case.head != "MultipleChoice"], ids=str)
@given(text=texts)
def test_normxlogit_is_the_input_norm_times_the_head_at_each_token(case, text):
    result = explained(case, text, method="normxlogit")
    norms, each, answer = read_tokens(case, list(result.token_ids), **types_of(case, result))
    position = result.target.position
    told = answer if position is None else answer[position]
    chosen = result.target.id
    if case.regression:
        close(result.scores, norms * np.abs(each[:, 0] - answer[0]))
    else:
        close(result.scores, norms * each[:, chosen])
    if case.head == "QuestionAnswering":
        return
    assert result.prediction.value == pytest.approx(float(told.max()), rel=1e-4, abs=1e-4)
    assert told[result.prediction.id] == pytest.approx(float(told.max()), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("case", CASES, ids=str)
@given(text=texts)
def test_the_last_of_all_layers_is_the_answer_itself(case, text):
    plain = explained(case, text, method="normxlogit")
    layered = explained(case, text, layers=ALL, method="normxlogit")
    assert layered.layers == tuple(range(1, len(layered.layers) + 1))
    close(layered.scores[-1], plain.scores)
    several = explained(case, text, layers=[len(layered.layers), 1], method="normxlogit")
    close(several.scores, layered.scores[[-1, 0]])


@pytest.mark.parametrize("case", POST_NORM, ids=str)
@given(text=texts)
def test_every_layer_is_read_as_the_last_one_is(case, text):
    result = explained(case, text, layers=ALL, method="normxlogit")
    ids, more = list(result.token_ids), types_of(case, result)
    norms, _, _ = read_tokens(case, ids, **more)
    for scores, each in zip(result.scores, read_layers(case, ids, **more), strict=True):
        close(scores, norms * each[:, result.target.id])


@pytest.mark.parametrize("case", FROZEN, ids=str)
@given(text=texts)
def test_frozen_shares_and_the_bias_sum_to_the_logit_of_the_callers_model(case, text):
    result = explained(case, text, method="frozen-gradient", target=0)
    _, _, answer = read_tokens(case, list(result.token_ids), **types_of(case, result))
    position = result.target.position
    told = answer if position is None else answer[position]
    wanted = told[0] - (told.mean() if result.target.kind == "token" else 0)
    assert total(result) == pytest.approx(wanted, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("case", FROZEN, ids=str)
@given(text=texts)
def test_a_contrast_is_the_difference_of_two_targets(case, text):
    for method in ("normxlogit", "frozen-gradient"):
        rows = explained(case, text, method=method, target=[0, 1])
        one = explained(case, text, method=method, target=1)
        less = explained(case, text, method=method, target=0, contrast=1)
        close(rows.scores[1], one.scores)
        close(less.scores, rows.scores[0] - rows.scores[1])
