"""Completions without words, sources or parts of media of their prompts: the log-probability of what is left."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...errors import InputError
from ...inputs.encoding import Encoding
from ...leave_out.outcomes import Answer, Outcomes, Progress, in_batches, no_progress
from ...leave_out.picking import Verify, picked
from ...leave_out.removable import Removable, removable
from ...leave_out.removal import TextRemoval, Tokens
from ...leave_out.search import run_searches
from ...model.task_model import TaskModel
from ...parts.headpiece import TOKENS_AT_ONCE
from ...results.attribution import Attribution
from ...results.units.media import media_places
from ...results.units.spans import NamedSpan, Sequenced, SourceSpec, answer_parts
from ...results.units.units import UnitScore
from ...tasks.base import Region, generating_task
from ...text.characters import Span
from ..progress import VERIFYING
from .completed import Completed, Parting

Array = npt.NDArray[np.float64]

Answers = Callable[[list[TextRemoval]], list[Answer]]


class Ablations:
    """Measures the log-probability of an answer with some of its S sources removed, each ablation once.

    The tokens of a source that is left out are removed and the text closes up; the answer is read as it stands. Regions
    of pictures get the mean colour of what surrounds them, moments of sounds are silenced, before the processor.

    Args:
        model: A language model.
        completed: The prompt with its completion, the answer of G tokens, and with another answer if there is one.
        sources: The S sources of the prompt.
        progress: Shows how many ablations are measured.
        known: What is known already: the log-probability of each token of the answer, (G,), by which sources are there.
    """

    def __init__(
        self,
        model: TaskModel,
        completed: Completed,
        sources: Sequence[NamedSpan],
        progress: Progress = no_progress,
        *,
        known: Mapping[tuple[bool, ...], Array] | None = None,
    ) -> None:
        self.model, self.completed, self.sources = model, completed, sources
        self._answer_length = len(completed.generated_ids)  # G
        self._other = None if completed.other is None else Ablations(model, completed.other, sources, progress)
        self._answers: Outcomes[tuple[bool, ...], Array] = Outcomes(self.measured, progress, known)

    def __call__(self, present: npt.NDArray[np.bool_]) -> Array:
        """Return the log-probability of each token of the answer, (N, G), by which sources are there, (N, S)."""
        return np.stack(self._answers(map(tuple, present.tolist())))

    def nats(self, present: npt.NDArray[np.bool_]) -> Array:
        """Return the log-probability of the whole answer, less that of the other one if there is one, (N,)."""
        nats: Array = self(present).sum(1)
        return nats if self._other is None else nats - self._other.nats(present)

    def without(self, present: tuple[bool, ...]) -> Encoding:
        """Return prompt and answer without the sources that are not present, one flag for each source."""
        removed = [source for source, is_present in zip(self.sources, present, strict=True) if not is_present]
        remaining = self.completed.without(set(chain.from_iterable(source.tokens for source in removed)))
        if remaining.source is None:
            is_prompt_empty = len(remaining) == self._answer_length
        else:  # an encoder reads the prompt
            is_prompt_empty = len(remaining.source) == 0
        if is_prompt_empty:
            raise InputError("nothing of the prompt is left without its sources; name sources that are a part of it")
        return self._without_places(remaining, [place for source in removed for place in source.places])

    def _without_places(self, remaining: Encoding, removed: list[tuple[int, Region]]) -> Encoding:
        """Return what remains without some places of its media, each with the number of the medium."""
        if not removed:
            return remaining
        places_of_media: list[list[Region]] = [[] for _ in remaining.media]
        for medium_index, place in removed:
            places_of_media[medium_index].append(place)
        return generating_task(self.model).without_places(remaining, self.completed.prompt, places_of_media)

    def measured(self, ablations: list[tuple[bool, ...]]) -> Iterable[tuple[tuple[bool, ...], Array]]:
        """Yield each ablation with the log-probability of each token of the answer, (G,), from whole forward passes.

        Args:
            ablations: Which sources are present in each.
        """
        return in_batches(self.model, self.without, self._read)(ablations)

    def _read(self, encodings: list[Encoding], _: object) -> Iterable[Array]:
        """Run the model on texts, and return the log-probabilities of the answer's tokens in each, (G,)."""
        counts = [self._answer_length] * len(encodings)
        return log_probabilities(self.model, encodings, counts, self.completed.parting)


