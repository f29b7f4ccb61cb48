"""Conversations as a model's chat template writes them, or as one text, and where each message stands in that."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from ...errors import InputError
from ...inputs.chat import Content, ReadPrompt, has_chat_template, read_prompt
from ...inputs.message_parts import Message as ChatMessage
from ...model.task_model import TaskModel
from ...results.storage.schema import Strings
from ..documents.conversations import Conversation, Message, parsed_arguments

AS_TEXT = {"tool call": "tool calls", "tool result": "results of tools", "system": "system messages"}
"""Kinds of messages that chat templates may not render, and that are written as text then."""


class Form(NamedTuple):
    """How messages are written where a chat template does not know all kinds of them."""

    tools_as_text: bool  # calls and results of tools are texts of the assistant and the user
    two_roles: bool  # system messages are the user's, and messages of one role in a row are one
    in_parts: bool  # contents are lists of parts

    @property
    def as_text(self) -> list[str]:
        """The kinds of messages that are written as text."""
        return ["tool call", "tool result"] * self.tools_as_text + ["system"] * self.two_roles


class Rendering(NamedTuple):
    """A conversation as a prompt.

    Attributes:
        prompt: The prompt.
        starts: Where the text of each message begins in it, by the message's place; of those that are rendered.
        form: How the messages are written; None without a chat template.
    """

    prompt: ReadPrompt
    starts: Mapping[int, int]
    form: Form | None = None


class Row(NamedTuple):
    """A message of a chat template."""

    message: ChatMessage
    offsets: Mapping[int, int]  # of each message in it, by its place, calls last: where its text begins in those of the
    # row's content; -1 of what is no text of it


def render(
    model: TaskModel, conversation: Conversation, *, answer_follows: bool = True, tools_as_text: bool = False
) -> Rendering:
    """Render a conversation by the model's chat template, if it has one; what that leaves out is written as text.

    Reasoning that it leaves out stays out: the model does not read it either. The first rendering that holds every
    message is returned; if there is none, the one that lacks the fewest.

    Args:
        model: A language model.
        conversation: The messages.
        answer_follows: Whether the prompt ends with what the template writes before an answer; if not, the last message
            is the answer, which need not be found as it was written.
        tools_as_text: Whether calls and results of tools are written as text in any case.
    """
    if not has_chat_template(model.reader):
        return _as_one_text(conversation, answer_follows=answer_follows)
    spoken = _spoken_places(conversation.messages if answer_follows else conversation.messages[:-1])
    renderings, refusals = list[Rendering](), list[InputError]()
    for form in _forms(knows_tools="tool" in str(model.reader.chat_template) and not tools_as_text):
        try:
            rendering = render_as(model, conversation, form, answer_follows=answer_follows)
        except InputError as error:
            refusals.append(error)
            continue
        if spoken <= rendering.starts.keys():
            return rendering
        renderings.append(rendering)
    if not renderings:
        raise refusals[0]
    return min(renderings, key=lambda rendering: len(spoken - rendering.starts.keys()))


def _spoken_places(messages: Sequence[Message]) -> set[int]:
    """Return the places of the messages that a prompt has to hold: texts but reasoning."""
    return {place for place, m in enumerate(messages) if m.part is None and m.kind != "reasoning"}


def _forms(*, knows_tools: bool) -> Iterator[Form]:
    """Yield the forms of messages, the fullest first."""
    for in_parts in (False, True):
        if knows_tools:
            yield Form(False, False, in_parts)
        yield Form(True, False, in_parts)
        yield Form(True, True, in_parts)


def render_as(model: TaskModel, conversation: Conversation, form: Form | None, *, answer_follows: bool) -> Rendering:
    """Render a conversation in one form, and find where each message begins in the result.

    Args:
        model: A language model.
        conversation: The messages.
        form: How they are written; None without a chat template.
        answer_follows: See `render`.
    """
    if form is None:
        return _as_one_text(conversation, answer_follows=answer_follows)
    messages = conversation.messages
    rows = _rows(messages, form)
    options: dict[str, Any] = {**model.pipeline.chat, "continue_final_message": False}
    options["add_generation_prompt"] = answer_follows
    prompt: dict[str, Any] = {"messages": [row.message for row in rows]}
    if conversation.tools and not form.tools_as_text:
        prompt["tools"] = conversation.tools
    rendered = replace(read_prompt(model.reader, prompt, options), notes=_notes_of_form(conversation, form))
    return Rendering(rendered, _message_starts(rendered, rows, messages), form)


def _notes_of_form(conversation: Conversation, form: Form) -> Strings:
    """Return notes on what a form writes as text, or leaves out."""
    kinds, notes = {message.kind for message in conversation.messages}, []
    if names := [AS_TEXT[kind] for kind in form.as_text if kind in kinds]:
        notes.append(f"the reader's chat template does not render {', '.join(names)}: rendered as plain text")
    if conversation.tools and form.tools_as_text:
        notes.append("the definitions of the tools are not in the prompt: the reader's chat template has none")
    return tuple(notes)


def _as_one_text(conversation: Conversation, *, answer_follows: bool) -> Rendering:
    """Write a conversation as one text, for models without a chat template."""
    text, starts = "", dict[int, int]()
    for row in _rows(conversation.messages, Form(tools_as_text=True, two_roles=False, in_parts=False)):
        text += f"{row.message['role'].title()}: "
        starts |= {place: len(text) + offset for place, offset in row.offsets.items()}
        text += f"{row.message['content']}\n\n"
    return Rendering(ReadPrompt(text + "Assistant:" if answer_follows else text.rstrip(), None), starts)


def _message_starts(rendered: ReadPrompt, rows: Sequence[Row], messages: Sequence[Message]) -> dict[int, int]:
    """Return the character at which each message begins in a rendered prompt, by the message's place.

    A tool call, and a text whose content the template changes, is looked for behind the messages before it and before
    the next content, where it must stand as often as in the row. Messages that are not found are left out.
    """
    starts = dict[int, int]()
    position = 0  # where the last message that was found ends
    contents = rendered.contents or ()
    for number, row in enumerate(rows):
        end = min((content.start for content in contents if content.message > number), default=len(rendered.text))
        for place, offset in row.offsets.items():
            text = messages[place].text
            start = _start_in_contents(contents, number, offset, len(text))
            if start is None:
                texts_from_here = [messages[later].text for later in row.offsets if later >= place]
                start = _start_of_repeated(text, texts_from_here.count(text), rendered.text, position, end)
            if start is not None:
                starts[place], position = start, start + len(text)
    return starts


def _start_of_repeated(text: str, times: int, rendered: str, position: int, end: int) -> int | None:
    """Return where a text first stands between two characters; None unless it stands there so many times."""
    is_certain = text != "" and rendered.count(text, position, end) == times
    return rendered.index(text, position) if is_certain else None


def _start_in_contents(contents: Sequence[Content], number: int, offset: int, length: int) -> int | None:
    """Return where a part of a message's texts begins in the prompt; None where no content holds it."""
    holding = (content for content in contents if content.holds(number, offset, offset + length))
    content = next(holding, None)
    return None if content is None else content.place_of(offset)


