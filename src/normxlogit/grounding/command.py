"""The command that answers a question from documents and cites the sentences that the answer rests on."""

import sys
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import typer

from ..cli import options
from ..cli.console import check_output, deliver_result, format_for, quiet, status, write
from ..errors import DataError, InputError
from ..inputs.text_files import decoded, is_existing_path
from ..results.units.characters import one_line
from .documents.documents import READERS, files_in, is_picture_file, names_of_files, read_file


def cite(
    documents: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DOCUMENTS...",
            help="Text, Markdown, HTML or PDF files or folders, and pictures where the model reads them; - or none is "
            "standard input.",
        ),
    ] = None,
    question: Annotated[
        list[str] | None, typer.Option(help="The question; may be repeated, for several answers from the documents.")
    ] = None,
    messages: Annotated[
        Path | None,
        typer.Option(
            help="File of JSON or JSON lines with the messages of a conversation, instead of a question and "
            "documents: its last answer is explained by what was said before."
        ),
    ] = None,
    turn: Annotated[
        int | None,
        typer.Option(help="Which of the assistant's texts in --messages is the answer, from 0; by default the last."),
    ] = None,
    answer: Annotated[
        list[str] | None,
        typer.Option(
            help="An answer that was written elsewhere, one for each question: a text file, a text of several words, "
            "or - for standard input. By default the model answers."
        ),
    ] = None,
    model: options.LanguageModel = "",
    gguf_file: options.GGUFFile = None,
    trust_remote_code: options.TrustRemoteCode = False,
    device: options.Device = options.AUTO,
    dtype: options.DType = None,
    system: Annotated[str | None, typer.Option(help="What the system message says.")] = None,
    max_new_tokens: options.MaxNewTokens = 200,
    method: options.MethodName = None,
    verify: Annotated[
        str,
        typer.Option(
            metavar="N|NAMES",
            help='Leave this many of the first sources out, one by one, and edit words, to test the answer; "auto" '
            "goes on until the others can no longer come first, 0 tests nothing. Or names of sources and documents, "
            "separated by commas.",
        ),
    ] = "auto",
    verbose: Annotated[bool, typer.Option(help="Print the figures behind the verdicts, too.")] = False,
    output_format: options.OutputFormat = None,
    output: options.OutputFile = None,
) -> None:
    """Answer a question from documents, and show which of their sentences the answer rests on.

    Example: normxlogit cite notes/*.txt --question "Who built the pool?" --model FOLDER

    With --messages: which messages, tool results and sentences the last answer of a conversation rests on.
    """
    options.required(model, options.NO_LANGUAGE_MODEL)
    questions = question or []
    if messages is None:
        options.required(" ".join(questions), "give a question with --question, or a conversation with --messages")
    elif documents or questions or system is not None:
        raise InputError("--messages holds all that the answer rests on: leave out documents, --question and --system")
    verified_sources = options.verified_units(verify)
    kind = output_format or format_for(output)
    if kind == "csv":
        raise InputError("citations are written as text, HTML or JSON, not as CSV")
    document_names = [] if messages is not None else documents or ["-"]
    given_answers = _written_answers(answer or [], len(questions) or 1, "-" in document_names)
    if messages is None:
        texts, notes = read_documents(document_names, output)
    else:
        texts, notes = None, []
        check_output(output, messages)
        from .documents.conversations import read_conversation

        read_conversation(messages)  # its mistakes are found before the model is loaded
    with quiet():
        from ..results.collection import Attributions

        explainer = options.load(model, device, dtype, gguf_file, trust_remote_code)
        keywords: dict[str, Any] = {"messages": messages, "turn": turn, "system": system, "method": method}
        keywords |= {"max_new_tokens": max_new_tokens, "verify": verified_sources}
        with status("reading the documents and the answer" if given_answers else "answering, and testing the answer"):
            asked: list[str | None] = [*questions] if questions else [None]
            results = [
                explainer.cite(question, texts, answer=answer_or_none, **keywords)
                for question, answer_or_none in zip_longest(asked, given_answers)
            ]
        results_with_notes = [
            replace(r, attribution=replace(r.attribution, notes=(*notes, *r.attribution.notes))) for r in results
        ]
    deliver_result(
        results_with_notes[0] if len(results_with_notes) == 1 else Attributions(results_with_notes), kind, output
    )
    if verbose and (output is not None or kind in (None, "text")):
        for result in results_with_notes:
            write("\n" + "\n".join(f"{one_line(s.text)}: {s.reason}" for s in result.support))


def _written_answers(answers: list[str], questions: int, typed_documents: bool) -> list[str]:
    """Return the given answers, one for each question."""
    if len(answers) not in (0, questions):
        raise InputError(f"--answer is given {len(answers)} times and --question {questions}: give one for each")
    if answers.count("-") + typed_documents > 1:
        raise InputError("standard input can be the documents or one answer; give files for the others")
    return [_written_answer(text_or_file) for text_or_file in answers]


def _written_answer(text_or_file: str) -> str:
    """Return an answer from a file, from standard input ("-"), or typed as several words."""
    if text_or_file == "-":
        return decoded(sys.stdin.buffer.read(), "standard input")
    if is_existing_path(text_or_file):
        return "\n\n".join(read_file(text_or_file).values())
    if len(text_or_file.split()) < 2 or text_or_file.lower().endswith(tuple(READERS)):
        raise InputError(
            f"--answer: there is no file {text_or_file}; an answer that is typed has several words, and - is standard "
            "input"
        )
    return text_or_file


def read_documents(names: list[str], output: Path | None = None) -> tuple[dict[str, str | Path], list[str]]:
    """Read documents by name; unreadable files of a folder are left out.

    Args:
        names: Files, folders (of which every text, Markdown, HTML and PDF file is read) or "-" for standard input.
        output: The output file, which must not be one of the documents.

    Returns:
        The documents, pictures as their files, and a note of each file of a folder that was left out.

    Raises:
        DataError: If one cannot be read, or a folder holds no document.
        InputError: If standard input is a terminal, or the answer would be written over a document.
    """
    files: dict[Path, Path] = {}  # each once, by where it really is
    explicit_files: set[Path] = set()  # those that are named themselves
    texts: dict[str, str | Path] = {}
    skipped: list[DataError] = []
    for path_or_dash in dict.fromkeys(names):
        if path_or_dash == "-":
            if sys.stdin.isatty():
                raise InputError("no documents: name files or folders, or give a text on standard input")
            texts["standard input"] = decoded(sys.stdin.buffer.read(), "standard input")
            continue
        path = Path(path_or_dash)
        for file in files_in(path) if path.is_dir() else [path]:
            files.setdefault(file.resolve(), file)
        if not path.is_dir():
            explicit_files.add(path.resolve())
    check_output(output, *files.values())
    all_files = list(files.values())
    for name, file in zip(names_of_files(all_files), all_files, strict=True):
        if is_picture_file(file):
            texts[name] = file
            continue
        try:
            texts |= read_file(file, name)
        except DataError as error:  # of this file alone
            if file.resolve() in explicit_files:
                raise
            skipped.append(error)
    if skipped and not texts:
        raise skipped[0]
    return texts, [f"{error}; it was left out" for error in skipped]
