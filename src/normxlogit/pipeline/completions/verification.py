"""Verify explained completions: how likely they are without words, sources or parts of media of the prompt."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ...leave_out.picking import Verify, picked
from ...leave_out.removable import Removable, removable
from ...leave_out.removal import Tokens
from ...leave_out.search import run_searches
from ...model.task_model import TaskModel
from ...results.attribution import Attribution
from ...results.units.spans import NamedSpan, Sequenced, SourceSpec, answer_parts
from ...results.units.units import Units, UnitScore
from ...text.characters import Span
from ..progress import VERIFYING
from .completed import Completed
from .leave_out import Ablations, answers_without
from .sources import media_sources


class RemovableSpans(NamedTuple):
    """What can be removed of a prompt, or of a reasoning, and where it is."""

    removable: Removable
    spans: Mapping[Tokens, NamedSpan]  # where each part of it is, by the indices of the result's units in it


def with_completion_verification(
    model: TaskModel, completed: Completed, result: Attribution, verify: Verify, division: SourceSpec | None = None
) -> Attribution:
    """Return a result with the log-probability of its completion without parts or sources of its prompt.

    Args:
        model: A language model.
        completed: The prompt with its completion.
        result: The scores.
        verify: What is removed; None for nothing.
        division: How the prompt is divided into sources, where these have scores.
    """
    if verify is None:
        return result
    # Several layers or targets have one order of removal: by the last layer, and by the sum over targets.
    last_layer = result if result.layers is None else result.layer(result.layers[-1])
    whole = last_layer.whole()  # (U,)
    if verify == "reasoning":
        removed, spans = _reasoning_sentences(whole, completed)
        answer = _after_reasoning(whole, completed)
        if answer is None or not spans:
            note = "not verified: no reasoning with an answer behind it was found; reasoning= says where it is"
            return replace(result, notes=(*result.notes, note))
        completed = answer
    elif whole.units.kind[0] == "token":  # and not sources with the parts of the answer
        removed, spans = _removable_words(whole, completed, verify)
    else:
        sources, spans = removable_sources(whole, completed, division)
        removed = picked(whole, sources, verify)
    ablations = Ablations(model, completed, list(spans.values()), VERIFYING)
    (verified,) = run_searches([result], [removed], answers_without(ablations, spans))
    return verified


def _removable_words(whole: Attribution, completed: Completed, verify: Verify) -> RemovableSpans:
    """Return the words and parts of media that are removed of a prompt whose tokens have scores, and where each is."""
    candidates = removable(whole)
    source_has_no_scores = whole.answer_units.start != completed.joined().prompt_tokens
    if source_has_no_scores:  # of an encoder-decoder model: words of the source are then no units, parts of media are
        media_parts = [part for part in candidates.parts if part.tokens[0] >= whole.text_units]
        candidates = candidates._replace(parts=media_parts)
    words = picked(whole, candidates, _in_characters(completed, verify))
    return RemovableSpans(words, {part.tokens: _span_of_unit(whole, part) for part in words.parts})


def _in_characters(completed: Completed, named: Any) -> Any:
    """Return what a caller names to be removed, with spans of messages as spans of the whole prompt.

    Args:
        completed: The prompt with its completion.
        named: The value of `verify=`: words and spans in a list, or by name; anything else names no span.
    """
    is_chat = completed.prompt.contents is not None
    if not is_chat or not isinstance(named, Mapping | list | tuple):
        return named
    if isinstance(named, Mapping):
        return {name: _in_whole_prompt(completed, item) for name, item in named.items()}
    return type(named)(_in_whole_prompt(completed, item) for item in named)  # a `Together` stays one


def _in_whole_prompt(completed: Completed, item: Any) -> Any:
    """Return a span (message, start, end) as one of the whole prompt; a word, or another span, unchanged."""
    if isinstance(item, str) or len(item) != 3:
        return item
    return completed.span_of(str(item), tuple(item))


def _span_of_unit(whole: Attribution, part: UnitScore) -> NamedSpan:
    """Return where in the prompt a word, or a part of a picture or a sound, is: its tokens, or its place there."""
    for index, medium in enumerate(whole.media):
        if medium.units.start <= part.position < medium.units.stop:
            place = medium.place_of(part.tokens)
            # What is removed is found by tokens and places: nobody reads the characters, 0 to 0.
            return NamedSpan(part.text, start=0, end=0, tokens=(), places=((index, place),))
    return NamedSpan(part.text, start=0, end=0, tokens=part.tokens)


def removable_sources(whole: Attribution, completed: Completed, division: SourceSpec | None) -> RemovableSpans:
    """Return the sources of a prompt as removable units, and where each is: at every place of its words.

    Sources with the same words are removed together: the model would still read the words at the other place.

    Args:
        whole: The scores of the sources, (S,).
        completed: The prompt with its completion.
        division: How the prompt is divided into sources.
    """
    units = whole.units
    span_of_unit = _spans_of_sources(units, completed, division)
    # A source without words is joined with no other: its index takes their place.
    words_of_unit = {index: " ".join(units.text[index].split()) or index for index in span_of_unit}
    spans_of_words: dict[str | int, list[NamedSpan]] = defaultdict(list)
    for index, words in words_of_unit.items():
        spans_of_words[words].append(span_of_unit[index])
    # A source is one unit of the result.
    joined_spans = {(index,): _joined(spans_of_words[words]) for index, words in words_of_unit.items()}
    spans: dict[Tokens, NamedSpan] = {unit: span for unit, span in joined_spans.items() if span.tokens or span.places}
    parts = [
        UnitScore(text=units.names[index] or units.text[index], tokens=(index,), score=float(whole.scores[index]))
        for (index,) in spans
    ]
    return RemovableSpans(Removable(parts, unit="source", removed_by="deleted"), spans)


def _spans_of_sources(units: Units, completed: Completed, division: SourceSpec | None) -> dict[int, NamedSpan]:
    """Return where in the prompt each source is, by its index among the units."""
    sequence = completed.sequenced()
    spans_of_media = iter(media_sources(completed, division))  # in the order of their units
    span_of_unit: dict[int, NamedSpan] = {}
    for index in units.sources:
        if units.kind[index] in ("medium", "region"):
            span_of_unit[index] = next(spans_of_media)
        else:
            start, end = (units.spans or ())[index]  # sources have spans: `or ()` is for type checkers
            tokens = sequence.tokens_in(start, end, of_answer=False)
            span_of_unit[index] = NamedSpan(units.text[index], start, end, tokens)
    return span_of_unit


def _joined(sources: list[NamedSpan]) -> NamedSpan:
    """Return the first of some sources with the tokens and the places of all of them."""
    tokens = tuple(sorted(token for source in sources for token in source.tokens))
    return sources[0]._replace(tokens=tokens, places=tuple(place for source in sources for place in source.places))


def _reasoning_sentences(whole: Attribution, completed: Completed) -> RemovableSpans:
    """Return the sentences of a reasoning, or the parts of it that have scores, as removable units.

    Args:
        whole: The scores of the completion's tokens or parts, (U,), and where it reasons.
        completed: The prompt with its completion.
    """
    sequence = completed.sequenced()
    scores_tokens = whole.units.kind[0] == "token"  # otherwise sources and parts of the completion have scores
    parts: list[UnitScore] = []
    spans: dict[Tokens, NamedSpan] = {}
    for part in answer_parts(sequence, "sentence") if scores_tokens else _scored_parts(whole):
        tokens = _reasoning_tokens(sequence, whole.reasoning, part)
        if tokens:
            units = tokens if scores_tokens else part.tokens
            text = sequence.text[sequence.offsets[tokens[0]][0] : sequence.offsets[tokens[-1]][1]].strip()
            parts.append(UnitScore(text, units, float(whole.scores[list(units)].sum())))
            spans[units] = NamedSpan(text, part.start, part.end, tokens)
    sentences = Removable(
        parts,
        unit="sentence",
        removed_by="deleted",
        target="the answer",
        singles=len(parts),
        all_together=True,
        named=True,  # `verify="reasoning"` names them
    )
    return RemovableSpans(sentences, spans)


def _after_reasoning(whole: Attribution, completed: Completed) -> Completed | None:
    """Return a prompt with the reasoning behind it, completed by the answer that follows; None if nothing follows.

    Args:
        whole: The result, which knows where the completion reasons, and the marks around.
        completed: The prompt with the whole completion.
    """
    sequence = completed.sequenced()
    first_token = completed.joined().prompt_tokens  # of the completion
    reasoning_end = sequence.prompt_characters + max((end for _, end in whole.marked_reasoning), default=0)
    for token, (start, _) in enumerate(sequence.offsets[first_token:], first_token):
        if start >= reasoning_end:
            # A source in front, which `joined` counts and `completed` does not, changes no difference.
            reasoning_tokens = token - first_token
            reasoning_characters = start - sequence.prompt_characters
            return replace(
                completed,
                prompt_tokens=completed.prompt_tokens + reasoning_tokens,
                prompt_characters=completed.prompt_characters + reasoning_characters,
            )
    return None


def _scored_parts(whole: Attribution) -> list[NamedSpan]:
    """Return the parts of a completion that have scores, each with its unit, in the text of prompt and completion."""
    units = whole.units
    parts = []
    # The text is known, so that its units have spans: `or ()` is for type checkers.
    for index, (kind, (start, end)) in enumerate(zip(units.kind, units.spans or (), strict=False)):
        if kind == "answer" and end:  # 0 where it is not known which characters it is
            parts.append(NamedSpan(units.text[index], start, end, tokens=(index,)))
    return parts


def _reasoning_tokens(sequence: Sequenced, reasoning: Iterable[Span], part: NamedSpan) -> Tokens:
    """Return the tokens of a part of a completion that are inside its reasoning.

    Args:
        sequence: The prompt with its completion.
        reasoning: The spans of the reasoning, in the completion's characters.
        part: The part.
    """
    shift = sequence.prompt_characters
    tokens: list[int] = []
    for start, end in reasoning:  # where both do not overlap, the start is behind the end: no token is there
        tokens += sequence.tokens_in(max(part.start, shift + start), min(part.end, shift + end), of_answer=True)
    return tuple(tokens)
