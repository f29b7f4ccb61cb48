"""`verify=`: what the caller's own model answers without the words of the highest scores."""

import itertools
import math

import numpy as np
import pytest
import torch

from normxlogit import ALL, Explainer
from normxlogit.results.verification import verdict
from tests import tiny
from tests.contract.cases import CASES, Case
from tests.contract.compare import comes_back, nats_of

VERIFIED = [case for case in CASES if case.head != "MultipleChoice"]
TEXT = "the movie is mediocre , maybe even bad but not boring"
REVIEWS = [
    "It is not a bad film, just a very long one.",
    "A dull and silly story that charms all the same.",
    "The best of a bad lot, and I loved every minute of it.",
    "An awful, boring, stupid and pointless waste of time.",
]


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    return Explainer.from_pretrained()


@pytest.mark.parametrize("case", VERIFIED, ids=str)
def test_answers_are_those_of_the_callers_own_model_without_the_words(case: Case) -> None:
    a = case.explainer(case.input_of(TEXT), verify=3)
    assert a.verified is not None
    assert len(a.verified.single) == 3
    for removal in (a.verified.original, *a.verified.single, a.verified.together):
        ids = [i for place, i in enumerate(a.token_ids) if place not in removal.tokens]
        more = {}
        if case.head == "QuestionAnswering" and "token_type_ids" in case.explainer.encode([(TEXT, "a")])[0].inputs:
            types = case.explainer.encode([case.input_of(TEXT)])[0].inputs["token_type_ids"]
            more = {"token_type_ids": [t for place, t in enumerate(types) if place not in removal.tokens]}
        output = case.answer(ids, **more)
        target = a.target.id
        if case.head == "QuestionAnswering":
            position = a.target.position - sum(token < a.target.position for token in removal.tokens)
            expected = (output.start_logits, output.end_logits)[target][0].softmax(-1)[position]
            expected = 0.0 if a.target.position in removal.tokens else expected
        elif case.head == "SequenceClassification":
            expected = output.logits[0, target] if case.regression else output.logits[0].softmax(-1)[target]
        else:
            position = a.target.position - sum(token < a.target.position for token in removal.tokens)
            expected = output.logits[0, position].softmax(-1)[target]
            assert removal.prediction.id == int(output.logits[0, position].argmax())
        assert removal.value == pytest.approx(float(expected), abs=1e-5)
        if not case.regression and case.head != "QuestionAnswering":
            assert removal.changed == (removal.prediction.id != a.prediction.id)


def test_the_words_of_the_highest_scores_are_removed_and_others_as_a_control(explainer: Explainer) -> None:
    a = explainer(TEXT, verify=4)
    ranked = sorted(a.words(), key=lambda word: -word.score)[:4]
    assert [removal.units for removal in a.verified.single] == [(word.text,) for word in ranked]
    assert set(a.verified.together.tokens) == {token for word in ranked for token in word.tokens}
    verified = explainer("The movie is mediocre, maybe even bad, and it goes on for far too long.", verify=3).verified
    assert len(verified.control.units) == len((verified.smallest or verified.together).units)
    assert set(verified.control.tokens).isdisjoint(verified.together.tokens)


@pytest.mark.parametrize("text", REVIEWS)
def test_no_word_of_the_smallest_set_can_be_put_back(text: str, explainer: Explainer) -> None:
    smallest = explainer(text, verify="auto").verified.smallest
    if smallest is None:
        return
    assert smallest.changed
    a = explainer(text)
    words = [word for word in a.words() if set(word.tokens) <= set(smallest.tokens)]
    assert len(words) == len(smallest.units)
    for kept in words if len(words) > 1 else []:
        removed = set(smallest.tokens) - set(kept.tokens)
        ids = torch.tensor([[i for place, i in enumerate(a.token_ids) if place not in removed]])
        with torch.no_grad():
            assert int(explainer.model(input_ids=ids).logits.argmax()) == a.prediction.id


def test_texts_alone_and_in_a_list_are_verified_alike(explainer: Explainer) -> None:
    texts = ["a good film", TEXT, "it is a long and boring story about nothing at all", "good"]
    for single, together in zip([explainer(t, verify=2) for t in texts], explainer(texts, verify=2), strict=True):
        for one, other in zip(single.verified.single, together.verified.single, strict=True):
            assert one.tokens == other.tokens
            assert one.value == pytest.approx(other.value, abs=1e-5)


def test_a_label_of_several_keeps_the_verification_that_is_its_own(explainer: Explainer) -> None:
    assert explainer(TEXT, verify=0).verified is explainer(TEXT).verified is None
    a = explainer(TEXT, target=ALL, verify=1)
    other = next(target.name for target in a.targets if target.name != a.prediction.label)
    assert a[a.prediction.label].verified == a.verified
    assert a[other].verified is None


def test_of_several_labels_the_predicted_one_ranks_the_words(explainer: Explainer) -> None:
    labels = set()
    for text in REVIEWS:
        alone, every = explainer(text, verify=2), explainer(text, target=ALL, verify=2)
        labels.add(alone.prediction.id)
        assert [removal.units for removal in every.verified.single] == [r.units for r in alone.verified.single]
    assert len(labels) == 2, "the first label and another one"


