"""Conversations of every format, by hand-written examples as the packages' own documentation has them."""

import json
from dataclasses import dataclass, field
from enum import Enum
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from normxlogit.errors import DataError, InputError
from normxlogit.grounding.documents.conversations import read_conversation
from normxlogit.grounding.documents.json_fields import json_fields

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
"""What all examples say."""

OPENAI_CALL = {"id": "call_9pw1", "type": "function", "function": {"name": "get_weather", "arguments": ARGUMENTS}}
OPENAI = [
    {"role": "developer", "content": ORDER},
    {"role": "user", "content": [{"type": "text", "text": ASKED}]},
    {"role": "assistant", "content": None, "refusal": None, "tool_calls": [OPENAI_CALL]},
    {"role": "tool", "tool_call_id": "call_9pw1", "content": RESULT},
    {"role": "assistant", "content": SAYS},
]
COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "choices": [{"index": 0, "message": OPENAI[-1], "finish_reason": "stop"}],
}
ITEMS = [
    {"role": "user", "content": ASKED},
    {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "get_weather", "arguments": ARGUMENTS},
    {"type": "function_call_output", "call_id": "call_1", "output": RESULT},
]
ANSWER = [{"type": "output_text", "text": SAYS, "annotations": []}]
OUTPUT = [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": ANSWER}]
ANTHROPIC = [
    {"role": "user", "content": ASKED},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": ARGS}]},
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": RESULT}]}],
    },
    {"role": "assistant", "content": [{"type": "text", "text": SAYS}]},
]
LANGCHAIN_CALL = {"name": "get_weather", "args": ARGS, "id": "call_1", "type": "tool_call"}
LANGCHAIN = [
    {"type": "system", "content": ORDER, "additional_kwargs": {}, "response_metadata": {}, "id": None},
    {"type": "human", "content": ASKED, "example": False},
    {
        "type": "ai",
        "content": "",
        "additional_kwargs": {"tool_calls": [OPENAI_CALL | {"id": "call_1"}]},
        "tool_calls": [LANGCHAIN_CALL],
        "invalid_tool_calls": [],
    },
    {"type": "tool", "content": RESULT, "name": "get_weather", "tool_call_id": "call_1", "status": "success"},
    {"type": "ai", "content": SAYS, "tool_calls": []},
]
CLASSES = {"system": "SystemMessage", "human": "HumanMessage", "ai": "AIMessage", "tool": "ToolMessage"}
DUMPED = [
    {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", CLASSES[m["type"]]], "kwargs": m}
    for m in LANGCHAIN
]
TOOL_OF_CALL = {"name": "get_weather", "tool_call_id": "call_9pw1"}
CALL_BLOCK = {"block_type": "tool_call", "tool_call_id": "call_9pw1", "tool_name": "get_weather", "tool_kwargs": ARGS}
LLAMA_INDEX = [
    {"role": "system", "additional_kwargs": {}, "blocks": [{"block_type": "text", "text": ORDER}]},
    {"role": "user", "blocks": [{"block_type": "text", "text": ASKED}]},
    {"role": "assistant", "additional_kwargs": {"tool_calls": [OPENAI_CALL]}, "blocks": []},
    {"role": "tool", "additional_kwargs": TOOL_OF_CALL, "blocks": [{"block_type": "text", "text": RESULT}]},
    {"role": "assistant", "blocks": [{"block_type": "text", "text": SAYS}]},
]
TRANSFORMERS = [
    {"role": "system", "content": ORDER},
    {"role": "user", "content": ASKED},
    {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "get_weather", "arguments": ARGS}}]},
    {"role": "tool", "name": "get_weather", "content": RESULT},
    {"role": "assistant", "content": SAYS},
]
HAYSTACK_CALL = {"tool_name": "get_weather", "arguments": ARGS, "id": "c", "extra": None}
HAYSTACK = [
    {"role": "system", "meta": {}, "name": None, "content": [{"text": ORDER}]},
    {"role": "user", "meta": {}, "name": None, "content": [{"text": ASKED}]},
    {"role": "assistant", "meta": {}, "name": None, "content": [{"tool_call": HAYSTACK_CALL}]},
    {
        "role": "tool",
        "meta": {},
        "content": [{"tool_call_result": {"result": RESULT, "origin": HAYSTACK_CALL, "error": False}}],
    },
    {"role": "assistant", "meta": {}, "content": [{"text": SAYS}]},
]
SHARE_GPT = [
    {"from": "system", "value": ORDER},
    {"from": "human", "value": ASKED},
    {"role": "assistant", "tool_calls": [OPENAI_CALL]},
    {"from": "observation", "value": RESULT, "name": "get_weather"},
    {"from": "gpt", "value": SAYS},
]
GEMINI = {
    "system_instruction": {"parts": [{"text": ORDER}]},
    "contents": [
        {"role": "user", "parts": [{"text": ASKED}]},
        {"role": "model", "parts": [{"functionCall": {"name": "get_weather", "args": ARGS}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "get_weather", "response": json.loads(RESULT)}}]},
        {"role": "model", "parts": [{"text": SAYS}]},
    ],
}
OTEL_INPUT = [
    {"role": "user", "parts": [{"type": "text", "content": ASKED}]},
    {"role": "assistant", "parts": [{"type": "tool_call", "id": "call_1", "name": "get_weather", "arguments": ARGS}]},
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "response": json.loads(RESULT)}]},
]
OTEL_OUTPUT = [{"role": "assistant", "parts": [{"type": "text", "content": SAYS}], "finish_reason": "stop"}]
OTEL = {
    "gen_ai.operation.name": "chat",
    "gen_ai.system_instructions": json.dumps([{"type": "text", "content": ORDER}]),
    "gen_ai.input.messages": json.dumps(OTEL_INPUT),
    "gen_ai.output.messages": json.dumps(OTEL_OUTPUT),
}
INDEXED = {
    "gen_ai.prompt.0.role": "system",
    "gen_ai.prompt.0.content": ORDER,
    "gen_ai.prompt.1.role": "user",
    "gen_ai.prompt.1.content": ASKED,
    "gen_ai.prompt.2.role": "assistant",
    "gen_ai.prompt.2.tool_calls.0.id": "call_1",
    "gen_ai.prompt.2.tool_calls.0.name": "get_weather",
    "gen_ai.prompt.2.tool_calls.0.arguments": ARGUMENTS,
    "gen_ai.prompt.3.role": "tool",
    "gen_ai.prompt.3.tool_call_id": "call_1",
    "gen_ai.prompt.3.content": RESULT,
    "gen_ai.completion.0.role": "assistant",
    "gen_ai.completion.0.content": SAYS,
}


