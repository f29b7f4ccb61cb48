"""Conversations as a model's chat template writes them, or as one text, and where each message stands in that."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ...errors import InputError
from ...inputs.chat import Content, ReadPrompt, has_chat_template, read_prompt
from ...model.task_model import TaskModel
from ...results.storage.schema import Strings
from ..documents.conversations import Conversation, Message
from .rows import Form, Row, rows_of

AS_TEXT = {"tool call": "tool calls", "tool result": "results of tools", "system": "system messages"}
"""Kinds of messages that chat templates may not render, and that are written as text then."""


class Rendering(NamedTuple):
    """A conversation as a prompt.

    Attributes:
        prompt: The prompt.
        starts: Where the text of each message begins in it, by the message's place; of those that are rendered.
        form: How the messages are written.
    """

    prompt: ReadPrompt
    starts: Mapping[int, int]
    form: Form


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
    # By its source, as a template that knows no tools leaves calls out without an error.
    knows_tools = "tool" in str(getattr(model.reader, "chat_template", None))
    spoken = _spoken_places(conversation.messages if answer_follows else conversation.messages[:-1])
    renderings, refusals = list[Rendering](), list[InputError]()
    for form in _forms(tools_as_text=tools_as_text or not knows_tools):
        try:
            rendering = render_as(model, conversation, form, answer_follows=answer_follows)
        except InputError as error:
            refusals.append(error)
            continue
        if spoken <= rendering.starts.keys():
            return rendering
        renderings.append(rendering)
    if not renderings:  # the first form is the fullest: its error says what the template does not take
        raise refusals[0]
    return min(renderings, key=lambda rendering: len(spoken - rendering.starts.keys()))


def _spoken_places(messages: Sequence[Message]) -> set[int]:
    """Return the places of the messages that a prompt has to hold: texts but reasoning."""
    return {place for place, m in enumerate(messages) if m.part is None and m.kind != "reasoning"}


def _forms(*, tools_as_text: bool) -> Iterator[Form]:
    """Yield the forms of messages, the fullest first."""
    for in_parts in (False, True):
        if not tools_as_text:
            yield Form(tools_as_text=False, two_roles=False, in_parts=in_parts)
        yield Form(tools_as_text=True, two_roles=False, in_parts=in_parts)
        yield Form(tools_as_text=True, two_roles=True, in_parts=in_parts)


def render_as(model: TaskModel, conversation: Conversation, form: Form, *, answer_follows: bool) -> Rendering:
    """Render a conversation in one form, and find where each message begins in the result.

    Args:
        model: A language model.
        conversation: The messages.
        form: How they are written where the model has a chat template.
        answer_follows: See `render`.
    """
    if not has_chat_template(model.reader):
        return _as_one_text(conversation, answer_follows=answer_follows)
    rows = rows_of(conversation.messages, form)
    # The caller's options of templates, but for how the prompt ends: an answer begins a message of its own.
    options: dict[str, Any] = {**model.pipeline.chat, "continue_final_message": False}
    options["add_generation_prompt"] = answer_follows
    prompt: dict[str, Any] = {"messages": [row.message for row in rows]}
    if conversation.tools and not form.tools_as_text:
        prompt["tools"] = conversation.tools
    rendered = replace(read_prompt(model.reader, prompt, options), notes=_notes_of_form(conversation, form))
    return Rendering(rendered, _message_starts(rendered, rows, conversation.messages), form)


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
    text, starts, form = "", dict[int, int](), Form(tools_as_text=True, two_roles=False, in_parts=False)
    for row in rows_of(conversation.messages, form):
        text += f"{row.message['role'].title()}: "
        starts |= {place: len(text) + offset for place, offset in row.offsets.items()}
        text += f"{row.message['content']}\n\n"
    return Rendering(ReadPrompt(text + "Assistant:" if answer_follows else text.rstrip(), None), starts, form)


def _message_starts(rendered: ReadPrompt, rows: Sequence[Row], messages: Sequence[Message]) -> dict[int, int]:
    """Return the character at which each message begins in a rendered prompt, by the message's place.

    A tool call, and a text whose content the template changes, is looked for behind the messages before it and before
    the next content, where it must stand as often as in the row. Messages that are not found are left out.
    """
    starts = dict[int, int]()
    position = 0  # where the last message that was found ends
    contents = rendered.contents or ()
    for number, row in enumerate(rows):
        # Where the next content begins, which bounds the search.
        end = min((content.start for content in contents if content.message > number), default=len(rendered.text))
        for place, offset in row.offsets.items():
            text = messages[place].text
            start = _start_in_contents(contents, number, offset, len(text))
            if start is None:
                # Later messages of the row may have the same text, and stand behind this one.
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
    starts = (each.place_of(offset) for each in contents if each.holds(number, offset, offset + length))
    return next(starts, None)
