"""How the reader of documents takes a sentence: with them, without them, and with one of its words edited.

D is the log-probability of a sentence's tokens with the documents, N without them. Where the documents say something
else, the reader proposes it itself: among its likeliest next tokens inside the sentence are the beginnings of the words
that it would rather have read. Each such word takes a word's place, or stands before it, or changes places with it, and
each word is left out; the gain of an edit is D of the edited sentence less D of the sentence.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from transformers import PreTrainedTokenizerBase

from ...inputs.encoder import append_tokens, private_tokenizer
from ...inputs.encoding import Encoding
from ...methods.perturbation import PerturbedAnswers
from ...model.task_model import TaskModel
from ...results.units.spans import NamedSpan
from ...results.units.words import word_groups
from ..completions.completed_prompts import Completed
from ..completions.sources import sources_and_parts
from .continuations import Continuation, continuation_log_probabilities, token_predictions

Array = npt.NDArray[np.float64]

LIKELIEST = 4
"""How many of the likeliest next tokens at each place are proposed."""

LESS_LIKELY = 1.0
"""Most nats by which a proposed token may be less likely than the sentence's own."""

COMPLETIONS = 2
"""Most words of the prompt that a proposed token is completed to."""

EDITS = 96
"""Most edits of a sentence that are measured; leaving out each word comes first, then the likeliest proposals."""

EDITS_WITHOUT = 12
"""How many edits of the largest gain are measured without the documents, too."""

EDITS_UNCACHED = 8
"""Most edits where each needs a pass over the whole prompt."""

EditKind = Literal["replaced", "inserted", "left out", "exchanged"]


class Sentence(NamedTuple):
    """A sentence that follows a prompt.

    Attributes:
        prefix: The token ids between the prompt and the sentence.
        ids: Its own token ids.
        text: Its text, with white space before it.
        offsets: The span of each token in the text.
    """

    prefix: tuple[int, ...]
    ids: tuple[int, ...]
    text: str
    offsets: tuple[tuple[int, int], ...]


class SentenceEdit(NamedTuple):
    """A sentence with one of its words edited.

    Attributes:
        kind: What was done.
        start: The first character of the sentence that the edit replaces.
        end: One past the last; where words are inserted the same.
        text: What stands there instead.
        gain: The log-probability of the edited sentence less that of the sentence, with the documents, in nats.
        gain_without: The same without the documents; NaN if not measured.
    """

    kind: EditKind
    start: int
    end: int
    text: str
    gain: float = np.nan
    gain_without: float = np.nan


class Reading(NamedTuple):
    """What the reader makes of a sentence.

    Attributes:
        nats: Log-probability of each token with the documents, (n,).
        nats_without: The same without the documents, (n,); NaN if nothing of the prompt is left.
        likeliest: Log-probability of the likeliest token in the place of each with the documents, (n,).
        edits: The edits, the largest gain first.
    """

    nats: Array
    nats_without: Array
    likeliest: Array
    edits: list[SentenceEdit]


def read_sentences(
    model: TaskModel, prompt: Encoding, prompt_without: Encoding | None, sentences: Sequence[Sentence]
) -> list[Reading]:
    """Measure the sentences of an answer, or of several answers, to one prompt.

    Args:
        model: A language model.
        prompt: All before the answer; of an encoder-decoder model what its decoder reads, with the source.
        prompt_without: The same without the documents; None if nothing is left.
        sentences: The sentences.
    """
    tokenizer = private_tokenizer(model.tokenizer)
    predicted = _predictions(model, prompt, sentences)
    without = None if prompt_without is None else _predictions(model, prompt_without, sentences)
    edits = [
        proposed_edits(tokenizer, prompt.text or "", sentence, of_sentence.ids, of_sentence.log_probabilities, nats)
        for sentence, (nats, of_sentence) in zip(sentences, predicted, strict=True)
    ]
    if prompt.source is not None or prompt.media:
        edits = [of_sentence[:EDITS_UNCACHED] for of_sentence in edits]
    every = [(k, edit) for k, of_sentence in enumerate(edits) for edit in of_sentence]
    gains = _gains(model, tokenizer, prompt, sentences, every, [float(nats.sum()) for nats, _ in predicted])
    measured: list[list[SentenceEdit]] = [[] for _ in sentences]
    for (k, edit), gain in zip(every, gains, strict=True):
        measured[k].append(edit._replace(gain=gain))
    measured = [sorted(of_sentence, key=lambda edit: -edit.gain) for of_sentence in measured]
    if prompt_without is not None and without is not None:
        first = [(k, edit) for k, of_sentence in enumerate(measured) for edit in of_sentence[:EDITS_WITHOUT]]
        sums = [float(nats.sum()) for nats, _ in without]
        gains = _gains(model, tokenizer, prompt_without, sentences, first, sums)
        known = dict(zip(first, gains, strict=True))
        measured = [
            [edit._replace(gain_without=known.get((k, edit), np.nan)) for edit in of_sentence]
            for k, of_sentence in enumerate(measured)
        ]
    return [
        Reading(
            nats,
            np.full(len(nats), np.nan) if without is None else without[k][0],
            top.log_probabilities[:, 0],
            of_sentence,
        )
        for k, ((nats, top), of_sentence) in enumerate(zip(predicted, measured, strict=True))
    ]