def openinference(key):
    """The name of an attribute as OpenInference has it."""
    side, number, name = key.removeprefix("gen_ai.").split(".", 2)
    where = "llm.input_messages" if side == "prompt" else "llm.output_messages"
    for short, long in (("0.id", "0.tool_call.id"), ("0.name", "0.tool_call.function.name")):
        name = name.replace(short, long)
    name = name.replace("0.arguments", "0.tool_call.function.arguments")
    return f"{where}.{number}.message.{name}"


def otlp(attributes):
    """A span as the OTLP exporter writes it."""
    rows = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
    return {"traceId": "5b8efff7", "spanId": "eee19b7e", "name": "chat model", "attributes": rows}


LANGFUSE = {
    "id": "trace-1",
    "name": "agent",
    "input": ASKED,
    "output": SAYS,
    "observations": [
        {"id": "1", "traceId": "trace-1", "type": "GENERATION", "input": {"messages": OPENAI[:2]}, "output": OPENAI[2]},
        {"id": "2", "traceId": "trace-1", "type": "SPAN", "name": "get_weather", "input": ARGUMENTS, "output": RESULT},
        {"id": "3", "traceId": "trace-1", "type": "GENERATION", "input": OPENAI[:4], "output": OPENAI[4]},
    ],
}
LANGSMITH_LLM = {
    "id": "run-2",
    "trace_id": "run-1",
    "run_type": "llm",
    "inputs": {"messages": [DUMPED[:4]]},
    "outputs": {"generations": [[{"text": SAYS, "message": DUMPED[4]}]], "llm_output": None},
}
LANGSMITH = {
    "id": "run-1",
    "trace_id": "run-1",
    "run_type": "chain",
    "inputs": {"messages": [["user", ASKED]]},
    "outputs": {"messages": LANGCHAIN[1:]},
    "child_runs": [LANGSMITH_LLM],
}