def log_probabilities(
    model: TaskModel, encodings: list[Encoding], counts: Sequence[int], parting: Parting | None = None
) -> list[Array]:
    """Return the log-probabilities of the last tokens of texts, in nats, from one batch.

    Args:
        model: A language model.
        encodings: The texts.
        counts: How many of the last tokens of each are measured.
        parting: See `answer_log_probabilities`.

    Returns:
        For each text the log-probabilities of its last tokens, (count,).
    """
    batch = model.batch(encodings)
    hidden = model.states(batch)  # (B, T, H)
    values = []
    for row, (mask, count) in enumerate(zip(batch.mask, counts, strict=True)):
        token_ids = batch.inputs["input_ids"][row][mask][-count:]  # (count,)
        predicting_states = hidden[row][mask][-count - 1 : -1]  # (count, H), each at the token before
        values.append(answer_log_probabilities(model, predicting_states, token_ids, parting))
    return values


def answer_log_probabilities(model: TaskModel, states: Tensor, token_ids: Tensor, parting: Parting | None) -> Array:
    """Return the log-probabilities of the tokens of an answer, (G,), in nats.

    Args:
        model: A language model.
        states: The hidden states that predict them, (G, H).
        token_ids: The tokens, (G,).
        parting: The token from whose log-probability that of another answer's token is subtracted; None for none.
    """
    nats = token_log_probabilities(model, states, token_ids)
    if parting is not None:
        other_id = torch.tensor([parting.other_id], device=token_ids.device)
        nats[parting.token] -= token_log_probabilities(model, states[[parting.token]], other_id)[0]
    return nats


def token_log_probabilities(model: TaskModel, states: Tensor, token_ids: Tensor) -> Array:
    """Return the log-probabilities of tokens, (G,), in nats.

    Args:
        model: A language model.
        states: The hidden states that predict them, (G, H).
        token_ids: The tokens, (G,).
    """
    parts = []
    for hidden, tokens in zip(states.split(TOKENS_AT_ONCE), token_ids.split(TOKENS_AT_ONCE), strict=True):
        logits = model.head.tokens(hidden).float()  # (G', V)
        token_logits = logits.gather(1, tokens[:, None].to(logits.device))[:, 0]  # (G',)
        parts.append(token_logits - logits.logsumexp(-1))  # (G',)
    return torch.cat(parts).double().cpu().numpy()


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
    last_layer = result if result.layers is None else result.layer(result.layers[-1])
    whole = last_layer.whole()  # of several targets their sum, (U,)
    if verify == "reasoning":
        units, spans, completed = reasoning_sentences(whole, completed)
        if not units.parts:
            note = "not verified: no reasoning with an answer behind it was found; reasoning= says where it is"
            return replace(result, notes=(*result.notes, note))
    elif whole.units.kind[0] == "token":
        units, spans = _removable_words(whole, completed, verify)
    else:
        sources, spans = removable_sources(whole, completed, division)
        units = picked(whole, sources, verify)
    ablations = Ablations(model, completed, list(spans.values()), VERIFYING)
    (verified,) = run_searches([result], [units], answers_without(ablations, spans))
    return verified


def _removable_words(
    whole: Attribution, completed: Completed, verify: Verify
) -> tuple[Removable, dict[Tokens, NamedSpan]]:
    """Return the words and parts of media that are removed of a prompt whose tokens have scores, and where each is."""
    candidates = removable(whole)
    encoder_has_no_scores = whole.answer_units.start != completed.joined().prompt_tokens
    if encoder_has_no_scores:  # then the words of the prompt, which it reads, are no units; parts of media are
        media_parts = [part for part in candidates.parts if part.tokens[0] >= whole.text_units]
        candidates = candidates._replace(parts=media_parts)
    units = picked(whole, candidates, _in_characters(completed, verify))
    return units, {part.tokens: _span_of_unit(whole, part) for part in units.parts}