class _Likeliest(NamedTuple):
    ids: npt.NDArray[np.int64]  # (n, k)
    log_probabilities: Array  # (n, k)


def _predictions(
    model: TaskModel, prompt: Encoding, sentences: Sequence[Sentence]
) -> list[tuple[Array, _Likeliest]]:
    """Return the log-probabilities of each sentence's tokens, and the likeliest tokens at their places.

    Sentences of one answer are read in one pass: each is the beginning of what the last one of them ends.
    """
    rows = [(*sentence.prefix, *sentence.ids) for sentence in sentences]
    whole = [max((row for row in rows if row[: len(part)] == part), key=len) for part in rows]

    def read(encodings: list[Encoding], keys: list[tuple[int, ...]]) -> Iterable[tuple[Array, _Likeliest]]:
        for nats, ids, values in token_predictions(model, encodings, [len(key) for key in keys], LIKELIEST):
            yield nats, _Likeliest(ids, values)

    answers = PerturbedAnswers(model, lambda ids: append_tokens(model.tokenizer, prompt, list(ids)), read)
    results = []
    for sentence, (nats, likeliest) in zip(sentences, answers(whole), strict=True):
        place = slice(len(sentence.prefix), len(sentence.prefix) + len(sentence.ids))
        results.append((nats[place], _Likeliest(*(values[place] for values in likeliest))))
    return results


def _gains(
    model: TaskModel,
    tokenizer: PreTrainedTokenizerBase,
    prompt: Encoding,
    sentences: Sequence[Sentence],
    edits: Sequence[tuple[int, SentenceEdit]],
    sums: Sequence[float],
) -> list[float]:
    """Return what each edit of a sentence gains after a prompt.

    Args:
        model: A language model.
        tokenizer: Its tokenizer, a private one.
        prompt: The prompt.
        sentences: The sentences.
        edits: The edits, each with the index of its sentence.
        sums: The log-probability of each sentence.
    """
    own = [Continuation(sentence.prefix, sentence.ids) for sentence in sentences]
    rewritten = [_ids(tokenizer, sentence.text) for sentence in sentences]
    # An answer may be in other tokens than its text alone would be: then the text is the one to compare with.
    bases = [Continuation(sentence.prefix, ids) for sentence, ids in zip(sentences, rewritten, strict=True)]
    edited = [
        Continuation(sentences[k].prefix, _ids(tokenizer, edited_text(sentences[k].text, edit))) for k, edit in edits
    ]
    if not edits:
        return []
    variants = list(dict.fromkeys([*own[:1], *bases, *edited]))
    values = continuation_log_probabilities(model, prompt, variants, sums[0])
    nats = dict(zip(variants, values, strict=True))
    return [nats[variant] - nats[bases[k]] for (k, _), variant in zip(edits, edited, strict=True)]


def _ids(tokenizer: PreTrainedTokenizerBase, text: str) -> tuple[int, ...]:
    return tuple(cast(list[int], tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]))


def edited_text(text: str, edit: SentenceEdit) -> str:
    """Return a sentence after an edit, without a space too many."""
    before, after = text[: edit.start], text[edit.end :]
    if not edit.text and after[:1].isspace():
        after = after.lstrip() if not before or before[-1].isspace() else after
    elif not edit.text:
        before = before.rstrip()
    if not before.strip() and edit.kind == "left out":  # the next word begins the sentence
        after = after[:1].upper() + after[1:]
    return before + edit.text + after