FORMATS = {
    "OpenAI chat": OPENAI,
    "OpenAI request and completion": {"messages": OPENAI[:4], **COMPLETION},
    "OpenAI request and completion apart": {"request": {"messages": OPENAI[:4]}, "response": COMPLETION},
    "OpenAI responses": {"instructions": ORDER, "input": ITEMS, "output": OUTPUT},
    "OpenAI responses as one list": [{"role": "system", "content": ORDER}, *ITEMS, *OUTPUT],
    "Anthropic": {"model": "claude", "system": ORDER, "messages": ANTHROPIC},
    "Anthropic with blocks and a response": {
        "request": {
            "system": [{"type": "text", "text": ORDER, "cache_control": {"type": "ephemeral"}}],
            "messages": ANTHROPIC[:3],
        },
        "response": {"id": "msg_1", "type": "message", **ANTHROPIC[3], "stop_reason": "end_turn"},
    },
    "Gemini": GEMINI,
    "LangChain": LANGCHAIN,
    "LangChain dumpd": DUMPED,
    "LangChain messages_to_dict": [{"type": m["type"], "data": m} for m in LANGCHAIN],
    "LangGraph state": {"messages": LANGCHAIN},
    "LlamaIndex": LLAMA_INDEX,
    "LlamaIndex blocks": [*LLAMA_INDEX[:2], {"role": "assistant", "blocks": [CALL_BLOCK]}, *LLAMA_INDEX[3:]],
    "Haystack": HAYSTACK,
    "ShareGPT": SHARE_GPT,
    "transformers": TRANSFORMERS,
    "OpenTelemetry": {"name": "chat", "attributes": OTEL},
    "OpenTelemetry as data": {"attributes": {key: json.loads(v) if v[0] in "[{" else v for key, v in OTEL.items()}},
    "OTLP": {"resourceSpans": [{"scopeSpans": [{"scope": {}, "spans": [otlp(OTEL)]}]}]},
    "OpenLLMetry": {"attributes": INDEXED},
    "OpenInference": {"attributes": {openinference(key): value for key, value in INDEXED.items()}},
    "Langfuse": LANGFUSE,
    "Langfuse rows": LANGFUSE["observations"],
    "Langfuse row of JSON texts": {"input": json.dumps(OPENAI[:4]), "output": json.dumps(OPENAI[4])},
    "LangSmith": LANGSMITH,
    "LangSmith run": LANGSMITH_LLM,
}


def read(value):
    return [(m.kind, m.name, m.text) for m in read_conversation(value).messages]


@pytest.mark.parametrize("name", FORMATS)
def test_formats_say_the_same(name):
    assert read(FORMATS[name]) == SAID
    assert read_conversation(FORMATS[name]).notes == ()


class Role(str, Enum):
    ASSISTANT = "assistant"
    USER = "user"


@dataclass
class Block:
    text: str
    block_type: str = "text"


class Dumped:
    """As pydantic's models are."""

    def __init__(self, **fields):
        self._fields = fields

    def model_dump(self):
        return self._fields


@dataclass
class ChatMessage:
    role: Role
    blocks: list = field(default_factory=list)


