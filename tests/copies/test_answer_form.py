"""Which field of a module's output is its answer, and what its numbers are."""

from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional as F

from normxlogit import InputError, UnsupportedModelError
from normxlogit.copies.answer_form import AnswerForm, answer_form, answer_keys, fields_of
from normxlogit.copies.forward_arguments import ForwardSettings
from normxlogit.copies.normalisers import NORMALISERS

LOGITS = torch.tensor([[1.0, -2.0, 0.5], [0.3, 0.2, 2.0]])
PAIR, TOKENS, LOSS = torch.zeros(2, 3), torch.zeros(2, 5, 3), torch.tensor(0.3)
IDS, FOUR_AXES, ONE_NUMBER = torch.zeros(2, 3, dtype=torch.long), torch.zeros(2, 1, 5, 5), torch.zeros(2)


def keys_of(output, named=None, extractive=False, fits=lambda _: True):
    return answer_keys(output, named, "Own", extractive=extractive, fits=fits)


@pytest.mark.parametrize(
    ("output", "extractive", "keys"),
    [
        (LOGITS, False, (None,)),
        ((LOSS, LOGITS), False, (1,)),
        ([IDS, LOGITS, FOUR_AXES], False, (1,)),
        ({"logits": LOGITS, "embedding": PAIR}, False, ("logits",)),
        ({"logits": LOGITS, "embedding": PAIR}, True, ("logits", "embedding")),
        ({"logits": LOGITS, "embedding": torch.zeros(2, 8)}, True, ("logits",)),
        ({"logits": LOGITS, "a": PAIR, "b": PAIR}, True, ("logits",)),
        ({"start_logits": PAIR, "end_logits": PAIR, "logits": LOGITS}, False, ("start_logits", "end_logits")),
        ({"start_logits": PAIR, "scores": TOKENS, "logits": LOGITS}, False, ("logits",)),
        ({"scores": LOGITS, "loss": LOSS}, False, ("scores",)),
        ({"scores": ONE_NUMBER}, False, ("scores",)),
        (SimpleNamespace(scores=LOGITS, ids=IDS), False, ("scores",)),
    ],
)
def test_the_answer_is_known_by_its_name_or_is_the_only_one(output, extractive, keys):
    assert keys_of(output, extractive=extractive) == keys


def test_what_fits_the_task_is_the_answer_and_what_is_named_goes_before():
    output = {"states": TOKENS, "scores": ONE_NUMBER}
    assert keys_of(output, fits=lambda logits: logits.shape == (2, 1)) == ("scores",)
    assert keys_of(output, fits=lambda logits: logits.ndim == 3) == ("states",)
    assert keys_of({"states": TOKENS, "logits": LOGITS}, named="states") == ("states",)
    assert keys_of((LOGITS, PAIR), named=1) == (1,)
    for fits in (lambda _: True, lambda _: False):
        with pytest.raises(UnsupportedModelError, match=r"not clear: 'states' \(2, 5, 3\), 'scores' \(2,\); name it"):
            keys_of(output, fits=fits)


@pytest.mark.parametrize(
    ("output", "named", "message"),
    [
        ({"scores": LOGITS}, "other", r"returns no 'other' of one to three axes, but 'scores' \(2, 3\)"),
        ({"loss": LOSS}, "loss", "returns no 'loss' of one to three axes, but a dict"),
    ],
)
def test_a_field_that_is_not_there_is_refused(output, named, message):
    with pytest.raises(InputError, match=message):
        keys_of(output, named)


@pytest.mark.parametrize(
    ("output", "described"), [(IDS, r"a tensor of shape \(2, 3\) and type int64"), ("text", "a str"), ({}, "a dict")]
)
def test_what_has_no_answer_is_described(output, described):
    with pytest.raises(UnsupportedModelError, match=described):
        keys_of(output)


def test_the_fields_of_an_output():
    named = torch.return_types.max((LOGITS, IDS))
    assert dict(fields_of((LOGITS, PAIR))) == {0: LOGITS, 1: PAIR}
    assert list(fields_of(named)) == [0, 1]
    assert fields_of({"a": 1}) == {"a": 1}
    assert fields_of(LOGITS) == {None: LOGITS}
    assert fields_of(3) == {None: 3}
    assert fields_of(SimpleNamespace(a=1)) == {"a": 1}


def form_of(function, declared=None, keys=(None,)):
    return answer_form(lambda number: function(LOGITS[number : number + 1]), keys, declared, input_count=2)


