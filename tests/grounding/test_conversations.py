import json
from types import SimpleNamespace

import pytest

from normxlogit.errors import InputError
from normxlogit.grounding.documents.conversations import read_conversation

ARGUMENTS = '{"location": "Paris, France"}'
RESULT = '{"temperature": 14, "sky": "clear"}'
ORDER, ASKED, SAYS = "Answer briefly.", "What is the weather in Paris?", "It is 14 degrees and clear."
ARGS = json.loads(ARGUMENTS)
SAID = [
    ("system", "", ORDER),
    ("user", "", ASKED),
    ("tool call", "get_weather", ARGUMENTS),
    ("tool result", "get_weather", RESULT),
    ("assistant", "", SAYS),
]
"""What the examples say."""

OPENAI_CALL = {"id": "call_9pw1", "type": "function", "function": {"name": "get_weather", "arguments": ARGUMENTS}}
OPENAI = [
    {"role": "developer", "content": ORDER},
    {"role": "user", "content": [{"type": "text", "text": ASKED}]},
    {"role": "assistant", "content": None, "refusal": None, "tool_calls": [OPENAI_CALL]},
    {"role": "tool", "tool_call_id": "call_9pw1", "content": RESULT},
    {"role": "assistant", "content": SAYS},
]
TRANSFORMERS = [
    {"role": "system", "content": ORDER},
    {"role": "user", "content": ASKED},
    {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "get_weather", "arguments": ARGS}}]},
    {"role": "tool", "name": "get_weather", "content": RESULT},
    {"role": "assistant", "content": SAYS},
]


def read(value):
    return [(m.kind, m.name, m.text) for m in read_conversation(value).messages]


def dumped(message):
    """As pydantic's models are."""
    return SimpleNamespace(role=message["role"], content=message.get("content"), model_dump=lambda: message)


@pytest.mark.parametrize("messages", [OPENAI, TRANSFORMERS], ids=["openai", "transformers"])
def test_messages_are_read_as_mappings_and_objects(messages):
    tools = [{"type": "function", "function": {"name": "get_weather"}}]
    for value in (
        messages,
        tuple(messages),
        {"messages": messages, "tools": tools},
        list(map(dumped, messages)),
        [SimpleNamespace(**{"content": None, **message}) for message in messages],
    ):
        assert read(value) == SAID
        assert read_conversation(value).notes == ()
    for given in (tools, json.dumps(tools)):  # data sets have them as a text
        assert read_conversation({"messages": messages, "tools": given}).tools == tools
    assert read(messages[0]) == SAID[:1]


@pytest.mark.parametrize(
    "message",
    [
        {"content": "<think>\nI look.\n</think>\n\nYes."},
        {"content": "I look.</think>Yes."},
        {"content": "Yes.", "reasoning_content": "I look."},
        {"content": "Yes.", "reasoning": "I look."},
        {"content": [{"type": "thinking", "thinking": "I look."}, {"type": "text", "text": "Yes."}]},
    ],
)
def test_reasoning_is_a_kind_of_its_own(message):
    said = read([{"role": "user", "content": "Hi"}, {"role": "assistant", **message}])
    assert said[1:] == [("reasoning", "", "I look."), ("assistant", "", "Yes.")]


def test_what_is_not_read_has_a_note():
    parts = [{"type": "text", "text": "One."}, {"type": "file", "file": "a.pdf"}, {"type": "text", "text": "Two."}]
    conversation = read_conversation([{"role": "user", "content": parts}])
    assert [m.text for m in conversation.messages] == ["One.\nTwo."]
    assert conversation.notes == ("message 0 holds a part of type 'file', which is not read",)


def test_data_of_a_tool_is_not_taken_for_parts():
    rows = [{"title": "A", "text": "One."}, {"title": "B", "text": "Two."}]
    assert read([{"role": "tool", "name": "search", "content": rows}]) == [("tool result", "search", json.dumps(rows))]
    for data in ({"a": 1}, [1, 2], 0, False):
        assert read([{"role": "tool", "name": "f", "content": data}]) == [("tool result", "f", json.dumps(data))]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "expected a list of messages.* got an empty list"),
        ("hello", "got 'hello'"),
        ({"a": 1, "b": 2}, "got a mapping with 'a', 'b'"),
        ([{"role": "user", "content": "Hi"}, {"content": "Hi"}], "message 1 is a mapping with 'content'"),
        ([{"role": "narrator", "content": "Hi"}], "message 0 has the role 'narrator'"),
        ([{"role": "user", "content": ""}], "has no text"),
        ([{"role": "assistant", "tool_calls": ["f"]}], "message 0 holds a call of a tool that is 'f'"),
        ([{"role": "user", "content": "\ud800"}], "half a character"),
    ],
)
def test_what_is_not_a_conversation_is_said_in_one_line(value, message):
    with pytest.raises(InputError, match=message) as caught:
        read(value)
    assert "\n" not in str(caught.value)