def test_objects_are_read_like_mappings():
    assert read([Dumped(**message) for message in LANGCHAIN]) == SAID
    assert read({"messages": tuple(SimpleNamespace(**message) for message in OPENAI)}) == SAID
    assert read([ChatMessage(Role.USER, [Block("Hi")]), ChatMessage(Role.ASSISTANT, [Block("Yes.")])]) == [
        ("user", "", "Hi"),
        ("assistant", "", "Yes."),
    ]
    response = Dumped(choices=[Dumped(message=Dumped(role="assistant", content="Yes."))])
    assert read({"messages": [("user", "Hi")], "response": response}) == [("user", "", "Hi"), ("assistant", "", "Yes.")]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": "<think>\nI look.\n</think>\n\nYes."},
        {"role": "assistant", "content": "I look.</think>Yes."},
        {"role": "assistant", "content": "Yes.", "reasoning_content": "I look."},
        {"role": "assistant", "content": "Yes.", "reasoning": "I look."},
        {"type": "ai", "content": "Yes.", "additional_kwargs": {"reasoning_content": "I look."}},
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "I look."}, {"type": "text", "text": "Yes."}],
        },
        {"type": "ai", "content": [{"type": "reasoning", "reasoning": "I look."}, {"type": "text", "text": "Yes."}]},
        {
            "role": "assistant",
            "parts": [{"type": "reasoning", "content": "I look."}, {"type": "text", "content": "Yes."}],
        },
        {"role": "assistant", "blocks": [{"block_type": "thinking", "content": "I look."}, {"text": "Yes."}]},
        {"role": "model", "parts": [{"text": "I look.", "thought": True}, {"text": "Yes."}]},
    ],
)
def test_reasoning_is_a_kind_of_its_own(message):
    assert read([{"role": "user", "content": "Hi"}, message])[1:] == [
        ("reasoning", "", "I look."),
        ("assistant", "", "Yes."),
    ]


def test_items_of_reasoning_and_tools_of_the_service():
    items = [
        {"role": "user", "content": "Hi"},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "I look."}]},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "hi"}},
        {
            "type": "file_search_call",
            "id": "fs_1",
            "queries": ["hi"],
            "results": [{"filename": "a.txt", "text": "Hi."}],
        },
        {"type": "mcp_call", "id": "m", "name": "roll", "arguments": '{"d": 6}', "output": "4", "server_label": "dice"},
    ]
    assert read(items)[1:] == [
        ("reasoning", "", "I look."),
        ("tool call", "web_search", '{"type": "search", "query": "hi"}'),
        ("tool call", "file_search", '["hi"]'),
        ("tool result", "file_search", '[{"filename": "a.txt", "text": "Hi."}]'),
        ("tool call", "roll", '{"d": 6}'),
        ("tool result", "roll", "4"),
    ]


def test_data_of_a_tool_is_not_taken_for_parts():
    rows = [{"title": "A", "text": "One."}, {"title": "B", "text": "Two."}]
    assert read([{"role": "tool", "name": "search", "content": rows}]) == [("tool result", "search", json.dumps(rows))]
    for data in ({"a": 1}, [1, 2], 3, 0, 0.5, False):
        assert read([{"role": "tool", "name": "f", "content": data}]) == [("tool result", "f", json.dumps(data))]


def test_turns_are_the_texts_of_the_assistant():
    messages = [
        {"role": "user", "content": "One?"},
        {"role": "assistant", "content": "One."},
        {"role": "user", "content": "Two?"},
        {"role": "assistant", "content": "Two."},
        {"role": "user", "content": "Thanks."},
    ]
    conversation = read_conversation(messages)
    before, answer = conversation.until()
    assert (answer.text, [m.text for m in before.messages]) == ("Two.", ["One?", "One.", "Two?"])
    assert before.notes == ("messages after the answer are not read (1)",)
    assert conversation.until(0)[1].text == conversation.until(-2)[1].text == "One."
    for turn in (2, -3, "0", True):
        with pytest.raises(InputError, match="turn"):
            conversation.until(turn)
    unanswered = read_conversation(messages[:1])
    assert unanswered.until() == (unanswered, None)
    with pytest.raises(InputError, match="first message"):
        read_conversation(messages[1:3]).until()


def test_the_longest_call_of_a_trace_is_read(tmp_path):
    spans = [
        otlp(
            {"gen_ai.input.messages": json.dumps(OTEL_INPUT[:1]), "gen_ai.output.messages": json.dumps(OTEL_INPUT[1:2])}
        ),
        otlp({"http.method": "GET"}),
        otlp({key: OTEL[key] for key in OTEL if "system" not in key}),
    ]
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(map(json.dumps, spans)) + "\n", encoding="utf-8")
    assert read(path) == SAID[1:]
    other = otlp({"gen_ai.input.messages": json.dumps([{"role": "user", "content": "Else?"}])}) | {"traceId": "6"}
    with pytest.raises(InputError, match="expected one conversation, got 2"):
        read([*spans, other])


