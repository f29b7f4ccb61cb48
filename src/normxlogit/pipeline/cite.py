"""From a question and documents to an answer with citations."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Literal

import numpy as np

from ..errors import InputError
from ..inputs.chat import Prompt
from ..inputs.texts import counted
from ..methods import Method
from ..models.task_model import TaskModel
from ..results.citations import Citations
from ..results.sentences import sentence_spans
from ..results.sources import Sources
from ..results.spans import answer_parts, prompt_sources
from ..surgery.memory import enough_memory
from .ablations import Ablations, leave_one_out, verified
from .completed import Completed
from .options import Options
from .sources import explain_sources, part_weights
from .writing import generate

__all__ = ["ask", "cite", "documents_by_name", "question_prompt"]

Spans = dict[str, tuple[int, ...]]


def cite(
    model: TaskModel,
    question: str,
    documents: Mapping[str, str] | Sequence[str],
    *,
    method: Method,
    system: str | None = None,
    max_new_tokens: int = 200,
    verify: int | Literal["auto"] = 0,
) -> Citations:
    """Let a model answer a question from documents, and find the sentences that each sentence of the answer rests on.

    Args:
        model: A causal language model.
        question: The question.
        documents: Texts by name, or a list of texts.
        method: How the sources are scored.
        system: What the system message says; none by default.
        max_new_tokens: Most tokens to write.
        verify: For how many of the first sources the loss of the answer without them is measured, a pass each; "auto"
            measures until the others can no longer come first.

    Raises:
        InputError: If there is no question or document, or they leave no room for an answer.
        UnsupportedModelError: If the model is no causal language model, or the method does not work on it.
    """
    if verify not in (0, "auto"):
        verify = counted(verify, "verify")
    completed = ask(model, question, documents, system=system, max_new_tokens=max_new_tokens)
    found = explain_sources(model, completed, Options(method=method), completed.named, "sentence")
    measured = {} if verify == 0 else _lost(model, completed, found, None if verify == "auto" else int(verify))
    return Citations(**vars(found), question=question, verified=measured)


def ask(
    model: TaskModel,
    question: str,
    documents: Mapping[str, str] | Sequence[str],
    *,
    system: str | None = None,
    max_new_tokens: int = 200,
) -> Completed:
    """Let a model answer a question from documents; the documents' sentences are the named sources.

    Raises:
        InputError: If there is no question or document, they leave no room for an answer, or it is empty.
    """
    prompt, spans = question_prompt(
        question, documents, system, chat=bool(getattr(model.tokenizer, "chat_template", None))
    )
    completed = _without_ending(generate(model, prompt, max_new_tokens, {}))
    if not (seen := completed.seen(spans)):
        raise InputError("the model's tokenizer knows no word of the documents")
    return completed.naming(seen)


def question_prompt(
    question: str, documents: Mapping[str, str] | Sequence[str], system: str | None = None, *, chat: bool
) -> tuple[Prompt, Spans]:
    """Write a question with its documents as a prompt.

    Args:
        question: The question.
        documents: Texts by name, or a list of texts.
        system: What comes first.
        chat: Whether the model takes messages; otherwise the prompt is one text.

    Returns:
        The prompt, and the span of each sentence of each document in it, by names such as "notes.txt:3".

    Raises:
        InputError: If there is no question, or no document with a sentence.
    """
    if not isinstance(question, str) or not question.strip():
        raise InputError("the question is empty")
    if system is not None and not isinstance(system, str):
        raise InputError(f"a system message is a text, not {type(system).__name__}")
    named = documents_by_name(documents)
    text, spans = "" if chat or not system else system.strip() + "\n\n", {}
    message = (1 if system else 0,) if chat else ()
    for name, document in named.items():
        text += f"{name}:\n" if len(named) > 1 else ""
        for number, (start, end) in enumerate(sentence_spans(document), start=1):
            spans[f"{name}:{number}"] = (*message, len(text) + start, len(text) + end)
        text += document.rstrip() + "\n\n"
    if not spans:
        raise InputError("the documents hold no sentence")
    text += f"Question: {question.strip()}"
    if not chat:
        return text + "\nAnswer:", spans
    messages = [{"role": "user", "content": text}]
    return [{"role": "system", "content": system}, *messages] if system else messages, spans


def documents_by_name(documents: Mapping[str, str] | Sequence[str]) -> dict[str, str]:
    """Return documents by name; of a list by their numbers, and without white space before them.

    Raises:
        InputError: If there is none, one is no text, or two have one name.
    """
    if isinstance(documents, str):
        documents = [documents]
    if isinstance(documents, Set) or not isinstance(documents, Iterable):
        raise InputError(f"documents are texts by name or a list of texts, not {type(documents).__name__}")
    if not isinstance(documents, Mapping):
        documents = {f"document {number}": text for number, text in enumerate(documents, start=1)}
    for name, text in documents.items():
        if not isinstance(text, str):
            raise InputError(f"document {name!r} is no text but {type(text).__name__}")
    if len({str(name) for name in documents}) < len(documents):
        raise InputError("two documents have the same name; give them different ones")
    found = {str(name): text.lstrip() for name, text in documents.items() if text.strip()}
    if not found:
        raise InputError("there is no document with a text")
    return found


def _without_ending(completed: Completed) -> Completed:
    """Take off the special tokens that end an answer: they say nothing that a source could be cited for."""
    encoding, count = completed.encoding, len(completed.encoding)
    while count > completed.prompt_tokens and encoding.special[count - 1]:
        count -= 1
    if count == completed.prompt_tokens:
        raise InputError("the model answers with nothing; ask in other words, or with other documents")
    kept = encoding.take(range(count))
    if kept.offsets is not None and kept.text is not None:
        kept = replace(kept, text=kept.text[: kept.offsets[-1][1]])
    return replace(completed, encoding=kept)


@enough_memory("measure what the answer loses without a source")
def _lost(model: TaskModel, completed: Completed, found: Sources, count: int | None) -> dict[str, float]:
    """Return how much of the answer's log-probability its first sources are worth, in nats, by name.

    Args:
        model: The model.
        completed: The prompt with its answer.
        found: The sources with their scores.
        count: How many; None for as many as can come first.
    """
    sequence = completed.sequenced()
    sources = prompt_sources(sequence, completed.named)
    weights = part_weights(completed, answer_parts(sequence, None))  # (1, G)
    ablations = Ablations(model, completed, sources)
    if count is None:
        lost = verified(ablations, weights[0], found.scores.astype(np.float64))
    else:
        places = [source.place for source in found.top(count)]
        (values,) = leave_one_out(ablations, weights, places)  # (N,)
        lost = dict(zip(places, values.tolist(), strict=True))
    return {sources[place].name: nats for place, nats in lost.items()}