def answers_without(ablations: Ablations, units: Iterable[Tokens], weights: Array | None = None) -> Answers:
    """Return a function that measures a completion without units of its prompt.

    Args:
        ablations: Measures the completion without sources.
        units: The units of which each source is made, in the order of the sources.
        weights: Which tokens of the completion belong to each of its parts, (K, G), if parts are measured as well.
    """
    places = [(source.tokens, source.places) for source in ablations.sources]
    place_of = dict(zip(units, places, strict=True))  # units with the same words are at one place, and go together

    def answers(removals: list[TextRemoval]) -> list[Answer]:
        absent_places = [
            {place_of[unit] for unit in place_of if set(unit) <= set(removal.tokens)} for removal in removals
        ]
        present = np.array([[place not in absent for place in places] for absent in absent_places])  # (N, S)
        if weights is None:
            return [Answer(None, nats, None) for nats in ablations.nats(present).tolist()]
        parts = ablations(present) @ weights.T  # (N, K)
        return [Answer(None, float(nats.sum()), None, values=tuple(nats.tolist())) for nats in parts]

    return answers


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
    return type(named)(_in_whole_prompt(completed, item) for item in named)


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
            return NamedSpan(part.text, start=0, end=0, tokens=(), places=((index, place),))
    return NamedSpan(part.text, start=0, end=0, tokens=part.tokens)


def removable_sources(
    whole: Attribution, completed: Completed, division: SourceSpec | None
) -> tuple[Removable, dict[Tokens, NamedSpan]]:
    """Return the sources of a prompt as removable units, and where each is: at every place of its words.

    Sources with the same words are removed together: the model would still read the words at the other place.

    Args:
        whole: The scores of the sources, (S,).
        completed: The prompt with its completion.
        division: How the prompt is divided into sources.

    Returns:
        The sources, and for each of them, by its index among the units, its tokens and its places in media.
    """
    sequence = completed.sequenced()
    units = whole.units
    spans_of_media = iter(media_sources(completed, division))
    spans_of_words: dict[str | int, list[NamedSpan]] = {}
    spans_of_unit: dict[int, list[NamedSpan]] = {}  # units with the same words share one list
    for index in units.sources:
        if units.kind[index] in ("medium", "region"):
            span = next(spans_of_media)
        else:
            start, end = (units.spans or ())[index]
            span = NamedSpan(units.text[index], start, end, sequence.tokens_in(start, end, of_answer=False))
        words = " ".join(units.text[index].split())
        spans_of_unit[index] = spans_of_words.setdefault(words or index, [])  # what has no words is alone
        spans_of_unit[index].append(span)
    joined_spans: dict[Tokens, NamedSpan] = {}
    for index, spans in spans_of_unit.items():
        joined_span = _joined(spans)
        if joined_span.tokens or joined_span.places:
            joined_spans[index,] = joined_span
    parts = [
        UnitScore(text=units.names[index] or units.text[index], tokens=(index,), score=float(whole.scores[index]))
        for (index,) in joined_spans
    ]
    return Removable(parts, "source", "deleted"), joined_spans


def _joined(sources: list[NamedSpan]) -> NamedSpan:
    """Return the first of some sources with the tokens and the places of all of them."""
    tokens = tuple(sorted(token for source in sources for token in source.tokens))
    return sources[0]._replace(tokens=tokens, places=tuple(place for source in sources for place in source.places))


