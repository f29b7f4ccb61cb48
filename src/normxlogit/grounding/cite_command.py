"""The command that answers a question from documents and cites the sentences that the answer rests on."""

import json
import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..cli import options
from ..cli.console import check_output, deliver_result, format_for, quiet
from ..errors import DataError, InputError
from ..inputs.texts import decoded, is_existing_path
from .documents.files import READERS, files_in, read_file

MORE = "Further options"
"""A panel of the help."""


@options.loads_models
def cite(
    documents: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DOCUMENTS...",
            help="Text, Markdown, HTML or PDF files or folders, and pictures where the model reads them; - or none is "
            "standard input.",
        ),
    ] = None,
    question: Annotated[str | None, typer.Option(metavar="TEXT", help="The question.")] = None,
    messages: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File of JSON with the messages of a conversation, instead of a question and "
            "documents: its last answer is explained by what was said before.",
        ),
    ] = None,
    turn: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=MORE,
            metavar="N",
            help="Which of the assistant's texts in --messages is the answer, from 0; by default the last.",
        ),
    ] = None,
    action: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=MORE,
            metavar="NAME|N",
            help="Which call of a tool in --messages is explained instead of a text: the last one of a tool, by its "
            "name, or one of all, from 0; by default the call with which the conversation ends.",
        ),
    ] = None,
    contrast: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=MORE,
            metavar="TEXT|JSON",
            help="What the call is explained against: an answer in words, or another call as JSON, such as "
            '\'{"name": "search", "arguments": {}}\'.',
        ),
    ] = None,
    answer: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|TEXT",
            help="An answer that was written elsewhere: a text file, a text of several words, or - for standard input. "
            "By default the model answers.",
        ),
    ] = None,
    model: options.LanguageModel = "",
    system: Annotated[
        str | None, typer.Option(rich_help_panel=MORE, metavar="TEXT", help="What the system message says.")
    ] = None,
    max_new_tokens: options.MaxNewTokens = 200,
    method: options.MethodName = None,
    verify: Annotated[
        str,
        typer.Option(
            metavar="N|NAMES",
            help='Leave this many of the first sources out, one by one, to test the answer; "auto" '
            "goes on until no other can come first, 0 leaves none out. Or each sentence, paragraph or message (a "
            "document), each sentence of the answer's reasoning (reasoning), or names of sources and documents, "
            "separated by commas.",
        ),
    ] = "auto",
    checker: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=MORE,
            metavar="FOLDER",
            help="A classifier of pairs of texts with a label entailment: a second opinion.",
        ),
    ] = None,
    rank: Annotated[
        bool, typer.Option(rich_help_panel=MORE, help="Order the sentences as well, the most doubtful first.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option(rich_help_panel=MORE, help="Print the figures behind the verdicts, too.")
    ] = False,
    output_format: options.OutputFormat = None,
    output: options.OutputFile = None,
    loading: options.Loading = options.LOADING,
) -> None:
    """Answer a question from documents, and show which of their sentences the answer rests on.

    Example: normxlogit cite notes/*.txt --question "Who built the pool?" --model FOLDER

    With --messages: which messages, tool results and sentences the last answer of a conversation rests on.
    """
    options.required(model, options.NO_LANGUAGE_MODEL)
    kind = output_format or format_for(output)
    if kind == "csv":
        raise InputError("citations are written as text, HTML or JSON, not as CSV")
    keywords: dict[str, Any] = {"messages": messages, "turn": turn, "system": system, "method": method, "rank": rank}
    keywords |= {"max_new_tokens": max_new_tokens, "verify": options.verified_units(verify)}
    if messages is None:
        options.required(question or "", "give a question with --question, or a conversation with --messages")
        keywords["documents"] = _documents(documents or ["-"], output, answer)
    else:
        _check_conversation(messages, output, [documents, question, system])
    keywords["answer"] = _written_answer(answer)
    # Typed texts become the numbers and calls that they stand for; an option that is not given is None for
    # `explainer.cite` too, which refuses --turn, --action and --contrast without --messages.
    if action is not None:
        keywords["action"] = int(action) if re.fullmatch(r"-?\d+", action) else action
    if contrast is not None:
        keywords["contrast"] = _call_or_text(contrast)
    with quiet():
        from .drawing import citation_blocks

        explainer = loading.load(model)
        # --trust-remote-code and --gguf-file are about the model that answers, not about the checker.
        keywords["checker"] = None if checker is None else options.Loading(loading.device, loading.dtype).load(checker)
        cited = explainer.cite(question, progress=True, **keywords)
        drawings = [citation_blocks(cited, verbose=verbose)]
    deliver_result(cited, kind, output, drawings)


def _call_or_text(contrast: str) -> Any:
    """Return a call of a tool that is written as JSON as a mapping; another text unchanged."""
    try:
        value = json.loads(contrast)
    except ValueError:
        return contrast
    # Other JSON may be an answer in words that happens to be JSON, such as a number.
    return value if isinstance(value, dict) and {"name", "function"} & value.keys() else contrast


def _check_conversation(messages: Path, output: Path | None, others: list[Any]) -> None:
    """Find the mistakes in a conversation, and in what is asked beside it, before the model is loaded."""
    from .documents.conversations import read_conversation

    if any(others):
        raise InputError("--messages is a whole conversation; leave out DOCUMENTS, --question and --system")
    check_output(output, messages)
    read_conversation(messages)


def _written_answer(text_or_file: str | None) -> str | None:
    """Return an answer from a file, from standard input ("-"), or typed as several words; None for none."""
    if text_or_file is None or text_or_file == "-":
        return text_or_file and decoded(sys.stdin.buffer.read(), "standard input")
    if is_existing_path(text_or_file):
        return "\n\n".join(read_file(text_or_file).values())
    # One word, or a name with a suffix of documents, is rather a file that is not there.
    if len(text_or_file.split()) < 2 or text_or_file.lower().endswith(tuple(READERS)):
        advice = "an answer that is typed has several words, and - is standard input"
        raise InputError(f"--answer: there is no file {text_or_file}; {advice}")
    return text_or_file


def _documents(names: list[str], output: Path | None, answer: str | None) -> list[Any]:
    """Return documents as `cite` reads them: files and folders, and standard input as a text ("-")."""
    if answer == "-" and "-" in names:
        raise InputError("standard input can be the documents or the answer; give a file for the other")
    for path in [Path(name) for name in names if name != "-"]:
        if not path.exists():  # found before the model is loaded
            raise DataError(f"cannot read {path}: there is no such file")
        check_output(output, *(files_in(path) if path.is_dir() else [path]))  # no input is overwritten
    return [_standard_input() if name == "-" else Path(name) for name in dict.fromkeys(names)]


def _standard_input() -> dict[str, str]:
    """Return the text on standard input as a document."""
    if sys.stdin.isatty():
        raise InputError("no documents: name files or folders, or give a text on standard input")
    return {"text": decoded(sys.stdin.buffer.read(), "standard input"), "name": "standard input"}
