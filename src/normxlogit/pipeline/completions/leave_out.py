"""Verify completions: the loss without the words, sources or parts of media of the highest scores."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ...errors import InputError
from ...leave_out.answers import Answer
from ...leave_out.removal import TextRemoval, Tokens
from ...leave_out.search import run_searches
from ...leave_out.units import Removable, Verify, picked, removable
from ...model.task_model import TaskModel
from ...results.attribution import Attribution
from ...results.units.spans import NamedSpan, SourceSpec, answer_parts
from ...results.units.words import UnitScore
from ..progress import progress_bar
from .ablations import Ablations, Array
from .completed_prompts import Completed
from .sources import media_sources

Answers = Callable[[list[TextRemoval]], list[Answer]]


def with_completion_verification(
    model: TaskModel, completed: Completed, result: Attribution, verify: Verify, division: SourceSpec | None = None
) -> Attribution:
    """Return a result with the log-probability of its completion without parts or sources of its prompt.

    Args:
        model: The language model.
        completed: The prompt with its completion.
        result: Its explanation.
        verify: Which of them are removed; None for no verification.
        division: How the prompt is divided into sources; None if it is not.
    """
    if verify is None:
        return result
    whole = (result if result.layers is None else result.layer(result.layers[-1])).whole()
    if verify == "reasoning":
        units, pieces, completed = thoughts(whole, completed)
    elif whole.units.kind[0] == "token":
        found = removable(whole)
        if whole.text_units != len(completed.joined().encoding):  # an encoder's input has no scores
            found = found._replace(parts=[part for part in found.parts if part.tokens[0] >= whole.text_units])
        units = picked(whole, found, _in_characters(completed, verify))
        pieces = {part.tokens: _piece(whole, part) for part in units.parts}
    else:
        found, pieces = removable_sources(whole, completed, division)
        units = picked(whole, found, verify)
    progress = partial(progress_bar, show=None, description="verifying")
    ablations = Ablations(model, completed, list(pieces.values()), progress)
    (verified,) = run_searches([result], [units], answers_without(ablations, pieces))
    return verified


def answers_without(ablations: Ablations, units: Iterable[Tokens], weights: Array | None = None) -> Answers:
    """Return a function that measures a completion without units of its prompt.

    Args:
        ablations: Measures the completion without sources.
        units: The units that each source is made of.
        weights: Which tokens of the completion are of which part, (K, G), if parts are measured and their sum.
    """
    places = [(set(tokens), (s.tokens, s.places)) for tokens, s in zip(units, ablations.sources, strict=True)]

    def answers(removals: list[TextRemoval]) -> list[Answer]:
        absent = [{place for tokens, place in places if tokens <= set(removed)} for _, removed in removals]
        present = np.array([[place not in removed for _, place in places] for removed in absent])  # (N, S)
        if weights is None:
            return [Answer(None, nats, None) for nats in ablations.nats(present).tolist()]
        parts = ablations(present) @ weights.T  # (N, K)
        return [Answer(None, float(nats.sum()), None, values=tuple(nats.tolist())) for nats in parts]

    return answers


def _in_characters(completed: Completed, named: Any) -> Any:
    """Return what a caller names, with spans of messages as spans of the whole prompt."""
    if completed.prompt.contents is None or not isinstance(named, Mapping | list | tuple):
        return named

    def placed(item: Any) -> Any:
        return completed.span_of(str(item), tuple(item)) if not isinstance(item, str) and len(item) == 3 else item

    if isinstance(named, Mapping):
        return {name: placed(item) for name, item in named.items()}
    return type(named)(map(placed, named))


def _piece(whole: Attribution, part: UnitScore) -> NamedSpan:
    """Return where in the prompt a word, or a part of a picture or a sound, is."""
    for index, medium in enumerate(whole.media):
        if medium.units.start <= part.position < medium.units.stop:
            return NamedSpan(part.text, 0, 0, (), places=((index, medium.place_of(part.tokens)),))
    return NamedSpan(part.text, 0, 0, part.tokens)


def _together(sources: Sequence[NamedSpan]) -> NamedSpan:
    """Return sources as one."""
    tokens = tuple(sorted(token for source in sources for token in source.tokens))
    return sources[0]._replace(tokens=tokens, places=tuple(place for source in sources for place in source.places))


def removable_sources(
    whole: Attribution, completed: Completed, division: SourceSpec | None
) -> tuple[Removable, dict[Tokens, NamedSpan]]:
    """Return the sources of a prompt as removable units, and where in the prompt each of them is.

    A source is removed wherever its words are a source: without one of two that are the same word for word, the model
    would still read them.

    Args:
        whole: The explanation, with one score for each source.
        completed: The prompt with its completion.
        division: How the prompt is divided.
    """
    sequence, units = completed.sequenced(), whole.units
    of_media = iter(media_sources(completed, division))
    words_of = {i: " ".join(units.text[i].split()) or i for i in units.sources}
    same_words: dict[str | int, list[NamedSpan]] = {}
    for i, words in words_of.items():
        if units.kind[i] in ("medium", "region"):
            source = next(of_media)
        else:
            start, end = (units.spans or ())[i]
            source = NamedSpan(units.text[i], start, end, sequence.tokens_in(start, end, of_answer=False))
        same_words.setdefault(words, []).append(source)
    together = {i: _together(same_words[words]) for i, words in words_of.items()}
    pieces: dict[Tokens, NamedSpan] = {(i,): piece for i, piece in together.items() if piece.tokens or piece.places}
    parts = [UnitScore(units.names[i] or units.text[i], unit, float(whole.scores[i])) for unit in pieces for i in unit]
    return Removable(parts, "source", "deleted"), pieces


def thoughts(whole: Attribution, completed: Completed) -> tuple[Removable, dict[Tokens, NamedSpan], Completed]:
    """Return each sentence of the reasoning by its units and tokens, and the prompt completed by what follows it.

    Of a result by sources the sentences are the parts that are explained.
    """
    sequence, prompt = completed.sequenced(), completed.joined()
    if not whole.reasoning:
        raise InputError("verify='reasoning': no reasoning was found in the answer; pass its spans, reasoning=")
    shift = sequence.prompt_characters
    end = shift + max(end for _, end in whole.marked_reasoning)
    answer = [i for i in range(prompt.prompt_tokens, len(sequence.offsets)) if sequence.offsets[i][0] >= end]
    spans = whole.units.spans or ()
    by_token = whole.units.kind[0] == "token"
    if by_token:
        named = [(piece.tokens, piece.start, piece.end) for piece in answer_parts(sequence, "sentence")]
    else:
        named = [((i,), *spans[i]) for i, kind in enumerate(whole.units.kind) if kind == "answer" and spans[i][1]]
    reasoning = [(shift + first, shift + last) for first, last in whole.reasoning]
    parts: list[UnitScore] = []
    pieces: dict[Tokens, NamedSpan] = {}
    for units, start, stop in named:
        inside = [sequence.tokens_in(max(start, first), min(stop, last), of_answer=True) for first, last in reasoning]
        if tokens := tuple(token for found in inside for token in found):
            units = tokens if by_token else units
            text = sequence.text[sequence.offsets[tokens[0]][0] : sequence.offsets[tokens[-1]][1]].strip()
            parts.append(UnitScore(text, units, float(whole.scores[list(units)].sum())))
            pieces[units] = NamedSpan(text, start, stop, tokens)
    if not answer or not parts:
        raise InputError("verify='reasoning': the completion holds no sentence of reasoning, or nothing behind it")
    found = Removable(parts, "sentence", "deleted", "the answer", singles=len(parts), all_together=True, named=True)
    start = completed.prompt_tokens + answer[0] - prompt.prompt_tokens
    characters = sequence.offsets[answer[0]][0] - shift + completed.prompt_characters
    return found, pieces, replace(completed, prompt_tokens=start, prompt_characters=characters)
