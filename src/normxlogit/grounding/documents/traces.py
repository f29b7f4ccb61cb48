"""Find the messages of a conversation in logs and traces: requests with responses, spans, runs, files."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from os import PathLike
from pathlib import Path
from typing import Any

from ...errors import DataError, InputError
from ...media.inputs.items import medium_type
from .documents import decoded

ROLES = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "ai", "model", "chatbot", "gpt"), "assistant"),
    **dict.fromkeys(("tool", "function", "ipython", "observation"), "tool"),
}
"""Roles of messages by their names in all formats."""

NESTED = ("observations", "child_runs", "resourceSpans", "resource_spans", "scopeSpans", "scope_spans", "spans", "runs")
"""Keys of the lists of nested records in a trace."""

REQUESTS = ("messages", "input", "inputs", "request", "question", "query", "prompt", "contents")
RESPONSES = ("choices", "output", "outputs", "response", "generations", "completion", "answer", "output_text")
SYSTEMS = ("system", "instructions", "system_instruction", "systemInstruction", "system_instructions")

ITEMS = ("reasoning", "compaction", "item_reference", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response")
"""Items of OpenAI's responses other than messages and calls."""

ATTRIBUTES = ("gen_ai.", "llm.")
"""Prefixes of a span's attributes."""

INDEXED = {
    "request": re.compile(r"(?:gen_ai\.prompt\.(\d+)|llm\.input_messages\.(\d+)\.message)\.(.+)"),
    "response": re.compile(r"(?:gen_ai\.completion\.(\d+)|llm\.output_messages\.(\d+)\.message)\.(.+)"),
}
"""Attributes of spans that number the messages: of OpenLLMetry, and of OpenInference."""

EXPECTED = (
    "a list of messages, each with a role and a content, or a trace with them: a request with its response, "
    "OpenTelemetry spans (gen_ai.input.messages), or an export of Langfuse or LangSmith"
)


def read_trace(path: str | PathLike[str]) -> Any:
    """Return the content of a file of JSON or JSON lines.

    Returns:
        What the file holds; of several lines a list.

    Raises:
        DataError: If it cannot be read, or is neither.
    """
    path = Path(path)
    try:
        text = decoded(path.read_bytes(), str(path))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    if not text.strip():
        raise DataError(f"{path} is empty; expected a conversation as JSON or JSON lines")
    try:
        return json.loads(text)
    except RecursionError:
        raise DataError(f"{path} is nested too deeply") from None
    except ValueError as error:
        lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
        if len(lines) == 1 or isinstance(parse_json(lines[0][1]), str):
            raise DataError(f"{path} is neither JSON nor JSON lines: {error}") from None
    rows = []
    for number, line in lines:
        try:
            rows.append(json.loads(line))
        except (ValueError, RecursionError) as error:  # noqa: PERF203  # of this line alone
            raise DataError(f"{path}: line {number} is not JSON: {error}") from None
    return rows


def to_plain_data(value: Any) -> Any:
    """Convert a value of any objects to dicts, lists, texts and numbers."""
    if isinstance(value, Enum):
        return to_plain_data(value.value)
    if value is None or isinstance(value, str | int | float | bool | bytes | bytearray):
        return value
    if (medium := medium_type(value)) is not None:  # its picture may be an object
        return dict(value) if isinstance(value, Mapping) else {"type": medium, medium: value}
    if isinstance(value, Mapping):
        return {str(key): to_plain_data(item) for key, item in value.items()}
    if callable(dump := getattr(value, "model_dump", None)):  # pydantic
        return to_plain_data(_model_dump(dump))
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name.lstrip("_"): to_plain_data(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Iterable):
        return [to_plain_data(item) for item in value]
    if hasattr(value, "__dict__") and not isinstance(value, type):
        return {key: to_plain_data(item) for key, item in vars(value).items() if not key.startswith("_")}
    return str(value)


def message_of(value: Any) -> Any:
    """Return a message object, such as of LangChain, Haystack or OpenAI, or a pair (role, content), as a mapping.

    Anything else, such as a message that is a mapping, is returned unchanged.
    """
    if isinstance(value, tuple) and is_message(list(value)):
        return _as_message(list(value))
    role = getattr(value, "role", None) or getattr(value, "type", None)
    has_content = any(hasattr(value, key) for key in ("content", "_content", "parts"))
    if isinstance(value, Mapping) or not isinstance(role, str) or not has_content:
        return value
    own_content: Any = getattr(value, "content", None)
    content = {} if own_content is None else {"content": to_plain_data(own_content)}
    message = _as_message({**content, **to_plain_data(value), "role": to_plain_data(role)})
    return {key: field for key, field in message.items() if field is not None or key == "content"}


