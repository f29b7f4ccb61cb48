"""Verify completions: the loss without the words, sources or parts of media of the highest scores."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from ...errors import InputError
from ...leave_out.answers import Answer
from ...leave_out.removal import TextRemoval
from ...leave_out.search import run_searches
from ...leave_out.units import Removable, Verify, picked, removable
from ...model.task_model import TaskModel
from ...results.attribution import Attribution
from ...results.units.spans import NamedSpan, SourceSpec, answer_parts
from ...results.units.words import UnitScore
from ..progress import progress_bar
from .ablations import Ablations
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
    units, answers = _losses(model, completed, result, verify, division)
    (verified,) = run_searches([result], [units], answers)
    return verified


def _losses(
    model: TaskModel, completed: Completed, g: Attribution, verify: Verify, division: SourceSpec | None
) -> tuple[Removable, Answers]:
    """Return what of a prompt is removed, and a function that measures its completion without it."""
    whole = (g if g.layers is None else g.layer(g.layers[-1])).whole()
    if verify == "reasoning":
        units, pieces, completed = _thoughts(whole, completed)
    elif whole.units.kind[0] == "token":
        found = removable(whole)
        if whole.text_units != len(completed.joined().encoding):  # an encoder's input has no scores
            found = found._replace(parts=[part for part in found.parts if part.tokens[0] >= whole.text_units])
        units = picked(whole, found, _in_characters(completed, verify))
        pieces = [_piece(whole, part) for part in units.parts]
    else:
        found, of_part = _sources(whole, completed, division)
        units = picked(whole, found, verify)
        pieces = [_together(part.text, [of_part[token,] for token in part.tokens]) for part in units.parts]
    ablations = Ablations(model, completed, pieces, partial(progress_bar, show=None, description="verifying"))
    parts = [set(part.tokens) for part in units.parts]

    def answers(removals: list[TextRemoval]) -> list[Answer]:
        present = [[not part <= set(removed) for part in parts] for _, removed in removals]  # (N, W)
        return [Answer(None, float(nats), None) for nats in ablations.nats(np.array(present))]

    return units, answers


def _thoughts(whole: Attribution, completed: Completed) -> tuple[Removable, list[NamedSpan], Completed]:
    """Return each sentence of the reasoning by its units and tokens, and the prompt completed by what follows it.

    Of a result by sources the sentences are the parts that are explained.
    """
    sequence, prompt = completed.sequenced(), completed.joined()
    if not whole.reasoning:
        raise InputError("verify='reasoning': no reasoning was found in the answer; pass its spans, reasoning=")
    end = sequence.prompt_characters + max(end for _, end in whole.reasoning)
    answer = [i for i in range(prompt.prompt_tokens, len(sequence.offsets)) if sequence.offsets[i][0] >= end]
    spans = whole.units.spans or ()
    by_token = whole.units.kind[0] == "token"
    if by_token:
        named = [(piece.tokens, piece.start, piece.end) for piece in answer_parts(sequence, "sentence")]
    else:
        named = [((i,), *spans[i]) for i, kind in enumerate(whole.units.kind) if kind == "answer" and spans[i][1]]
    parts, pieces = [], []
    for (units, begin, stop), (first, last) in product(named, whole.reasoning):
        start, stop = max(begin, first + sequence.prompt_characters), min(stop, last + sequence.prompt_characters)
        if tokens := sequence.tokens_in(start, stop, of_answer=True):
            units = tokens if by_token else units
            text = sequence.text[start:stop].strip()
            parts.append(UnitScore(text, units, float(whole.scores[list(units)].sum())))
            pieces.append(NamedSpan(text, start, stop, tokens))
    if not answer or not parts:
        raise InputError("verify='reasoning': the completion holds no sentence of reasoning, or nothing behind it")
    found = Removable(parts, "sentence", "deleted", "the answer", singles=len(parts), all_can_go=True, named=True)
    start = completed.prompt_tokens + answer[0] - prompt.prompt_tokens
    characters = sequence.offsets[answer[0]][0] - sequence.prompt_characters + completed.prompt_characters
    return found, pieces, replace(completed, prompt_tokens=start, prompt_characters=characters)


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


def _together(name: str, pieces: Sequence[NamedSpan]) -> NamedSpan:
    """Return sources as one."""
    tokens = tuple(sorted(token for piece in pieces for token in piece.tokens))
    return NamedSpan(name, 0, 0, tokens, places=tuple(place for piece in pieces for place in piece.places))


def _sources(
    whole: Attribution, completed: Completed, division: SourceSpec | None
) -> tuple[Removable, dict[tuple[int, ...], NamedSpan]]:
    """Return the sources of a prompt by their places among the units, and where in the prompt each of them is."""
    sequence = completed.sequenced()
    of_media = iter(media_sources(completed, division))
    parts: list[UnitScore] = []
    pieces: dict[tuple[int, ...], NamedSpan] = {}
    for i in whole.units.sources:
        name = whole.units.names[i] or whole.units.text[i]
        if whole.units.kind[i] in ("medium", "region"):
            piece = next(of_media)
        else:
            start, end = (whole.units.spans or ())[i]
            piece = NamedSpan(name, start, end, sequence.tokens_in(start, end, of_answer=False))
        if piece.tokens or piece.places:
            parts.append(UnitScore(name, (i,), float(whole.scores[i])))
            pieces[i,] = piece
    return Removable(parts, "source", "deleted"), pieces
