"""A converter: the log of a service as chat messages, in the form that transformers' chat templates take.

The library reads that form alone. What another service writes is brought to it by a function like this one, which is
called and not registered: `explainer.cite(messages=from_log(log))`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

ROLES = {"customer": "user", "agent": "assistant", "lookup": "tool"}


def from_log(log: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages of a log: "customer", "agent", and "lookup", which is what a tool returned."""
    messages = []
    for entry in log:
        message = {"role": ROLES[entry["who"]], "content": entry["says"]}
        messages.append(message | ({"name": entry["tool"]} if entry["who"] == "lookup" else {}))
    return messages