def messages_in(value: Any) -> tuple[list[dict[str, Any]], list[Any] | None]:
    """Return the messages of one conversation, found in a trace.

    Of a trace with several calls of a model, which repeat what was there before, the longest is taken.

    Args:
        value: A value that `to_plain_data` returned.

    Returns:
        The messages as their format has them, and the definitions of the tools if there are any.

    Raises:
        InputError: If there is no conversation, or more than one.
    """
    value = parse_json(value)
    if isinstance(value, list) and any(map(is_message, value)):
        return _as_messages(value), None
    records = _records(value)
    conversations = [(messages, record) for record in records if (messages := _conversation(record))]
    if not conversations:
        raise InputError(f"expected {EXPECTED}; got {_describe(value)}")
    longest, record = max(reversed(conversations), key=lambda pair: len(pair[0]))
    if (count := len(_traces(value, longest))) > 1:
        raise InputError(f"expected one conversation, got {count}: pass one of them")
    return longest, _tools_of(record)


def _traces(value: Any, longest: list[dict[str, Any]]) -> set[str]:
    """Return the traces that conversations are of; the beginnings of the longest are no conversations of their own."""
    traces = set()
    for place, row in enumerate(value if isinstance(value, list) else [value]):
        records = _records(row)
        conversations = [messages for record in records if (messages := _conversation(record))]
        if any(messages == longest or messages != longest[: len(messages)] for messages in conversations):
            names = {str(record[key]) for record in records for key in ("trace_id", "traceId") if record.get(key)}
            traces |= names or {f"row {place}"}
    return traces


def _records(value: Any) -> list[dict[str, Any]]:
    """Return a trace and all records in it, each before its own parts."""
    value = parse_json(value)
    if isinstance(value, list):
        return [record for item in value for record in _records(item)]
    if not isinstance(value, dict):
        return []
    nested = [record for key in (*NESTED, "data", "trace") for record in _records_under(value, key)]
    return [value, *nested]