def _rows(messages: Sequence[Message], form: Form) -> list[Row]:
    """Return a conversation as messages of a chat template, whose calls have ids as the strictest templates demand."""
    calls = dict.fromkeys(message.call for message in messages)
    call_ids = {call: f"call{number:05d}" for number, call in enumerate(calls)}  # nine letters and digits
    groups = groupby(enumerate(messages), key=lambda step: _row_key(step[1], form))
    return [_row(key[0], dict(steps), form, call_ids) for key, steps in groups]


def _row_key(message: Message, form: Form) -> Strings:
    """Return the role of the row that a message is in, and what tells this row from its neighbours."""
    role = "user" if message.kind in form.as_text and message.kind != "tool call" else message.role
    return (role,) if form.two_roles else (role, message.role, str(message.number))


def _row(role: str, messages: Mapping[int, Message], form: Form, call_ids: Mapping[str, str]) -> Row:
    """Return messages, by their places, as one of a chat template."""
    calls = [m for m in messages.values() if m.kind == "tool call" and not form.tools_as_text]
    texts = {place: message for place, message in messages.items() if message not in calls}
    content, offsets = _content(texts, form)
    row: ChatMessage = {"role": role, "content": content}
    if calls:
        row["tool_calls"] = [_call(message, call_ids[message.call]) for message in calls]
    if role == "tool":
        result = next(iter(texts.values()))
        row |= {"name": result.name, "tool_call_id": call_ids[result.call]}
    return Row(row, dict.fromkeys(messages, -1) | offsets)


def _call(message: Message, call_id: str) -> ChatMessage:
    """Return a call of a tool as chat templates take it."""
    function = {"name": message.name, "arguments": parsed_arguments(message.text)}
    return {"type": "function", "id": call_id, "function": function}


def _content(messages: Mapping[int, Message], form: Form) -> tuple[Any, dict[int, int]]:
    """Return texts as one, each on a line of its own, with pictures and sounds among them or if asked for as parts.

    Args:
        messages: The messages by their places.
        form: How they are written.

    Returns:
        The content, and where the text of each message begins in its texts, which count as lines.
    """
    parts, offsets, number = list[Any](), dict[int, int](), -1
    for place, message in messages.items():
        if message.part is not None:
            parts.append(message.part)
        else:
            before, after = _wrapping(message, form)
            earlier = parts.pop()["text"] if parts and parts[-1]["type"] == "text" else ""
            gap = _gap(earlier, is_same_message=message.number == number)
            parts.append({"type": "text", "text": f"{earlier}{gap}{before}{message.text}{after}"})
            offsets[place] = len(_text_of(parts)) - len(after) - len(message.text)
        number = message.number
    has_media = any(message.part is not None for message in messages.values())
    if form.in_parts or has_media:
        return parts or [{"type": "text", "text": ""}], offsets
    return _text_of(parts), offsets


def _gap(earlier: str, *, is_same_message: bool) -> str:
    """Return the white space between two texts of a content; none behind nothing."""
    if not earlier:
        return ""
    if not is_same_message:
        return "\n\n"
    return "" if earlier.endswith("\n") else "\n"


def _text_of(parts: Sequence[Mapping[str, Any]]) -> str:
    """Return the texts of parts as lines."""
    return "\n".join(part["text"] for part in parts if part["type"] == "text")


def _wrapping(message: Message, form: Form) -> tuple[str, str]:
    """Return the text before and after a message in a content."""
    if message.kind == "tool call" and form.tools_as_text:
        return f"{message.name}(", ")"
    if message.kind == "tool result" and form.tools_as_text:
        return f"Result of {message.name or 'the tool'}:\n", ""
    return ("<think>\n", "\n</think>\n\n") if message.kind == "reasoning" else ("", "")