KNOWN = {**NORMALISERS, "logsigmoid": NORMALISERS["log_sigmoid"]}  # as torch's functional module calls it

NAMES = {"softmax": (-1,), "log_softmax": (-1,), "sigmoid": (), "logsigmoid": ()}


@pytest.mark.parametrize("name", NAMES)
def test_a_function_that_ends_a_forward_is_seen_and_its_logits_are_the_answer(name):
    namespace = F if name == "logsigmoid" else torch

    def forward(logits):
        return getattr(namespace, name)(logits, *NAMES[name]).squeeze().view(1, 3)

    form = form_of(forward)
    assert form == AnswerForm((None,), KNOWN[name], recorded=True)
    assert "the logits before its last operation" in form.note[0]
    output, logits = form.call(forward, LOGITS[:1] * 3)
    torch.testing.assert_close(logits, LOGITS[:1] * 3, atol=0, rtol=0)
    torch.testing.assert_close(form.returned(logits), output)
    declared = form_of(forward, declared=KNOWN[name].outputs)
    assert declared.recorded
    assert declared.note == ()


def written_softmax(logits):
    exponentials = logits.exp()
    return exponentials / exponentials.sum(-1, keepdim=True)


WRITTEN_OUT = {
    "softmax": (written_softmax, None),
    "log_softmax": (lambda logits: written_softmax(logits).log(), None),
    "sigmoid": (lambda logits: 1 / (1 + (-logits).exp()), "probabilities"),
    "logsigmoid": (lambda logits: -(1 + (-logits).exp()).log(), "log-probabilities"),
}


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_probabilities_are_known_by_their_numbers_or_by_what_the_owner_says(name):
    function, declared = WRITTEN_OUT[name]
    form = form_of(function, declared)
    assert (form.normaliser, form.recorded) == (KNOWN[name], False)
    if declared is None:
        assert "the logits that belong to them" in form.note[0]
    else:
        assert form_of(function) == AnswerForm(), "numbers between 0 and 1 may be anything"
    output, logits = form.call(function, LOGITS[:1])
    torch.testing.assert_close(form.returned(logits), output)
    torch.testing.assert_close(logits.softmax(-1), LOGITS[:1].softmax(-1))


@pytest.mark.parametrize(
    "function",
    [
        lambda logits: logits,
        lambda logits: logits.softmax(-1) * 2,
        lambda logits: logits.softmax(-1) - 0.1,
        lambda logits: logits.softmax(0),  # of a single text: ones
        lambda logits: logits.softmax(-1)[:, :2],
        lambda logits: torch.ones_like(logits[:, :1]),  # a single number, whose sum is one
        lambda logits: torch.ones(1),
        lambda logits: logits.softmax(-1) if logits[0, 0] == 1 else logits,
    ],
)
def test_other_numbers_are_logits(function):
    assert form_of(function) == AnswerForm()


@pytest.mark.parametrize("declared", ["logits", "values"])
def test_what_the_owner_says_is_not_looked_at(declared):
    assert form_of(lambda logits: logits.softmax(-1), declared) == AnswerForm(declared=declared)


@pytest.mark.parametrize(
    ("function", "declared", "message"),
    [
        (lambda logits: logits, "probabilities", r"returned numbers from -2 to 2$"),
        (lambda logits: logits.softmax(-1), "log-probabilities", "which are probabilities"),
        (lambda logits: logits.log_softmax(-1), "probabilities", "which are log-probabilities"),
    ],
)
def test_numbers_that_are_not_what_the_owner_says_are_refused(function, declared, message):
    with pytest.raises(InputError, match=message):
        form_of(function, declared)


def test_two_fields_stand_side_by_side_and_a_single_number_is_a_class():
    form = AnswerForm(("a", "b"))
    _, logits = form.call(lambda: {"a": PAIR, "b": PAIR + 1})
    assert logits.shape == (2, 3, 2)
    assert torch.equal(logits[..., 1], PAIR + 1)
    assert AnswerForm().call(lambda: ONE_NUMBER)[1].shape == (2, 1)


@pytest.mark.parametrize(
    ("settings", "described"),
    [
        ({}, False),
        ({"extra_inputs": {"a": LOGITS}}, False),
        ({"outputs": "logits"}, True),
        ({"output_field": 0}, True),
        ({"input_names": {"input_ids": "ids"}}, True),
    ],
)
def test_whether_the_owner_describes_the_forward(settings, described):
    assert ForwardSettings(**settings).describes_forward is described
