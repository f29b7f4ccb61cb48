"""The command that generates text and shows what each token rests on."""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError
from ..inputs.texts import decoded
from ..results.units.kinds import PartKind
from . import options
from .console import deliver_result, format_for, layers_of, quiet, status

if TYPE_CHECKING:
    from ..results.attribution import Attribution

ENDED = "the model ended at once: it was trained on chats, and --chat sends the prompt as a message"
"""The note for an instruct model that generates nothing after a plain question."""


@options.loads_models
def generate(
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="The text to continue; standard input if none is given.")
    ] = None,
    model: options.LanguageModel = "",
    max_new_tokens: options.MaxNewTokens = 40,
    completion: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Explain this continuation (mind its first space) instead of the model's own."
        ),
    ] = None,
    attach: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="What the model reads before the prompt, by its path; may be repeated."),
    ] = None,
    chat: Annotated[
        bool, typer.Option("--chat", help="Send the prompt as a message, through the model's chat template.")
    ] = False,
    method: options.MethodName = None,
    target: Annotated[
        str | None,
        options.explained(
            metavar="TOKEN",
            help="A token to explain at every place; by default each generated token itself.",
        ),
    ] = None,
    contrast: Annotated[
        str | None,
        options.explained(
            metavar="TEXT",
            help="Another answer (mind its first space): what of the prompt makes the whole one likelier than this. "
            "With --target a token to subtract at every place.",
        ),
    ] = None,
    parts: Annotated[
        PartKind | None,
        options.explained(
            help="What is explained, with a backward pass for each; by default every generated token.",
        ),
    ] = None,
    through: Annotated[
        bool,
        options.explained(
            "--through",
            help="Pass what a part takes from earlier ones on to the prompt; with --parts.",
        ),
    ] = False,
    layers: options.LayerNumbers = None,
    verify: options.VerifyCount = None,
    output_format: options.OutputFormat = None,
    output: options.OutputFile = None,
    loading: options.Loading = options.LOADING,
) -> None:
    """Continue a text, and show what each generated token rests on.

    With --attach the prompt is a question about a file, such as a picture, and the parts of it that the answer rests on
    are shown.

    Example: normxlogit generate "Once upon a time" --model FOLDER --output why.html
    """
    options.required(model, options.NO_LANGUAGE_MODEL)
    kind = output_format or format_for(output)
    request = _request(prompt, attach, chat=chat)
    keywords: dict[str, Any] = {"parts": parts, "layers": layers_of(layers), "verify": options.verified_units(verify)}
    with quiet():
        from ..inputs.chat import has_chat_template
        from ..tasks.targets import typed_targets

        explainer = loading.load(model)
        if target is None:  # then a contrast is another answer, and not a token
            keywords["contrast"] = contrast or None
        else:
            keywords |= typed_targets(explainer.task_model.task, [target], contrast)
        if completion is None:
            with status(f"generating, and explaining each {parts or 'token'}"):
                result = explainer.generate(request, max_new_tokens=max_new_tokens, method=method, **keywords)
            is_plain_prompt = isinstance(request, str)
            if is_plain_prompt and has_chat_template(explainer.task_model.reader):
                result = _with_note_on_chats(result)
        else:
            result = explainer.explain_completion(request, completion, method=method, **keywords)
    deliver_result(result.through() if through else result, kind, output)


def _request(prompt: str | None, attached_files: list[str] | None, *, chat: bool) -> Any:
    """Return what the model continues: a text, or messages in the form of transformers.

    Args:
        prompt: The text; None for that of standard input.
        attached_files: The files that the message has before the text; None for none.
        chat: Whether the text is sent as a message.

    Raises:
        InputError: If there is no text, or a file cannot be attached.
    """
    if prompt is None:
        if sys.stdin.isatty():
            raise InputError("no prompt: give it as an argument or on standard input")
        # Without the line end that a file or `echo` has, which would be a part of the prompt.
        prompt = decoded(sys.stdin.buffer.read(), "standard input").rstrip("\n")
    if attached_files:
        from ..inputs.message_parts import part_of_file

        return [{"role": "user", "content": [*map(part_of_file, attached_files), {"type": "text", "text": prompt}]}]
    return [{"role": "user", "content": prompt}] if chat else prompt


def _with_note_on_chats(result: "Attribution") -> "Attribution":
    """Return a result with a note if the model generated nothing but special tokens, such as the end of a text."""
    # Of the generated tokens, before which `prompt_tokens` stand; None, of a result without any, is for the type alone.
    special_tokens_mask = result.special_tokens_mask[result.prompt_tokens or 0 :]
    return replace(result, notes=(*result.notes, ENDED)) if all(special_tokens_mask) else result