def reasoning_sentences(
    whole: Attribution, completed: Completed
) -> tuple[Removable, dict[Tokens, NamedSpan], Completed]:
    """Return the sentences of a reasoning as removable units, where each is, and what is measured without them.

    Args:
        whole: The scores of the completion's tokens or parts, (U,).
        completed: The prompt with its completion, which knows where it reasons.

    Returns:
        The sentences; for each of them, by its units, its tokens; and the prompt with the reasoning, completed by the
        answer that follows. No sentences if there is no reasoning, or nothing follows it.
    """
    sequence = completed.sequenced()
    parts: list[UnitScore] = []
    pieces: dict[Tokens, NamedSpan] = {}
    for part in _parts_of_completion(whole, sequence):
        tokens = _reasoning_tokens(sequence, whole.reasoning, part)
        if tokens:
            units = tokens if part.unit is None else (part.unit,)
            text = sequence.text[sequence.offsets[tokens[0]][0] : sequence.offsets[tokens[-1]][1]].strip()
            parts.append(UnitScore(text, units, float(whole.scores[list(units)].sum())))
            pieces[units] = NamedSpan(text, part.start, part.end, tokens)
    first_token = completed.joined().prompt_tokens
    answer = _first_token_of_answer(whole, sequence, first_token)
    sentences = Removable(parts, "sentence", "deleted", "the answer", singles=len(parts), all_together=True, named=True)
    if answer is None or not parts:
        return sentences._replace(parts=[]), {}, completed
    start = completed.prompt_tokens + answer - first_token
    characters = sequence.offsets[answer][0] - sequence.prompt_characters + completed.prompt_characters
    return sentences, pieces, replace(completed, prompt_tokens=start, prompt_characters=characters)


def _first_token_of_answer(whole: Attribution, sequence: Sequenced, first_token: int) -> int | None:
    """Return the first token of a completion behind its reasoning and the marks around it; None if nothing follows.

    Args:
        whole: The result, which knows where the completion reasons.
        sequence: The prompt with its completion.
        first_token: The first token of the completion.
    """
    end = sequence.prompt_characters + max((end for _, end in whole.marked_reasoning), default=0)
    for token, (start, _) in enumerate(sequence.offsets[first_token:], first_token):
        if start >= end:
            return token
    return None


class _CompletionPart(NamedTuple):
    """A sentence of a completion, or a part of it that has a score."""

    start: int  # its characters, in the prompt with its completion
    end: int
    unit: int | None = None  # the unit that has its score; None where its tokens have scores


def _parts_of_completion(whole: Attribution, sequence: Sequenced) -> list[_CompletionPart]:
    """Return the sentences of a completion whose tokens have scores, otherwise its parts that have scores."""
    units = whole.units
    if units.kind[0] == "token":
        return [_CompletionPart(sentence.start, sentence.end) for sentence in answer_parts(sequence, "sentence")]
    parts = []
    for index, (kind, (start, end)) in enumerate(zip(units.kind, units.spans or (), strict=False)):
        if kind == "answer" and end:  # 0 where it is not known which characters it is
            parts.append(_CompletionPart(start, end, index))
    return parts


def _reasoning_tokens(sequence: Sequenced, reasoning: Iterable[Span], part: _CompletionPart) -> Tokens:
    """Return the tokens of a part of a completion that are inside its reasoning.

    Args:
        sequence: The prompt with its completion.
        reasoning: The spans of the reasoning, in the completion's characters.
        part: The part.
    """
    shift = sequence.prompt_characters
    tokens: list[int] = []
    for start, end in reasoning:
        tokens += sequence.tokens_in(max(part.start, shift + start), min(part.end, shift + end), of_answer=True)
    return tuple(tokens)


def media_sources(completed: Completed, sources: SourceSpec | None) -> list[NamedSpan]:
    """Return each medium of a prompt as a source, or its regions, among named sources, and the rest of it.

    Args:
        completed: The prompt with its completion.
        sources: The division of the prompt into sources.

    Returns:
        The sources, without tokens: their `places` are boxes in pixels, or spans in seconds.
    """
    media_spans: list[NamedSpan] = []
    for index, name, kind, boxes in media_places(completed.encoding.media, sources):
        medium = completed.encoding.media[index]
        whole_medium = (*(0.0 for _ in medium.extent), *medium.extent)  # from 0 to its size on each axis
        places = tuple((index, tuple(box)) for box in boxes or [whole_medium])
        start, end = completed.encoding.characters_of(medium)
        media_spans.append(NamedSpan(name, start, end, tokens=(), kind=kind, sequence=None, places=places))
    return media_spans
