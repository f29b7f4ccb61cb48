"""Answers of conversations: the sources are what was said before, in the words of any chat template."""

import copy
import json
from functools import partial

import numpy as np
import pytest

from normxlogit import DataError, InputError
from normxlogit.grounding import Citations
from tests import tiny
from tests.contract.compare import refused
from tests.contract.texts import chat

CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"movie":"the cat"}'}}
RESULT = '{"plot": "very good", "actor": {"charm": "great"}, "keys": ["here", "there"]}'
TRACE = [
    {"role": "system", "content": "The cat is here. The keys are there."},
    {"role": "user", "content": "Was the movie good?"},
    {"role": "assistant", "content": None, "reasoning_content": "Maybe the plot.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": RESULT},
    {"role": "assistant", "reasoning_content": "Very good plot.", "content": "The movie was good. The plot is great."},
]
SOURCES = {
    "system:1": "The cat is here.",
    "system:2": "The keys are there.",
    "reasoning:1": "Maybe the plot.",
    "tool call search:movie": '"movie": "the cat"',
    "tool result search:plot": '"plot": "very good"',
    "tool result search:charm": '"charm": "great"',
    "tool result search:keys": '"here"',
    "tool result search:keys (2)": '"there"',
}
TOOLS = [{"type": "function", "function": {"name": "search", "description": "a plot", "parameters": {}}}]

OPENING = "{% if add_generation_prompt %}<s>assistant : {% endif %}"
NATIVE = (
    "{% if tools %}<s>{{ tools | tojson }} </s>{% endif %}{% for m in messages %}<s>{{ m.role }} : {{ m.content }}"
    "{% for c in m.tool_calls or [] %}( {{ c.function.name }} {{ c.function.arguments | tojson }} ){% endfor %} </s>"
    "{% endfor %}" + OPENING
)
STRICT = (
    "{% for m in messages %}{% if m.role not in ['user', 'assistant'] %}{{ raise_exception('a role') }}{% endif %}"
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('an order') }}{% endif %}"
    "<s>{{ m.role }} : {{ m.content | trim }} </s>{% endfor %}" + OPENING
)
CONTENT, TOOL_CALLS = "{{ m.content }}", "tool calls, results of tools"
NO_CALLS = "{% if m.tool_calls %}{{ raise_exception('no') }}{% endif %}<s>{{ m.role"
TEMPLATES = {
    "text": (None, None),
    "chat": (tiny.CHAT_TEMPLATE, TOOL_CALLS),
    "tools": (NATIVE, None),
    "no system, strictly alternating": (STRICT, f"{TOOL_CALLS}, system messages"),
    "one tool call": (NATIVE.replace("<s>{{ m.role", NO_CALLS), TOOL_CALLS),
    "no earlier reasoning": (NATIVE.replace(CONTENT, "{{ m.content.split('</think>')[-1] }}"), None),
    "opens the reasoning": (NATIVE + "<think>\n", None),
    "calls instead of contents": (NATIVE.replace(CONTENT, "{% if not m.tool_calls %}{{ m.content }}{% endif %}"), None),
    "contents of parts": (NATIVE.replace(CONTENT, "{% for p in m.content %}{{ p['text'] }}{% endfor %}"), None),
}
"""Templates, and what the result's note says is rendered as plain text."""

WITHOUT_REASONING = ("no earlier reasoning", "calls instead of contents")
"""Templates that leave out earlier reasoning: the model does not read it, so it is not a source."""


def made(template=None):
    return tiny.writer(template=template)


def sources_of(cited):
    return {name: cited.text[slice(*span)] for name, span in zip(cited.names, cited.spans, strict=True)}


@pytest.mark.parametrize("name", TEMPLATES)
def test_what_was_said_before_the_answer_are_the_sources(name):
    messages, (template, plain) = copy.deepcopy(TRACE), TEMPLATES[name]
    cited = made(template).cite(messages=messages, verify=0)
    assert messages == TRACE
    left_out = ["reasoning:1"] if name in WITHOUT_REASONING else []
    assert sources_of(cited) == {source: text for source, text in SOURCES.items() if source not in left_out}
    assert len([note for note in cited.notes if "among the sources" in note]) == len(left_out)
    assert cited.answer.endswith("\n\nThe movie was good. The plot is great.")
    assert [cited.answer[start:end] for start, end in cited.attribution.reasoning] == ["Very good plot."]
    assert [sentence.strip() for sentence in cited.sentences] == ["The movie was good.", "The plot is great."]
    assert cited.question == "Was the movie good?"
    note = f"the reader's chat template does not render {plain}: rendered as plain text"
    assert [note for note in cited.notes if "plain text" in note] == ([] if plain is None else [note])
    assert cited.text.count("<think>") == cited.text.count("</think>")
    assert Citations.from_dict(cited.to_dict()) == cited


def test_scores_are_those_of_the_named_spans_of_the_same_text():
    explainer, said_at_once = made(), {"role": "assistant", "content": "The movie was good. The plot is great."}
    cited = explainer.cite(messages=[*TRACE[:-1], said_at_once], verify=2)
    spans = dict(zip(cited.names, cited.spans, strict=True))
    prompt = cited.text[: -len(cited.answer)]
    same = explainer.explain_completion(prompt, cited.answer, sources=spans, parts="sentence")
    np.testing.assert_allclose(cited.attribution.scores, same.scores, rtol=1e-4, atol=1e-5)
    assert len(cited.losses) == 2
    occlusion = explainer.explain_completion(prompt, cited.answer, sources=spans, method="occlusion")
    for source, nats in cited.losses.items():
        assert nats == pytest.approx(float(occlusion.scores[0, cited.names.index(source)]), abs=1e-4)


