"""Calls of tools as answers: the parts of the call in any chat template, and which of what was said they rest on."""

import json
from functools import partial

import numpy as np
import pytest

import normxlogit
from normxlogit import Explainer, InputError
from normxlogit.grounding import Citations
from tests import tiny
from tests.contract.compare import refused
from tests.contract.grounding.test_conversations import NATIVE, TEMPLATES, TRACE, sources_of

ARGUMENTS = {"movie": 'the "cat"', "charm": 42, "here": True, "keys": ["here", {"there": None}], "empty": ""}
CALL = {"type": "function", "function": {"name": "search", "arguments": ARGUMENTS}}
AGENT = [*TRACE[:4], {"role": "assistant", "content": None, "tool_calls": [CALL]}]
RESULTS_ALONE = NATIVE.replace("m.tool_calls or []", "[]")
REPEATED = "{% for m in messages %}{{ m.content * 2 }}{% endfor %}"
PYTHON = NATIVE.replace("c.function.arguments | tojson", "c.function.arguments")


def made(template, scale=4.0):
    """Return a model whose tokens are characters, so that every part of a call has its own."""
    tokenizer = tiny.letters()
    tokenizer.chat_template = template
    model = tiny.model("llama", "CausalLM", vocab_size=100, max_position_embeddings=1200, scale=scale)
    return Explainer(model, tokenizer)


def parts_of(cited):
    return {target.name: cited.text[slice(*target.span)] for target in cited.attribution.targets}


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_parts_of_a_call_are_its_name_and_the_values_of_its_arguments(name):
    template, plain = TEMPLATES[name]
    cited = made(template).cite(messages=AGENT, verify=0)
    values = {"movie": 'the \\"cat\\"', "charm": "42", "here": "true", "keys": '["here", {"there": null}]'}
    assert parts_of(cited) == {"search": "search", **values}
    assert cited.answer.strip(" \n(,").startswith("search")
    assert cited.answer.rstrip(")} ").endswith('"empty": ""')
    named = sources_of(cited)
    assert named["user:1"] == "Was the movie good?"
    assert named["tool result search:plot"] == '"plot": "very good"'
    assert not any('"cat\\"' in text for text in named.values())
    rendered = [note for note in cited.notes if "plain text" in note]
    assert bool(rendered) == (plain is not None or name == "one tool call")


def test_values_are_found_as_the_template_writes_them():
    cited = made(PYTHON).cite(messages=AGENT[:2], action=CALL, verify=0)
    assert "{'movie': 'the \"cat\"'" in cited.answer
    assert parts_of(cited)["here"] == "True"
    text_alone = {"function": {"name": "search", "arguments": "the cat"}}
    cited = made(NATIVE).cite(messages=AGENT[:4], action=text_alone, verify=0)
    assert parts_of(cited) == {"search": "search", "arguments": "the cat"}
    same_names = {"name": "keys", "arguments": {"keys": "QXZ", "Q": "ZXQ", "n": -1.5}}
    cited = made(NATIVE).cite(messages=AGENT[:4], action=same_names, verify=0)
    assert parts_of(cited) == {"keys": "keys", "keys (2)": "QXZ", "Q": "ZXQ", "n": "-1.5"}
    hostile = {"name": "a\x1b[31m\nb", "arguments": {"\x1b]0;x\x07": "<b id>\u202e", "</s>": "</s>"}}
    cited = made(NATIVE).cite(messages=AGENT[:4], action=hostile, verify=1)
    assert "\x1b" not in str(cited)
    assert "<b id>" not in cited.to_html()