def _records_under(value: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the records under a key; messages have none, whatever their keys are."""
    inner = value.get(key)
    return _records(inner) if isinstance(inner, list | dict) and not is_message(value) else []


def _conversation(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the messages of a request and of its response; none if the record has none."""
    if (attributes := record.get("attributes")) is not None:
        return _of_attributes(_attributes(attributes))
    if any(key.startswith(ATTRIBUTES) for key in record):
        return _of_attributes(record)
    if is_message(record):
        return [_as_message(record)]
    request = next((record[key] for key in REQUESTS if record.get(key)), None)
    response = next((record[key] for key in RESPONSES if record.get(key)), None)
    request_messages = _messages_of_side(request, "user")
    if not request_messages:
        return []
    for key in SYSTEMS:
        if text := record.get(key):
            request_messages = [{"role": "system", "content": parse_json(text)}, *request_messages]
    response_messages = _messages_of_side(response, "assistant")
    return (
        response_messages
        if response_messages[: len(request_messages)] == request_messages
        else request_messages + response_messages
    )


def _messages_of_side(value: Any, role: str) -> list[dict[str, Any]]:
    """Return the messages of a request or of a response.

    Args:
        value: A text, messages, or a mapping with them.
        role: "user" for a request, "assistant" for a response; a text without a role has this one.
    """
    value = parse_json(value)
    if isinstance(value, str):
        return [{"role": role, "content": value}] if value.strip() else []
    if isinstance(value, list):
        if any(map(is_message, value)):
            return _as_messages(value)
        return _messages_of_side(value[0], role) if value else []  # a batch of one; several choices
    if not isinstance(value, dict):
        return []
    if is_message(value):
        return [_as_message(value)]
    if isinstance(value.get("message"), dict):
        return _messages_of_side(value["message"], role)
    keys = (*REQUESTS, *RESPONSES) if role == "user" else (*RESPONSES, "messages")
    for key in (*keys, "content", "text"):
        if value.get(key) and (messages := _messages_of_side(value[key], role)):
            systems = [{"role": "system", "content": value[name]} for name in SYSTEMS if value.get(name)]
            return systems + messages if role == "user" else messages
    return []


def _of_attributes(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the messages in the attributes of a span."""
    system = parse_json(attributes.get("gen_ai.system_instructions"))
    sides = []
    for side, key, role in (("request", "input", "user"), ("response", "output", "assistant")):
        messages = _messages_of_side(attributes.get(f"gen_ai.{key}.messages"), role)
        sides.append(messages or _numbered_messages(attributes, INDEXED[side], role))
    messages = [*sides[0], *sides[1]] if sides[0] else []
    return [{"role": "system", "content": system}, *messages] if system and messages else messages


def _numbered_messages(attributes: dict[str, Any], pattern: "re.Pattern[str]", role: str) -> list[dict[str, Any]]:
    """Return the messages of attributes whose keys number the messages and their tool calls."""
    messages: dict[int, dict[str, Any]] = {}
    calls: dict[int, dict[int, dict[str, Any]]] = {}
    for key, value in attributes.items():
        if (match := pattern.fullmatch(key)) is None:
            continue
        number, name = int(match[1] or match[2]), match[3]
        message = messages.setdefault(number, {"role": role, "content": ""})
        if call := re.fullmatch(r"tool_calls\.(\d+)\.(?:.*\.)?(id|name|arguments)", name):
            calls.setdefault(number, {}).setdefault(int(call[1]), {})[call[2]] = value
        else:
            message[name] = value
    for number, calls_by_place in calls.items():
        messages[number]["tool_calls"] = [calls_by_place[place] for place in sorted(calls_by_place)]
    return [messages[number] for number in sorted(messages)]


def _attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of a span by name, also from OTLP's list of keys with typed values."""
    if isinstance(value, dict):
        flat = dict(value)
        for key, inner in value.items():  # nested by the points of their names
            if isinstance(inner, dict):
                flat |= {f"{key}.{name}": item for name, item in _attributes(inner).items()}
        return flat
    rows = value if isinstance(value, list) else []
    return {str(row["key"]): _otlp_value(row.get("value")) for row in rows if isinstance(row, dict) and "key" in row}


def _otlp_value(value: Any) -> Any:
    """Return the plain value of an OTLP value such as {"stringValue": "text"}."""
    if not isinstance(value, dict) or len(value) != 1:
        return value
    ((type_name, inner),) = value.items()
    if type_name == "arrayValue":
        return [_otlp_value(item) for item in inner.get("values", [])]
    if type_name == "kvlistValue":
        return _attributes(inner.get("values", []))
    return inner if type_name.endswith("Value") else value


def is_message(value: Any) -> bool:
    """Return whether a value is one message or one item of the responses API."""
    if isinstance(value, list):
        return len(value) == 2 and all(isinstance(part, str) for part in value) and _role_name(value[0]) in ROLES
    if not isinstance(value, dict) or "choices" in value:
        return False
    if _role_name(value.get("role") or value.get("from")) in ROLES:
        return True
    type_name = value.get("type")
    if isinstance(value.get("lc"), int):
        return isinstance(value.get("kwargs"), dict) and "content" in value["kwargs"]
    if isinstance(value.get("data"), dict) and "content" in value["data"]:
        return _role_name(type_name) in ROLES
    if _role_name(type_name) in ROLES and "content" in value:
        return True
    return isinstance(type_name, str) and (type_name in ITEMS or type_name.endswith(("_call", "_call_output")))


def _as_messages(messages: list[Any]) -> list[dict[str, Any]]:
    """Return messages as mappings.

    Raises:
        InputError: If one is not a message.
    """
    for place, message in enumerate(messages):
        if not is_message(message):
            raise InputError(
                f"message {place} has none of the roles system, user, assistant and tool; got {_describe(message)}"
            )
    return list(map(_as_message, messages))


def _as_message(value: Any) -> dict[str, Any]:
    """Return a message as a mapping; the fields of LangChain's dumps are unpacked, and pairs are (role, content)."""
    if isinstance(value, list):
        return _as_message({"role": value[0], "content": value[1]})
    message: dict[str, Any] = value
    if isinstance(value.get("lc"), int) and isinstance(value.get("kwargs"), dict):
        name = value["id"][-1] if isinstance(value.get("id"), list) and value["id"] else ""
        message = {**value["kwargs"], "type": value["kwargs"].get("type") or name}
    elif isinstance(value.get("data"), dict) and "content" in value["data"] and "role" not in value:
        message = {**value["data"], "type": value.get("type")}
    if isinstance(message.get("from"), str) and "value" in message:  # ShareGPT
        message = {**message, "role": message["from"], "content": message["value"]}
    role = _role_name(message.get("role"))
    role = role if role in ROLES else _role_name(message.get("type"))
    return {**message, "role": ROLES[role]} if role in ROLES else message


def _role_name(value: Any) -> str:
    """Return a role in lower case without the endings of class names: "HumanMessage" becomes "human"."""
    return re.sub(r"message(chunk)?$", "", value.lower()) if isinstance(value, str) else ""


def _tools_of(record: dict[str, Any]) -> list[Any] | None:
    """Return the tool definitions of a request, in the form for chat templates."""
    request = record.get("request") or record.get("input") or record.get("inputs")
    for source in (record, request):
        tools = source.get("tools") if isinstance(source, dict) else None
        if isinstance(tools, list) and tools and all(isinstance(tool, dict) and "function" in tool for tool in tools):
            return tools
    return None


def parse_json(value: Any) -> Any:
    """Return the value of a text that is an object or an array of JSON; anything else unchanged."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _model_dump(dump: Callable[..., Any]) -> Any:
    """Return the fields of a pydantic model by its `model_dump`, without those that are None and without warnings."""
    try:
        return dump(warnings=False, exclude_none=True)
    except TypeError:  # not pydantic's own
        return dump()


def _describe(value: Any) -> str:
    """Return a short description of a value, for errors."""
    if isinstance(value, dict):
        keys = ", ".join(map(repr, list(value)[:6])) or "nothing"
        return f"a mapping with {keys}{', ...' if len(value) > 6 else ''}"
    if isinstance(value, list):
        return f"a list of {len(value)}, the first {_describe(value[0])}" if value else "an empty list"
    return f"{str(value)[:40]!r}" if isinstance(value, str) else type(value).__name__