def test_turns_and_answers_from_elsewhere():
    explainer = made(tiny.CHAT_TEMPLATE)
    first, second = (("user", "Is the cat here?"), ("assistant", "The cat is here.")), ("user", "And the keys?")
    messages = chat(*first, second, ("assistant", "The keys are there."))
    last, first = explainer.cite(messages=messages, verify=0), explainer.cite(messages=messages, turn=0, verify=0)
    assert (last.answer.strip(), last.names) == ("The keys are there.", ("user:1", "assistant:1"))
    assert (first.answer.strip(), first.names, first.question) == ("The cat is here.", ("user:1",), "Is the cat here?")
    assert "messages after the answer are not read (2)" in first.notes
    given = explainer.cite(messages=messages[:3], answer="The keys are there.", verify=0)
    np.testing.assert_array_equal(given.attribution.scores, last.attribution.scores)
    assert explainer.cite(messages=messages, turn=-1, verify=0) == last
    written = explainer.cite(messages=messages[:1], max_new_tokens=3, verify=0)
    assert written.names == ("user:1",)
    cite, asked = explainer.cite, {"messages": messages}
    refused(InputError, "no turn 2: the assistant has 2 texts", lambda: cite(**asked, turn=2))
    refused(InputError, "pass it or answer=", lambda: cite(**asked, turn=0, answer="The cat."))
    refused(InputError, "turn= picks an answer of a conversation", lambda: cite("Is it?", ["The cat."], turn=0))
    refused(InputError, "messages hold the question", lambda: cite("Is it?", **asked))
    refused(InputError, "expected a list of messages", lambda: cite(messages={"a": 1}))


def test_a_file_is_read_like_its_messages(tmp_path):
    explainer = made(NATIVE)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"messages": TRACE, "tools": TOOLS}), encoding="utf-8")
    cited = explainer.cite(messages=path, verify=0)
    assert '"description": "a plot"' in cited.text
    assert sources_of(cited) == SOURCES
    assert explainer.cite(messages={"messages": TRACE, "tools": TOOLS}, verify=0) == cited
    plain = made(tiny.CHAT_TEMPLATE).cite(messages=path, verify=0)
    assert any("definitions of the tools are not in the prompt" in note for note in plain.notes)


def test_a_message_that_the_template_leaves_out_is_not_a_source():
    template = tiny.CHAT_TEMPLATE.replace("in messages %}", "in messages if 'keys' not in m.content %}")
    messages = ("user", "The keys are here."), ("user", "Is the cat here?"), ("assistant", "The cat is here.")
    cited = made(template).cite(messages=chat(*messages), verify=0)
    assert cited.names == ("user (2):1",)
    assert "user is not in the prompt as the chat template writes it, so it is not among the sources" in cited.notes


def test_names_tell_messages_apart():
    results = ("tool", "The plot is good."), ("tool", '{"a": "the cat", "a": "the movie"}')
    messages = chat(("user", "The cat. The movie."), *results, ("assistant", "The cat is here."))
    messages[1]["name"] = messages[2]["name"] = "a:b"
    cited = made(tiny.CHAT_TEMPLATE).cite(messages=messages, verify=0)
    assert cited.names[:3] == ("user:1", "user:2", "tool result a b:1")
    assert cited.names[3:] == ("tool result a b (2):a", "tool result a b (2):a (2)")


def test_verdicts_name_the_messages_which_fit_the_text():
    explainer = made(tiny.CHAT_TEMPLATE)
    cited = explainer.cite(messages=TRACE, verify=2)
    said = [cited.text[m.start : m.end] for m in cited.messages]
    assert said[:3] == ["The cat is here. The keys are there.", "Was the movie good?", "Maybe the plot."]
    assert said[3:] == ['{"movie": "the cat"}', RESULT]
    assert [m.name for m in cited.messages][3:5] == ["tool call search", "tool result search"]
    assert cited.documents == tuple(name.rpartition(":")[0] for name in cited.names)
    untested = explainer.cite(messages=TRACE, verify=0)
    for support in (*cited.support, *untested.support):
        assert len(support.messages) == len(support.citations)
        assert set(support.messages) <= set(cited.documents)
        assert "document" not in support.verdict + support.reason
        assert not support.supported or all(name in support.verdict for name in support.messages)
    assert "document" not in str(cited)
    assert "by the documents" not in cited.to_html()
    documents = explainer.cite("Was the movie good?", ["The movie was good."], answer="The movie was good.", verify=0)
    assert documents.messages == documents.support[0].messages == ()
    state = cited.to_dict()
    messages = state["messages"]
    for wrong in (messages[:-1], messages[::-1], [{**m, "end": 10**6} for m in messages], messages[1:]):
        refused(DataError, "messages", partial(Citations.from_dict, {**state, "messages": wrong}))


def test_a_conversation_that_is_too_long_is_refused() -> None:
    reader = tiny.writer(length=200)
    long = [*TRACE[:1], {"role": "user", "content": "the cat sat . " * 80}, *TRACE[2:]]
    for messages in (long, long[:-1]):
        refused(InputError, "the model reads 200: ", partial(reader.cite, messages=messages))
