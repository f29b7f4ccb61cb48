"""Answers of conversations: the sources are what was said before, in the words of any chat template."""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest

from normxlogit import DataError, InputError
from normxlogit.grounding import Citations
from tests import tiny

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
TEMPLATES = {
    "text": None,
    "chat": tiny.CHAT_TEMPLATE,
    "tools": NATIVE,
    "no system, strictly alternating": STRICT,
    "one tool call": NATIVE.replace(
        "<s>{{ m.role", "{% if m.tool_calls %}{{ raise_exception('no') }}{% endif %}<s>{{ m.role"
    ),
    "no earlier reasoning": NATIVE.replace("{{ m.content }}", "{{ m.content.split('</think>')[-1] }}"),
    "opens the reasoning": NATIVE + "<think>\n",
    "calls instead of contents": NATIVE.replace(
        "{{ m.content }}", "{% if not m.tool_calls %}{{ m.content }}{% endif %}"
    ),
    "contents of parts": NATIVE.replace("{{ m.content }}", "{% for p in m.content %}{{ p['text'] }}{% endfor %}"),
}
PLAIN = {
    "text": None,
    "chat": "tool calls, results of tools",
    "tools": None,
    "no system, strictly alternating": "tool calls, results of tools, system messages",
    "one tool call": "tool calls, results of tools",
    "no earlier reasoning": None,
    "opens the reasoning": None,
    "calls instead of contents": None,
    "contents of parts": None,
}
"""What is rendered as plain text, by the note of the result."""

WITHOUT_REASONING = ("no earlier reasoning", "calls instead of contents")
"""Templates that leave out earlier reasoning: the model does not read it, so it is not a source."""


def made(template=None):
    return tiny.writer(template=template)


def sources_of(cited):
    return {name: cited.text[slice(*span)] for name, span in zip(cited.names, cited.spans, strict=True)}


@pytest.mark.parametrize("name", TEMPLATES)
def test_what_was_said_before_the_answer_are_the_sources(name):
    messages = copy.deepcopy(TRACE)
    cited = made(TEMPLATES[name]).cite(messages=messages, verify=0)
    assert messages == TRACE
    left_out = ["reasoning:1"] if name in WITHOUT_REASONING else []
    assert sources_of(cited) == {source: text for source, text in SOURCES.items() if source not in left_out}
    assert len([note for note in cited.notes if "among the sources" in note]) == len(left_out)
    assert cited.answer.endswith("\n\nThe movie was good. The plot is great.")
    assert [cited.answer[start:end] for start, end in cited.attribution.reasoning] == ["Very good plot."]
    assert [sentence.strip() for sentence in cited.sentences] == ["The movie was good.", "The plot is great."]
    assert cited.question == "Was the movie good?"
    notes = [note for note in cited.notes if "plain text" in note]
    assert notes == (
        []
        if PLAIN[name] is None
        else [f"the reader's chat template does not render {PLAIN[name]}: rendered as plain text"]
    )
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
    messages = [
        {"role": "user", "content": "Is the cat here?"},
        {"role": "assistant", "content": "The cat is here."},
        {"role": "user", "content": "And the keys?"},
        {"role": "assistant", "content": "The keys are there."},
    ]
    last, first = explainer.cite(messages=messages, verify=0), explainer.cite(messages=messages, turn=0, verify=0)
    assert (last.answer.strip(), last.names) == ("The keys are there.", ("user:1", "assistant:1"))
    assert (first.answer.strip(), first.names, first.question) == ("The cat is here.", ("user:1",), "Is the cat here?")
    assert "messages after the answer are not read (2)" in first.notes
    given = explainer.cite(messages=messages[:3], answer="The keys are there.", verify=0)
    np.testing.assert_array_equal(given.attribution.scores, last.attribution.scores)
    assert explainer.cite(messages=messages, turn=-1, verify=0) == last
    written = explainer.cite(messages=messages[:1], max_new_tokens=3, verify=0)
    assert written.names == ("user:1",)
    with pytest.raises(InputError, match="no turn 2: the assistant has 2 texts"):
        explainer.cite(messages=messages, turn=2)
    with pytest.raises(InputError, match="pass it or answer="):
        explainer.cite(messages=messages, turn=0, answer="The cat.")
    with pytest.raises(InputError, match="turn= picks an answer of a conversation"):
        explainer.cite("Is it?", ["The cat is here."], turn=0)
    with pytest.raises(InputError, match="messages hold the question"):
        explainer.cite("Is it?", messages=messages)
    with pytest.raises(InputError, match="expected a list of messages"):
        explainer.cite(messages={"a": 1})


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
    template = tiny.CHAT_TEMPLATE.replace(
        "{% for m in messages %}", "{% for m in messages if 'keys' not in m.content %}"
    )
    messages = [
        {"role": "user", "content": "The keys are here."},
        {"role": "user", "content": "Is the cat here?"},
        {"role": "assistant", "content": "The cat is here."},
    ]
    cited = made(template).cite(messages=messages, verify=0)
    assert cited.names == ("user (2):1",)
    assert "user is not in the prompt as the chat template writes it, so it is not among the sources" in cited.notes