def test_files_of_json_and_of_lines(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(OPENAI, indent=2), encoding="utf-8")
    assert read(path) == SAID
    path.write_text("\n\n".join(map(json.dumps, OPENAI)), encoding="utf-8")
    assert read(path) == SAID
    path.write_text("\n".join(json.dumps({"messages": OPENAI[:count]}) for count in (2, 5)), encoding="utf-8")
    assert read(path) == SAID
    path.write_text("\n".join(json.dumps({"messages": m}) for m in (OPENAI, OPENAI[1:])), encoding="utf-8")
    with pytest.raises(InputError, match="expected one conversation, got 2"):
        read(path)
    for text, message in [
        ("", "is empty"),
        ("Hello.\nYou.", "neither JSON nor JSON lines"),
        ('{"role": "user", ', "neither JSON nor JSON lines"),
        ('{"role": "user", "content": "a"}\n{"role": ', "line 2 is not JSON"),
    ]:
        path.write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match=message) as caught:
            read(path)
        assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match="cannot read"):
        read(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "expected a list of messages.* got an empty list"),
        ({}, "got a mapping with nothing"),
        (3, "got int"),
        (None, "got NoneType"),
        ("hello", "got 'hello'"),
        ({"a": 1, "b": 2}, "got a mapping with 'a', 'b'"),
        ([{"a": 1}], "got a list of 1, the first a mapping with 'a'"),
        ([{"role": "user", "content": "Hi"}, {"content": "Hi"}], "message 1 has none of the roles"),
        ([{"role": "user", "content": "Hi"}, {"role": "narrator", "content": "Hi"}], "message 1 has none of the roles"),
        ([{"role": "user", "content": ""}], "has no text"),
        (COMPLETION, "got a mapping with 'id', 'object', 'choices'"),
    ],
)
def test_what_is_not_a_conversation_is_said_in_one_line(value, message):
    with pytest.raises(InputError, match=message) as caught:
        read(value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (RESULT, {"temperature": '"temperature": 14', "sky": '"sky": "clear"'}),
        ('{"a":{"b":[1,{"c":"x"}]},"d":true}', {"a.b[0]": "1", "a.b[1].c": '"c":"x"', "d": '"d":true'}),
        ('[ "a" , -1.5e3 , null , "" , {} , [] ]', {"[0]": '"a"', "[1]": "-1.5e3"}),
        ('{"a \\" b": "\\u00e9 \\\\"}', {'a " b': '"a \\" b": "\\u00e9 \\\\"'}),
        ("{}", {}),
        ("plain text", {}),
        ("[1, 2", {}),
        ("42", {}),
    ],
)
def test_fields_of_json_and_where_they_are(text, fields):
    assert {path: text[start:end] for path, start, end in json_fields(text)} == fields


KEYS = [
    *("role", "type", "content", "text", "parts", "blocks", "block_type", "name", "id", "tool_calls", "function"),
    *("arguments", "input", "output", "messages", "choices", "message", "attributes", "gen_ai.input.messages", "data"),
    *("gen_ai.prompt.0.content", "gen_ai.prompt.0.tool_calls.0.name", "additional_kwargs", "lc", "kwargs", "system"),
    *("observations", "child_runs", "reasoning", "functionCall", "function_response", "source", "results", "tools"),
]
WORDS = [
    *("user", "assistant", "tool", "system", "text", "tool_use", "tool_result", "function_call", "reasoning"),
    *("thinking", "mcp_call", "web_search_call", "function_call_output", "document", "image"),
    *("Hi", "", "[1", '{"a": 1}', "</think>"),
]
LEAVES = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(WORDS)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=20,
)
MESSAGES = st.lists(
    st.builds(
        lambda role, rest: {**rest, "role": role},
        st.sampled_from(["user", "assistant", "tool", "system"]),
        st.dictionaries(st.sampled_from(KEYS), JSON, max_size=5),
    ),
    min_size=1,
    max_size=3,
)


