"""Conversations as a model's chat template writes them, or as one text, and where each message stands in that."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from ...errors import InputError
from ...inputs.chat import Content, ReadPrompt, has_chat_template, read_prompt
from ...model.task_model import TaskModel
from ..documents.conversations import Conversation, Message, parsed_arguments

AS_TEXT = {"tool call": "tool calls", "tool result": "results of tools", "system": "system messages"}
"""Kinds of messages that chat templates may not render, and that are written as text then."""

Row = tuple[dict[str, Any], tuple[int, ...]]
"""A message of a chat template, and the places of the conversation's messages that it is made of: calls come last."""

Rendering = tuple[ReadPrompt, Mapping[int, int]]
"""A conversation as a prompt, and where the text of each message begins in it, by the message's place; messages that
are not rendered are left out."""


class Form(NamedTuple):
    """How messages are written where a chat template does not know all kinds of them."""

    tools_as_text: bool  # calls and results of tools are texts of the assistant and the user
    two_roles: bool  # system messages are the user's, and messages of one role in a row are one
    in_parts: bool  # contents are lists of parts


def render(model: TaskModel, conversation: Conversation) -> Rendering:
    """Render a conversation by the model's chat template, if it has one; what that leaves out is written as text.

    Reasoning that it leaves out stays out: the model does not read it either. The first rendering that holds every
    message is returned; if there is none, the one that lacks the fewest.
    """
    if not has_chat_template(model.reader):
        return _as_one_text(conversation)
    roles = [(True, False), (True, True)]
    roles = [(False, False), *roles] if "tool" in str(model.reader.chat_template) else roles
    spoken = [i for i, m in enumerate(conversation.messages) if m.part is None and m.kind != "reasoning"]

    def lost(rendering: Rendering) -> int:
        return sum(place not in rendering[1] for place in spoken)

    renderings, refusals = list[Rendering](), list[InputError]()
    for form in (Form(*of_roles, in_parts) for in_parts in (False, True) for of_roles in roles):
        try:
            renderings.append(_render_as(model, conversation, form))
        except InputError as error:
            refusals.append(error)
            continue
        if not lost(renderings[-1]):
            break
    if not renderings:
        raise refusals[0]
    return min(renderings, key=lost)


def _render_as(model: TaskModel, conversation: Conversation, form: Form) -> Rendering:
    """Render a conversation by the chat template, and find where each message begins in the result."""
    messages, notes = conversation.messages, []
    rows = _rows(messages, form)
    options: dict[str, Any] = {**model.pipeline.chat, "add_generation_prompt": True, "continue_final_message": False}
    prompt: dict[str, Any] = {"messages": [row for row, _ in rows]}
    if conversation.tools and not form.tools_as_text:
        prompt["tools"] = conversation.tools
    rendered = read_prompt(model.reader, prompt, options)
    as_text = {"tool call": form.tools_as_text, "tool result": form.tools_as_text, "system": form.two_roles}
    kinds = {message.kind for message in messages}
    if names := [AS_TEXT[kind] for kind, is_text in as_text.items() if is_text and kind in kinds]:
        notes.append(f"the reader's chat template does not render {', '.join(names)}: rendered as plain text")
    if conversation.tools and form.tools_as_text:
        notes.append("the definitions of the tools are not in the prompt: the reader's chat template has none")
    return replace(rendered, notes=tuple(notes)), _message_starts(rendered, rows, messages, form)


def _message_starts(
    rendered: ReadPrompt, rows: Sequence[Row], messages: Sequence[Message], form: Form
) -> dict[int, int]:
    """Return the character at which each message begins in a rendered prompt, by the message's index.

    A message is found in the content that it is written into, behind the ones before it. A tool call, and a text whose
    content the template changes, is looked for between the contents before and after it, where it must stand once.
    Messages that are not found are left out.
    """
    contents, starts, position = rendered.contents or (), dict[int, int](), 0
    for row_index, (_, indices) in enumerate(rows):
        of_row = [content for content in contents if content.message == row_index]
        following = (content.start for content in contents if content.message > row_index)
        next_content = min(following, default=len(rendered.text))
        for index in indices:
            message = messages[index]
            is_call = message.kind == "tool call" and not form.tools_as_text
            in_content = bool(of_row) and not is_call
            before = _wrapping(message, form)[0] if in_content else ""
            first = of_row[-1 if is_call else 0] if of_row else None
            begin = position if first is None else max(position, first.end if is_call else first.start)
            area = begin, of_row[-1].end if in_content else next_content
            start = rendered.text.find(before + message.text, *area)
            if start >= 0 and message.text and (in_content or rendered.text.count(message.text, *area) == 1):
                starts[index] = start + len(before)
                position = starts[index] + len(message.text)
    return starts


