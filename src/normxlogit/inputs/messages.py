"""The one form of a message: a role with a content, calls of tools or both, as transformers' chat templates take it.

A content is a text or a list of parts ({"type": "text", "text": ...}, {"type": "image", ...}, {"type": "audio", ...}).
A call is {"type": "function", "function": {"name": ..., "arguments": ...}} under "tool_calls" of the assistant, and
what it returned the content of a message of the role "tool". `examples/messages.py` converts what other services write.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeGuard


def is_message(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a value is a message: a mapping with a role, and a content or calls of tools."""
    is_mapping = isinstance(value, Mapping) and isinstance(value.get("role"), str)
    return is_mapping and ("content" in value or "tool_calls" in value)


def message_of(value: Any) -> Any:
    """Return an object with a role and a content, such as a client's, as a mapping; anything else unchanged."""
    is_object = isinstance(getattr(value, "role", None), str) and hasattr(value, "content")
    if isinstance(value, Mapping) or not is_object:
        return value
    dump: Callable[[], Mapping[str, Any]] = getattr(value, "model_dump", lambda: vars(value))  # of pydantic
    return {name: field for name, field in dump().items() if field is not None or name == "content"}