def test_names_tell_messages_apart():
    messages = [
        {"role": "user", "content": "The cat. The movie."},
        {"role": "tool", "name": "a:b", "content": "The plot is good."},
        {"role": "tool", "name": "a:b", "content": '{"a": "the cat", "a": "the movie"}'},
        {"role": "assistant", "content": "The cat is here."},
    ]
    cited = made(tiny.CHAT_TEMPLATE).cite(messages=messages, verify=0)
    assert cited.names == (
        "user:1",
        "user:2",
        "tool result a b:1",
        "tool result a b (2):a",
        "tool result a b (2):a (2)",
    )


def test_verdicts_name_the_messages():
    explainer = made(tiny.CHAT_TEMPLATE)
    cited = explainer.cite(messages=TRACE, verify=2)
    assert [cited.text[m.start : m.end] for m in cited.messages] == [
        "The cat is here. The keys are there.",
        "Was the movie good?",
        "Maybe the plot.",
        '{"movie": "the cat"}',
        RESULT,
    ]
    assert [m.name for m in cited.messages][3:5] == ["tool call search", "tool result search"]
    assert cited.documents == tuple(name.rpartition(":")[0] for name in cited.names)
    untested = replace(cited, readings=(), attribution=replace(cited.attribution, verified=None))
    for support in (*cited.support, *untested.support):
        assert len(support.messages) == len(support.citations)
        assert set(support.messages) <= set(cited.documents)
        assert "document" not in support.verdict + support.reason
        assert not support.rests or all(name in support.verdict for name in support.messages)
    assert "document" not in str(cited)
    assert "rest on the documents" not in cited.to_html()
    documents = explainer.cite("Was the movie good?", ["The movie was good."], answer="The movie was good.", verify=0)
    assert documents.messages == ()
    assert documents.support[0].messages == ()


def test_messages_that_do_not_fit_the_text_are_refused():
    state = made(tiny.CHAT_TEMPLATE).cite(messages=TRACE, verify=0).to_dict()
    messages = state["messages"]
    for wrong in (messages[:-1], messages[::-1], [{**m, "end": 10**6} for m in messages], messages[1:]):
        with pytest.raises(DataError, match="messages"):
            Citations.from_dict({**state, "messages": wrong})


def test_a_conversation_that_is_too_long_is_refused() -> None:
    reader = tiny.writer(length=200)
    long = [*TRACE[:1], {"role": "user", "content": "the cat sat . " * 80}, *TRACE[2:]]
    for messages in (long, long[:-1]):
        with pytest.raises(InputError, match="the model reads 200: "):
            reader.cite(messages=messages)