def _as_one_text(conversation: Conversation) -> Rendering:
    """Write a conversation as one text, for models without a chat template."""
    form, text, contents = Form(tools_as_text=True, two_roles=False, in_parts=False), "", list[Content]()
    rows = _rows(conversation.messages, form)
    for number, (row, _) in enumerate(rows):
        text += f"{row['role'].title()}: "
        contents.append(Content(row["role"], len(text), len(text) + len(row["content"]), number))
        text += f"{row['content']}\n\n"
    prompt = ReadPrompt(text + "Assistant:", tuple(contents))
    return replace(prompt, contents=None), _message_starts(prompt, rows, conversation.messages, form)


def _wrapping(message: Message, form: Form) -> tuple[str, str]:
    """Return the text before and after a message in a content."""
    if message.kind == "tool call" and form.tools_as_text:
        return f"{message.name}(", ")"
    if message.kind == "tool result" and form.tools_as_text:
        return f"Result of {message.name or 'the tool'}:\n", ""
    return ("<think>\n", "\n</think>\n\n") if message.kind == "reasoning" else ("", "")


def _rows(messages: Sequence[Message], form: Form) -> list[Row]:
    """Return a conversation as messages of a chat template."""
    call_ids, rows = list(dict.fromkeys(message.call for message in messages if message.call)), list[Row]()

    def call_id(message: Message) -> str:
        """Return an id for a tool call, of nine letters and digits, which the strictest templates demand."""
        return f"call{call_ids.index(message.call) if message.call else len(call_ids):05d}"

    def group_of(step: tuple[int, Message]) -> tuple[str, Any]:
        message = step[1]
        of_user = form.tools_as_text * ("tool",) + form.two_roles * ("system",)
        role = "user" if message.role in of_user else message.role
        return role, None if form.two_roles else (message.number, message.role)

    for (role, _), group in groupby(enumerate(messages), key=group_of):
        steps = dict(group)
        calls = [m for m in steps.values() if m.kind == "tool call" and not form.tools_as_text]
        texts = [message for message in steps.values() if message not in calls]
        row: dict[str, Any] = {"role": role, "content": _content(texts, form)}
        if calls:
            functions = [{"name": m.name, "arguments": parsed_arguments(m.text)} for m in calls]
            ids = zip(functions, map(call_id, calls), strict=True)
            row["tool_calls"] = [{"type": "function", "id": id_, "function": function} for function, id_ in ids]
        if role == "tool":
            row |= {"name": texts[0].name, "tool_call_id": call_id(texts[0])}
        rows.append((row, tuple(steps)))
    return rows


def _content(messages: Iterable[Message], form: Form) -> Any:
    """Return texts as one, each on a line of its own; with pictures and sounds among them, or if asked for, parts."""
    parts, number = list[Any](), -1
    for message in messages:
        before, after = _wrapping(message, form)
        part = message.part or {"type": "text", "text": f"{before}{message.text}{after}"}
        if parts and parts[-1]["type"] == part["type"] == "text":
            earlier = parts.pop()["text"]
            gap = "\n\n" if message.number != number else "" if earlier.endswith("\n") else "\n"
            part = {"type": "text", "text": f"{earlier}{gap}{part['text']}"}
        parts.append(part)
        number = message.number
    if form.in_parts or any(part["type"] != "text" for part in parts):
        return parts or [{"type": "text", "text": ""}]
    return parts[0]["text"] if parts else ""