def test_a_call_is_named_by_its_place_its_tool_or_itself():
    explainer = made(NATIVE)
    said_later = [{"role": "tool", "content": "The cat is here."}, {"role": "assistant", "content": "The cat."}]
    cite = partial(explainer.cite, verify=0)
    last = cite(messages=AGENT)
    as_text = {"name": "search", "arguments": json.dumps(ARGUMENTS)}
    for messages, action in ((AGENT, -1), (AGENT, 1), (AGENT, "search"), (AGENT[:4], CALL), (AGENT[:4], as_text)):
        assert cite(messages=messages, action=action) == last
    earlier = cite(messages=[*AGENT, *said_later], action=-1)
    assert "messages after the call are not read (2)" in earlier.notes
    np.testing.assert_array_equal(earlier.attribution.scores, last.attribution.scores)
    assert cite(messages=[*AGENT, *said_later]).answer.strip() == "The cat."
    assert cite(messages=AGENT, answer="The cat.").answer.strip() == "The cat."
    first = cite(messages=AGENT, action=0)
    assert (parts_of(first), first.question) == ({"search": "search", "movie": "the cat"}, "Was the movie good?")
    text_before = [*AGENT[:2], {"role": "assistant", "content": "The keys.", "tool_calls": [CALL, CALL]}]
    both = cite(messages=text_before)
    assert {"assistant:1", "tool call search:charm"} <= set(both.names)
    refused(InputError, "no call 2: the conversation calls search, search", lambda: cite(messages=AGENT, action=2))
    refused(InputError, "no call 'find'", lambda: cite(messages=AGENT, action="find"))
    refused(InputError, "no call True", lambda: cite(messages=AGENT, action=True))
    refused(InputError, "a call is", lambda: cite(messages=AGENT, action={"name": "search", "args": {}}))
    refused(InputError, "the call is the first message", lambda: cite(messages=AGENT[4:]))
    refused(InputError, "pass one of them", lambda: cite(messages=AGENT, action=0, turn=0))
    refused(InputError, "pass one of them", lambda: cite(messages=AGENT, action=0, answer="The cat."))
    refused(InputError, "pass messages= with it", lambda: cite("Is it?", ["The cat."], action=0))
    refused(InputError, "reasoning= is of an answer", lambda: cite(messages=AGENT, reasoning=[(0, 1)]))
    refused(InputError, "about sentences", lambda: cite(messages=AGENT, rank=True))
    refused(InputError, "the call of search once and as it is", lambda: made(REPEATED).cite(messages=AGENT))
    not_rendered = made(RESULTS_ALONE).cite(messages=AGENT, verify=0)
    assert parts_of(not_rendered) == parts_of(last)
    assert any("does not render tool calls" in note for note in not_rendered.notes)


def test_a_call_is_scored_and_tested_like_a_completion_in_these_parts():
    explainer = made(NATIVE)
    cited = explainer.cite(messages=AGENT, verify=99)
    prompt, shift = cited.text[: -len(cited.answer)], len(cited.text) - len(cited.answer)
    spans = dict(zip(cited.names, cited.spans, strict=True))
    parts = {target.name: (target.span[0] - shift, target.span[1] - shift) for target in cited.attribution.targets}
    same = explainer.explain_completion(prompt, cited.answer, sources=spans, parts=parts)
    occlusion = explainer.explain_completion(prompt, cited.answer, sources=spans, parts=parts, method="occlusion")
    assert [target.name for target in same.targets] == list(parts)
    if len(same.text) == len(cited.text):
        np.testing.assert_allclose(cited.attribution.scores, same.scores, rtol=1e-3, atol=1e-4)
    lost = occlusion.scores[:, occlusion.units.sources]
    np.testing.assert_allclose(cited.source_losses, lost, atol=1e-3)
    place = cited.names.index("user:1")
    assert cited.action.request == (place,)
    assert cited.action.request_loss == pytest.approx(float(lost[:, place].sum()), abs=1e-3)
    removed = explainer.without(None, ["user:1"], messages=AGENT)
    assert removed.original - removed.value == pytest.approx(cited.action.request_loss, abs=1e-3)


def test_what_is_said_of_a_call_was_measured():
    explainer, said = made(NATIVE, scale=8.0), set()
    for messages in (AGENT, AGENT[:3], [*AGENT[1:2], *AGENT[4:]]):
        cited = explainer.cite(messages=messages)
        first, loss = cited.top(1)[0], cited.action.request_loss
        assert f"{first.name} " in cited.summary
        assert f"({first.share:.0%} of the evidence)" in cited.summary
        is_cause = first.nats > 1
        assert ("is called because of" in cited.summary) == is_cause
        is_other = is_cause and first.source not in cited.action.request
        assert ("without the user's request" in cited.summary) == is_other
        assert ("not because of the user" in cited.summary) == (is_other and loss <= 1)
        assert all(support.judgement == "rests on" for support in cited.support)
        untested = explainer.cite(messages=messages, verify=0)
        assert "rests most on" in untested.summary
        assert np.isnan(untested.action.request_loss)
        said.add(is_cause)
    assert said == {True, False}
    by_message = explainer.cite(messages=AGENT, verify="message")
    name, loss = max(by_message.losses.items(), key=lambda item: item[1])
    assert (f"because of {name} (" in by_message.summary) == (loss > 1)


def test_calls_are_saved_drawn_and_loaded(tmp_path):
    cited = made(NATIVE).cite(messages=AGENT)
    assert Citations.from_dict(json.loads(json.dumps(cited.to_dict()))) == cited
    for name in ("call.json", "call.parquet"):
        cited.save(tmp_path / name)
        assert normxlogit.load(tmp_path / name) == cited
    first = cited.to_dict()["sentences"][0]
    assert (first["part"], first["text"]) == ("search", "search")
    for drawn in (str(cited), cited.to_html()):
        assert "What does each part of the call rest on?" in drawn
        assert "verdicts" not in drawn.splitlines()[0]
    assert "search" in cited.marked()