def proposed_edits(
    tokenizer: PreTrainedTokenizerBase,
    prompt_text: str,
    sentence: Sentence,
    likeliest_ids: npt.NDArray[np.int64],
    likeliest_nats: Array,
    nats: Array,
) -> list[SentenceEdit]:
    """Return one-word edits of a sentence: leaving out each word, then what the reader would rather have read.

    Args:
        tokenizer: The model's tokenizer, a private one.
        prompt_text: The prompt, whose words complete proposed tokens that are the beginning of a word.
        sentence: The sentence.
        likeliest_ids: The likeliest tokens at each of its places, (n, k).
        likeliest_nats: Their log-probabilities, (n, k).
        nats: Log-probabilities of the sentence's own tokens, (n,).
    """
    text = sentence.text
    groups = word_groups(text, [(i, *offset) for i, offset in enumerate(sentence.offsets)])
    words = [(start, end, tokens) for start, end, tokens in groups if any(c.isalnum() for c in text[start:end])]
    if not words:
        return []
    spans = [(start, end) for start, end, _ in words]
    left_out = [SentenceEdit("left out", start, end, "") for start, end in spans] if len(words) > 1 else []
    left_out += [SentenceEdit("left out", a, b, "") for (a, _), (_, b) in zip(spans, spans[1:], strict=False)][1:]
    vocabulary = Counter(match.group() for match in _WORD.finditer(prompt_text))
    proposals: dict[SentenceEdit, float] = {}
    for index, (start, end, tokens) in enumerate(words):
        own_word = text[start:end]
        for token in tokens:
            for proposed, value in zip(likeliest_ids[token].tolist(), likeliest_nats[token].tolist(), strict=True):
                gain = value - float(nats[token])
                if proposed == sentence.ids[token] or gain < -LESS_LIKELY:
                    continue
                piece = _piece(tokenizer, sentence.ids[max(0, token - 2) : token], proposed)
                stem = "" if token == tokens[0] else text[start : max(start, sentence.offsets[token][0])]
                for word in _words_from(stem, piece, vocabulary, ends=token in (tokens[0], tokens[-1])):
                    if word != own_word:
                        for edit in _with_word(text, spans, index, word, whole=token == tokens[0]):
                            proposals[edit] = max(gain, proposals.get(edit, -np.inf))
    ranked = sorted(proposals, key=lambda edit: -proposals[edit])
    room = max(EDITS - len(left_out), EDITS // 2)
    return [*left_out[: EDITS // 2], *ranked[:room]]


def _with_word(
    text: str, spans: Sequence[tuple[int, int]], index: int, word: str, *, whole: bool
) -> Iterator[SentenceEdit]:
    """Yield the edits that bring a word to a place: in place of what is there, before it, or the two exchanged."""
    start, end = spans[index]
    yield SentenceEdit("replaced", start, end, word)
    if whole:
        yield SentenceEdit("inserted", start, start, word + " ")
    for other, (other_start, other_end) in enumerate(spans):
        if other == index or text[other_start:other_end].casefold() != word.casefold():
            continue
        for length in (1, 2):  # words, or pairs of words such as a name with its title
            first, second = sorted((index, other))
            if first + length <= second and second + length <= len(spans):
                a, b = spans[first][0], spans[first + length - 1][1]
                c, d = spans[second][0], spans[second + length - 1][1]
                yield SentenceEdit("exchanged", a, d, text[c:d] + text[b:c] + text[a:b])


def _words_from(stem: str, piece: str, vocabulary: Counter[str], *, ends: bool) -> Iterator[str]:
    """Yield the words that a proposed token begins or ends: as it is, and as words of the prompt complete it.

    Args:
        stem: What of the word stands before the token.
        piece: The token's text; with white space before it where it begins a word.
        vocabulary: The words of the prompt with their counts.
        ends: Whether the word may end with the token.
    """
    if stem and not piece[:1].isalnum():  # the word ends before the token
        yield stem
        return
    beginning = stem + piece.strip()
    if not any(c.isalnum() for c in beginning):
        return
    if ends:
        yield beginning
    longer = [word for word in vocabulary if word.startswith(beginning) and word != beginning]
    yield from sorted(longer, key=lambda word: -vocabulary[word])[:COMPLETIONS]
    if not ends and beginning in vocabulary:
        yield beginning


def _piece(tokenizer: PreTrainedTokenizerBase, before: Sequence[int], token: int) -> str:
    """Return the text of a token after others, with the white space before it."""
    earlier = str(tokenizer.decode(list(before)))
    return str(tokenizer.decode([*before, token]))[len(earlier) :]


def sentences_in(completed: Completed, parts: Sequence[NamedSpan]) -> tuple[Encoding, Encoding | None, list[Sentence]]:
    """Return the prompt of an answer, the same without its sources, and sentences of the answer.

    Args:
        completed: The prompt and the answer.
        parts: The sentences, as parts of the answer.
    """
    sequence, encoding, start = completed.sequenced(), completed.encoding, completed.prompt_tokens
    shift = len(sequence.offsets) - len(encoding)  # of the source of an encoder-decoder model
    sentences = []
    for part in parts:
        first, last = min(part.tokens), max(part.tokens) + 1
        before = sequence.offsets[first - 1][1] if first else 0
        offsets = sequence.offsets[first:last]
        begin = min(before, offsets[0][0]) if sequence.text[before : offsets[0][0]].isspace() else offsets[0][0]
        sentences.append(
            Sentence(
                tuple(encoding.ids[start : first - shift]),
                tuple(encoding.ids[first - shift : last - shift]),
                sequence.text[begin : offsets[-1][1]],
                tuple((a - begin, b - begin) for a, b in offsets),
            )
        )
    of_sources = {token for source in _sources(completed) for token in source.tokens}
    rest = completed.without(of_sources)
    kept = len(rest) - (len(encoding) - start)
    is_empty = not (kept if rest.source is None else len(rest.source))
    return encoding.take(range(start)), None if is_empty else rest.take(range(kept)), sentences


def _sources(completed: Completed) -> list[NamedSpan]:
    return sources_and_parts(completed, completed.named_sources, None)[0]


_WORD = re.compile(r"\w+(?:[^\w\s]\w+)*")