@settings(max_examples=300, deadline=None)
@given(JSON | MESSAGES | MESSAGES.map(lambda messages: {"messages": messages}))
def test_any_json_is_read_or_refused_in_one_line(value):
    try:
        conversation = read_conversation(value)
    except InputError as error:
        message = str(error)
    else:
        message = ""
        assert conversation.messages
        assert all(one.text and isinstance(one.name, str) for one in conversation.messages)
    assert "\n" not in message


@pytest.mark.slow
def test_messages_of_openai():
    chat = pytest.importorskip("openai.types.chat")
    message = chat.ChatCompletionMessage.model_validate(OPENAI[2])
    completion = chat.ChatCompletion.model_validate({**COMPLETION, "created": 1, "model": "gpt", "usage": None})
    assert read([*OPENAI[:2], message, OPENAI[3], completion.choices[0].message]) == SAID
    assert read({"messages": [*OPENAI[:2], message, OPENAI[3]], "response": completion}) == SAID
    responses = pytest.importorskip("openai.types.responses")
    output = [
        responses.ResponseFunctionToolCall.model_validate(ITEMS[1]),
        responses.ResponseOutputMessage.model_validate(OUTPUT[0]),
        responses.ResponseReasoningItem(id="rs_1", type="reasoning", summary=[{"type": "summary_text", "text": "I."}]),
    ]
    assert read([SAID[0][::2], ITEMS[0], output[0], ITEMS[2], output[1]]) == SAID
    assert read([ITEMS[0], output[2]])[1] == ("reasoning", "", "I.")


@pytest.mark.slow
def test_messages_of_anthropic():
    types = pytest.importorskip("anthropic.types")
    about = {"id": "msg_1", "type": "message", "model": "claude", "stop_sequence": None}
    about |= {"usage": {"input_tokens": 1, "output_tokens": 1}}
    call = types.Message.model_validate({**about, **ANTHROPIC[1], "stop_reason": "tool_use"})
    answer = types.Message.model_validate({**about, **ANTHROPIC[3], "stop_reason": "end_turn"})
    messages = [ANTHROPIC[0], {"role": "assistant", "content": call.content}, ANTHROPIC[2], answer]
    assert read({"system": ORDER, "messages": messages}) == SAID


@pytest.mark.slow
def test_messages_of_langchain():
    messages = pytest.importorskip("langchain_core.messages")
    load = pytest.importorskip("langchain_core.load")
    conversation = [
        messages.SystemMessage(ORDER),
        messages.HumanMessage(ASKED),
        messages.AIMessage("", tool_calls=[LANGCHAIN_CALL]),
        messages.ToolMessage(RESULT, tool_call_id="call_1"),
        messages.AIMessageChunk(SAYS),
    ]
    assert read(conversation) == SAID
    assert read({"messages": conversation}) == SAID
    assert read(load.dumpd(conversation)) == SAID
    assert read(json.loads(load.dumps(conversation))) == SAID
    assert read(messages.messages_to_dict(conversation)) == SAID
    blocks = [{"type": "reasoning", "reasoning": "I."}, {"type": "tool_call", **LANGCHAIN_CALL}]
    assert read([*conversation[:2], messages.AIMessage(content_blocks=blocks)])[2:] == [
        ("reasoning", "", "I."),
        SAID[2],
    ]


@pytest.mark.slow
def test_messages_of_llama_index():
    llms = pytest.importorskip("llama_index.core.llms")
    blocks = pytest.importorskip("llama_index.core.base.llms.types")
    conversation = [
        llms.ChatMessage(role="system", content=ORDER),
        llms.ChatMessage(role="user", content=ASKED),
        llms.ChatMessage(role="assistant", additional_kwargs={"tool_calls": [OPENAI_CALL]}),
        llms.ChatMessage(role="tool", content=RESULT, additional_kwargs=TOOL_OF_CALL),
        llms.ChatMessage(role="assistant", content=SAYS),
    ]
    assert read(conversation) == SAID
    if hasattr(blocks, "ToolCallBlock"):
        call = blocks.ToolCallBlock(tool_call_id="call_9pw1", tool_name="get_weather", tool_kwargs=ARGS)
        conversation[2] = llms.ChatMessage(role="assistant", blocks=[call])
        assert read(conversation) == SAID
