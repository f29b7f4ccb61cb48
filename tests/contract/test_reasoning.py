"""The reasoning of an answer is found as the tokenizer declares it, and left out to see whether it matters."""

import re

import numpy as np
import pytest

from normxlogit import Explainer, InputError
from tests import tiny
from tests.contract.compare import comes_back, nats, refused

PROMPT = "the cat sat on the mat . it was a day"
THOUGHTS = ["A good film.", "The plot was never bad."]
ANSWER = " <think> A good film. The plot was never bad. </think> So it was good"

CHAT = (
    "{% for m in messages %}{{ m['content'] if m['role'] == 'user' }}"
    "{% if m['role'] == 'assistant' %} the movie : [THINK] {{ m.thinking }} [/THINK] {{ m['content'] }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %} the movie :{% endif %}"
)
RESPONSE = {
    "start_anchor": "the movie :",
    "fields": {"thinking": {"open": "<think>", "close": "</think>"}, "content": {}},
}


def explainer(**declared):
    model, tokenizer = tiny.model("llama", "CausalLM"), tiny.tokenizer_for("llama")
    for name, value in declared.items():
        setattr(tokenizer, name, value)
    tokenizer.model_max_length = 200
    return Explainer(model, tokenizer)


def found(explained, answer):
    return [answer[start:end].strip() for start, end in explained.reasoning]


@pytest.mark.parametrize(
    ("declared", "answer"),
    [
        ({}, ANSWER),
        ({"chat_template": CHAT}, ANSWER.replace("<think>", "[THINK]").replace("</think>", "[/THINK]")),
        ({"chat_template": tiny.CHAT_TEMPLATE}, ANSWER),  # which knows no reasoning
        ({"response_template": RESPONSE}, ANSWER),
        ({"response_template": RESPONSE}, ANSWER.replace(" <think>", "So <think>")),
    ],
)
def test_reasoning_is_where_the_tokenizer_says(declared, answer):
    a = explainer(**declared).explain_completion(PROMPT, answer, parts="sentence")
    assert found(a, answer) == [" ".join(THOUGHTS)]


@pytest.mark.parametrize("declared", [{}, {"chat_template": CHAT}, {"response_template": RESPONSE}])
def test_an_answer_without_reasoning_has_none(declared):
    a = explainer(**declared).explain_completion(PROMPT, " A good film. So it was good")
    assert a.reasoning == ()
    refused(InputError, "no reasoning", lambda: a.through("reasoning"))


def test_the_caller_says_where_the_reasoning_is(tmp_path):
    answer = " A good film. So it was good"
    a = explainer().explain_completion(PROMPT, answer, parts="sentence", reasoning=[(0, 13)])
    assert a.reasoning == ((0, 13),)
    np.testing.assert_array_equal(a.through("reasoning").scores, a.through([(0, 13)]).scores)
    comes_back(a, tmp_path)
    many = explainer().explain_completion([PROMPT] * 2, [answer] * 2, reasoning=[[(0, 13)], None])
    assert [each.reasoning for each in many] == [((0, 13),), ()]
    refused(InputError, "reasoning", lambda: explainer().explain_completion(PROMPT, answer, reasoning=[(0, 99)]))


@pytest.mark.parametrize("options", [{}, {"parts": "sentence"}, {"parts": "sentence", "sources": "sentence"}])
def test_each_thought_is_left_out_and_the_answer_measured_again(options):
    e = explainer()
    a = e.explain_completion(PROMPT, ANSWER, verify="reasoning", **options)
    kept = " ".join(THOUGHTS), THOUGHTS[1], THOUGHTS[0], ""
    of = [nats(e, f"{PROMPT} <think> {thoughts} </think>", " So it was good") for thoughts in kept]
    tested = a.verified
    assert [removal.units for removal in tested.single] == [(thought,) for thought in THOUGHTS]
    measured = [removal.value for removal in (tested.original, *tested.single, tested.together)]
    np.testing.assert_allclose(measured, of, atol=1e-4)
    assert len({round(value, 3) for value in measured}) == 4
    assert tested.together.units == tuple(THOUGHTS)


def test_thoughts_that_are_not_there_are_not_left_out():
    answer = " A good film. So it was good"
    for given, spans in ((answer, None), (answer, [(0, len(answer))]), (" <think> </think> So it was good", None)):
        a = explainer().explain_completion(PROMPT, given, verify="reasoning", parts="sentence", reasoning=spans)
        assert a.verified is None
        assert "no reasoning" in a.notes[-1]
        assert not any("think" in target.name for target in a.targets)


def test_a_page_shows_the_ways_from_the_answer_through_its_reasoning_to_the_prompt():
    prompt = "the cat sat on the mat. it was a film. a plot is here."
    a = explainer().explain_completion(prompt, ANSWER, verify="reasoning", parts="sentence", sources="word")
    places = {f"S{number}": unit for number, unit in enumerate(a.units.sources, 1)}
    places |= {f"R{number}": len(a.units) - 4 + number for number in (1, 2)}  # the answer's last part is the last unit
    page = a.to_html()
    written = re.findall(r'data-part="(\d)"[^>]*>([^<]*)<', page)
    assert {("1", "The plot was never bad. &lt;/think&gt;"), ("2", "So it was good")} <= {*written}
    boxes = dict(re.findall(r'data-box="(\w+)" data-ways="([^"]*)"', page))
    ways = {label: re.findall(r"(\w+) ([\d.]+)", drawn) for label, drawn in boxes.items()}
    for part, label in enumerate(("R1", "R2", "A3")):
        names, shares = [name for name, _ in ways[label]], [float(share) for _, share in ways[label]]
        scores = a.scores[part, [places[name] for name in names]]
        assert 0 < len(names) <= 3
        assert (scores > 0).all()
        np.testing.assert_allclose(shares[0] * scores[1:], scores[0] * np.array(shares[1:]), atol=2e-3)
        assert sorted(shares, reverse=True) == shares
        assert min(shares) >= 0.1
        assert sum(shares) < 1.002
        assert all(place.startswith("S") or place < label for place in names), "a thought rests on earlier ones"
    reached = {name for drawn in ways.values() for name, _ in drawn if name.startswith("S")}
    assert boxes.keys() == {"R1", "R2", "A3", *reached}
    for removal in a.verified.single:
        times = np.exp(a.verified.original.value - removal.value)
        if times > 1.05:
            assert f"the answer is {times:.1f} times less likely without it" in page


def test_the_text_between_two_thoughts_is_a_part_of_its_own():
    parts = ["It is.", *THOUGHTS[:1], "Now.", *THOUGHTS[1:], "So it was good"]
    answer = " " + " ".join(parts)
    spans = [(answer.index(thought), answer.index(thought) + len(thought)) for thought in THOUGHTS]
    a = explainer().explain_completion(PROMPT, answer, parts="sentence", reasoning=spans)
    assert found(a, answer) == THOUGHTS
    assert [target.name.strip() for target in a.targets] == parts
