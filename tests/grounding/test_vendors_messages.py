"""Converters of `examples/messages.py`, by hand-written messages as the services' own documentation has them."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from normxlogit.grounding import read_conversation
from tests.grounding.test_conversations import ARGS, ARGUMENTS, ASKED, OPENAI, OPENAI_CALL, ORDER, RESULT, SAID, SAYS

CONVERTERS = {}
EXAMPLE = Path(__file__).parents[2] / "examples" / "messages.py"
exec(compile(EXAMPLE.read_text(encoding="utf-8"), EXAMPLE, "exec"), CONVERTERS)
converted = SimpleNamespace(**CONVERTERS)

ITEMS = [
    {"role": "user", "content": ASKED},
    {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "get_weather", "arguments": ARGUMENTS},
    {"type": "function_call_output", "call_id": "call_1", "output": RESULT},
]
OUTPUT = [
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "I look."}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": SAYS, "annotations": []}]},
]
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
LLAMA_INDEX = [
    {"role": "system", "additional_kwargs": {}, "blocks": [{"block_type": "text", "text": ORDER}]},
    {"role": "user", "blocks": [{"block_type": "text", "text": ASKED}]},
    {"role": "assistant", "additional_kwargs": {"tool_calls": [OPENAI_CALL]}, "blocks": []},
    {"role": "tool", "additional_kwargs": TOOL_OF_CALL, "blocks": [{"block_type": "text", "text": RESULT}]},
    {"role": "assistant", "blocks": [{"block_type": "text", "text": SAYS}]},
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
SHARE_GPT = [{"from": "system", "value": ORDER}, {"from": "human", "value": ASKED}, {"from": "gpt", "value": SAYS}]
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
    "gen_ai.input.messages": json.dumps(OTEL_INPUT),
    "gen_ai.output.messages": json.dumps(OTEL_OUTPUT),
}
LANGFUSE = {
    "id": "trace-1",
    "observations": [
        {"id": "1", "type": "GENERATION", "input": {"messages": OPENAI[:2]}, "output": OPENAI[2]},
        {"id": "2", "type": "SPAN", "name": "get_weather", "input": ARGUMENTS, "output": RESULT},
        {"id": "3", "type": "GENERATION", "input": OPENAI[:4], "output": OPENAI[4]},
    ],
}
LANGSMITH_LLM = {
    "run_type": "llm",
    "inputs": {"messages": [DUMPED[:4]]},
    "outputs": {"generations": [[{"text": SAYS, "message": DUMPED[4]}]]},
}

CASES = {
    "responses": (converted.responses([*ITEMS, *OUTPUT[1:]], ORDER), SAID),
    "anthropic": (converted.anthropic(ANTHROPIC, ORDER), SAID),
    "gemini": (converted.gemini(GEMINI["contents"], GEMINI["system_instruction"]), SAID),
    "langchain": (converted.langchain(LANGCHAIN), SAID),
    "langchain dumpd": (converted.langchain(DUMPED), SAID),
    "llama_index": (converted.llama_index(LLAMA_INDEX), SAID),
    "haystack": (converted.haystack(HAYSTACK), SAID),
    "share_gpt": (converted.share_gpt(SHARE_GPT), [*SAID[:2], SAID[4]]),
    "open_telemetry": (converted.open_telemetry(OTEL), SAID[1:]),
    "langfuse": (converted.langfuse(LANGFUSE), SAID),
    "langsmith": (converted.langsmith({"run_type": "chain", "child_runs": [LANGSMITH_LLM]}), SAID),
}


@pytest.mark.parametrize("name", CASES)
def test_converted_messages_say_the_same(name):
    messages, said = CASES[name]
    conversation = read_conversation(messages)
    assert [(m.kind, m.name, m.text) for m in conversation.messages] == said
    assert conversation.notes == ()


@pytest.mark.parametrize(
    "messages",
    [
        converted.responses([ITEMS[0], *OUTPUT]),
        converted.anthropic(
            [{"role": "assistant", "content": [{"type": "thinking", "thinking": "I look."}, *ANTHROPIC[3]["content"]]}]
        ),
        converted.gemini([{"role": "model", "parts": [{"text": "I look.", "thought": True}, {"text": SAYS}]}]),
        converted.langchain([{**LANGCHAIN[4], "additional_kwargs": {"reasoning_content": "I look."}}]),
    ],
    ids=["responses", "anthropic", "gemini", "langchain"],
)
def test_reasoning_is_kept(messages):
    said = [(m.kind, m.text) for m in read_conversation(messages).messages]
    assert said[-2:] == [("reasoning", "I look."), ("assistant", SAYS)]