def test_of_several_layers_the_one_that_is_drawn_ranks_the_words(explainer: Explainer) -> None:
    """All of the last layer's scores are on the token that the head reads: it ranks no word."""
    a = explainer(REVIEWS[0], layers=ALL, verify=2)
    assert not a.layer(3).scores[~np.array(a.units.special)].any()
    assert a.verified is not None
    assert [unit for removal in a.verified.single for unit in removal.units] == [w.text for w in a.layer(2).top(2)]


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_completions_lose_what_the_callers_own_model_says_they_lose(family: str) -> None:
    case = Case(family, "CausalLM")
    g = case.explainer.explain_completion("the movie is good and the plot is bad", " never seen", verify=3)
    assert g.verified.quantity == "log-probability"
    count = len(g.token_ids) - g.prompt_tokens
    for removal in (g.verified.original, *g.verified.single, g.verified.together):
        ids = [i for place, i in enumerate(g.token_ids) if place not in removal.tokens]
        assert removal.value == pytest.approx(nats_of(case.model, ids, count), abs=1e-4)
    assert max(map(max, (r.tokens for r in g.verified.single))) < g.prompt_tokens
    assert type(g).from_dict(g.to_dict()) == g
    less = math.exp(g.verified.original.value - (g.verified.smallest or g.verified.together).value)
    shown = f"{less:.1f} times less likely" if less > 1.05 else f"{1 / less:.1f} times likelier"
    for drawn in (str(g), g.to_html()):
        assert (shown if abs(less - 1) > 0.05 else "as likely") in drawn
        assert " nats" not in drawn


def test_a_completion_keeps_a_word_of_its_prompt() -> None:
    explainer = Case("gpt2", "CausalLM").explainer
    g = explainer.explain_completion("the cat sat", " on", verify="auto")
    assert (len(g.verified.together.units), len(g.verified.single)) == (2, 3)
    (note,) = explainer.explain_completion("the", " cat", verify=2).notes
    assert note.startswith("not verified")


def test_files_and_tables_have_the_answers_without(explainer: Explainer, tmp_path) -> None:
    many = explainer([TEXT, "good"], verify=2)
    comes_back(many, tmp_path)
    comes_back(many[0], tmp_path)
    frame = many.to_pandas("text")
    verified = many[0].verified
    removal = verified.smallest or verified.together
    assert frame["removed"][0] == ", ".join(removal.units)
    assert frame["prediction_without"][0] == removal.prediction.label
    assert frame["value_without"][0] == removal.value
    tokens = many[0].to_pandas()
    for removal in verified.single:
        assert set(tokens["value_without"][list(removal.tokens)]) == {removal.value}
    assert tokens["value_without"].notna().sum() == sum(len(removal.tokens) for removal in verified.single)


@pytest.mark.parametrize("problem", ["multi_label_classification", "regression"])
def test_an_output_that_stands_by_itself_is_tested_by_its_own_answer(problem: str) -> None:
    model, tokenizer = tiny.model("bert", num_labels=3, problem_type=problem), tiny.tokenizer_for("bert")
    with torch.no_grad():
        model.classifier.weight.mul_(8)
        model.classifier.bias.add_(torch.tensor([2.36, 1.44, 1.93]))  # about a half each
    explainer = Explainer(model, tokenizer)
    switched = crossed = 0
    texts = ["good movie and a bad plot", "the cat sat", "never maybe awful"]
    for text, target in itertools.product(texts, [None, 0, 2]):
        a = explainer(text, target=target, verify="auto")
        assert problem != "regression" or a.prediction.id == (target or 0), "the value shown is the one explained"
        ids = tokenizer(text)["input_ids"]
        whole = tiny.logits_of(model, ids)
        for removal in (a.verified.original, *a.verified.single, a.verified.together, a.verified.smallest):
            if removal is None:
                continue
            logits = tiny.logits_of(model, [i for place, i in enumerate(ids) if place not in removal.tokens])
            own = float(logits[a.target.id])
            assert removal.prediction.id == a.target.id
            assert removal.prediction.value == pytest.approx(own, abs=1e-4)
            if problem == "regression":
                assert removal.value == pytest.approx(own, abs=1e-4)
                assert not removal.changed
            else:
                assert removal.value == pytest.approx(float(logits.sigmoid()[a.target.id]), abs=1e-5)
                assert removal.changed == ((own >= 0) != (float(whole[a.target.id]) >= 0))
                switched += int(logits.argmax()) != int(whole.argmax()) and not removal.changed
                crossed += removal.changed
        others = {name for name in ("LABEL_0", "LABEL_1", "LABEL_2") if name != a.target.name}
        assert not any(name in verdict(a.verified) for name in others)
    assert problem == "regression" or (switched and crossed), "another label first is no change, and a half is"


def test_the_space_before_a_word_goes_with_it_where_it_is_a_token_by_itself() -> None:
    tokenizer = tiny.letters()  # as tokenizers of language models split numbers from the space before them
    model = tiny.model("llama", "CausalLM", vocab_size=len(tokenizer), pad_token_id=0, bos_token_id=1, eos_token_id=1)
    text = "it was 12 years\n\nand 3 more"

    def ids_without(start: int, end: int) -> list[int]:
        spaces = len(text[:start]) - len(text[:start].rstrip(" "))
        return tokenizer(text[: start - spaces] + text[end:])["input_ids"]

    explainer = Explainer(model, tokenizer)
    a = explainer(text, verify=6)
    g = explainer.explain_completion(text, " sat", verify=6)
    ids, completion = tokenizer(text)["input_ids"], tokenizer(" sat")["input_ids"]
    for verified in (a.verified, g.verified):
        for removal in verified.single:
            removed = removal.tokens
            start, end = a.offsets[removed[0]][0], a.offsets[removed[-1]][1]
            assert text[start:end].lstrip(" ") == removal.units[0]
            kept = ids_without(start, end)
            assert [i for place, i in enumerate(ids) if place not in removed] == kept
            if verified is a.verified:
                expected = float(tiny.logits_of(model, kept)[-1].softmax(-1)[a.target.id])
            else:
                expected = nats_of(model, [*kept, *completion], len(completion))
            assert removal.value == pytest.approx(expected, abs=1e-4)
    assert "\n" not in "".join(unit for removal in a.verified.single for unit in removal.units)
