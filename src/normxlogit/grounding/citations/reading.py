"""How the reader of documents takes a sentence: with them, without them, and with one of its words edited.

D is the log-probability of a sentence's tokens with the documents, N without them. Where the documents say something
else, the reader proposes it itself: among its likeliest next tokens inside the sentence are the beginnings of the words
that it would rather have read. Each such word takes a word's place, or stands before it, or changes places with it, and
each word is left out; the gain of an edit is D of the edited sentence less D of the sentence.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt
from transformers import PreTrainedTokenizerBase

from ...errors import InputError
from ...inputs.encoder import private_tokenizer
from ...inputs.encoding import Encoding
from ...model.task_model import TaskModel
from ...pipeline.completions.completed_prompts import Completed
from ...pipeline.completions.leave_out import Ablations
from ...pipeline.completions.sources import sources_and_parts
from ...results.units.spans import NamedSpan
from ...results.units.words import word_groups
from ..verdicts import Clause, Reading, WordEdit, WordReading
from .continuations import Continuation, ContinuedText, Ids, Predictions

Array = npt.NDArray[np.float64]

LIKELIEST = 4
"""How many of the likeliest next tokens at each place are proposed."""

LESS_LIKELY = 1.0
"""Most nats by which a proposed token may be less likely than the sentence's own."""

COMPLETIONS = 2
"""Most words of the prompt that a proposed token is completed to."""

EDITS = 24
"""Most edits of a sentence that are measured; leaving out each word comes first, then the likeliest proposals."""

EDITS_OF_ANSWER = 600
"""Most edits of all sentences of an answer, unless it has very many sentences."""

LEAST_EDITS = 12
"""Edits of each sentence that are measured in any answer."""

KEPT_EDITS = 8
"""How many edits of the largest gain are measured without the documents, too, and kept."""

EDITS_UNCACHED = 8
"""Most edits where each needs a pass over the whole prompt."""

CLAUSE_ENDS = frozenset(",;:—–()，；：、（）")
"""Punctuation that ends a clause."""

CLAUSE_WORDS = 3
"""Least words of a clause; a shorter one belongs to its neighbour."""

STEM = 5
"""Words that begin with the same characters, so many, count as one word in several forms."""


class Sentence(NamedTuple):
    """A sentence that follows a prompt.

    Attributes:
        answer: The token ids of the answer that it is of.
        tokens: Which of them are its own.
        start: Its first character in the prompt with the answer.
        text: Its text, with white space before it.
        offsets: The span of each token in the text.
        entry_end: One past the number of a list's entry that it begins with, which no document says; 0 without one.
    """

    answer: Ids
    tokens: slice
    start: int
    text: str
    offsets: tuple[tuple[int, int], ...]
    entry_end: int

    @property
    def prefix(self) -> Ids:
        """The token ids between the prompt and the sentence."""
        return self.answer[: self.tokens.start]

    @property
    def ids(self) -> Ids:
        """Its own token ids."""
        return self.answer[self.tokens]

    def words(self) -> list[tuple[int, int, list[int]]]:
        """Return its words: first character, one past the last, and which of its tokens."""
        tokens = [(i, *offset) for i, offset in enumerate(self.offsets) if offset[1] > self.entry_end]
        return word_groups(self.text, tokens)


class SentencesAfterPrompt:
    """The sentences of an answer, or of several answers, read after one prompt with its documents and without them.

    Args:
        model: A language model.
        completed: The prompt with an answer.
        sentences: The sentences, of that answer or of others.
    """

    def __init__(self, model: TaskModel, completed: Completed, sentences: Sequence[Sentence]) -> None:
        self.model, self.sentences, self.source_words = model, sentences, source_words(completed)
        without = prompt_without_sources(model, completed)
        self._prompt = ContinuedText(model, completed.encoding.take(range(completed.prompt_tokens)))
        self._prompt_without = None if without is None else ContinuedText(model, without)
        answers = [sentence.answer for sentence in sentences]
        self._answers = self._prompt.predictions(answers, LIKELIEST)
        self.answer_nats = self._answers[0].nats
        """Log-probabilities of the first answer's tokens with the documents, (G,)."""
        self.answer_nats_without = np.full(len(self.answer_nats), np.nan)
        """The same without the documents; NaN if nothing of the prompt is left."""
        self._nats_without = [np.full(len(answer), np.nan) for answer in answers]
        if self._prompt_without is not None:
            self._nats_without = [p.nats for p in self._prompt_without.predictions(answers, 1)]
            self.answer_nats_without = self._nats_without[0]

    @property
    def nats(self) -> list[Array]:
        """Log-probabilities of each sentence's tokens with the documents, (n,) each."""
        return [p.nats[sentence.tokens] for sentence, p in zip(self.sentences, self._answers, strict=True)]

    @property
    def nats_without(self) -> list[Array]:
        """The same without the documents; NaN if nothing of the prompt is left."""
        return [nats[sentence.tokens] for sentence, nats in zip(self.sentences, self._nats_without, strict=True)]

    def gains(self) -> Array:
        """Return what the documents gain each token of the answer, and 0 where they lose or that is unknown, (K, G)."""
        gained = np.nan_to_num(np.maximum(self.answer_nats - self.answer_nats_without, 0))  # (G,)
        weights = np.zeros((len(self.sentences), len(gained)))
        for row, sentence in zip(weights, self.sentences, strict=True):
            row[sentence.tokens] = gained[sentence.tokens]
        return weights

    def readings(self, quoted: Collection[int] = ()) -> tuple[Reading, ...]:
        """Measure the edits of each sentence, and return what the reader makes of it.

        Args:
            quoted: The sentences whose edits are not measured.
        """
        tokenizer, prompt = private_tokenizer(self.model.tokenizer), self._prompt.text
        most = max(LEAST_EDITS, min(EDITS, EDITS_OF_ANSWER // max(1, len(self.sentences))))
        if prompt.source is not None or prompt.media:
            most = EDITS_UNCACHED
        nats, nats_without = self.nats, self.nats_without
        edits: list[tuple[int, WordEdit]] = []
        for k, (sentence, answer) in enumerate(zip(self.sentences, self._answers, strict=True)):
            if k not in quoted:
                predictions = answer.at(sentence.tokens)
                edits += [(k, e) for e in proposed_edits(tokenizer, prompt.text or "", sentence, predictions, most)]
        measured: list[list[WordEdit]] = [[] for _ in self.sentences]
        for (k, edit), gain in zip(edits, _gains(self._prompt, self.sentences, edits, nats), strict=True):
            measured[k].append(edit._replace(gain=gain))
        best = [sorted(of_sentence, key=lambda edit: -edit.gain)[:KEPT_EDITS] for of_sentence in measured]
        if self._prompt_without is not None:
            first = [(k, edit) for k, of_sentence in enumerate(best) for edit in of_sentence]
            known = dict(zip(first, _gains(self._prompt_without, self.sentences, first, nats_without), strict=True))
            best = [[e._replace(gain_without=known[k, e]) for e in of_sentence] for k, of_sentence in enumerate(best)]
        read = zip(self.sentences, nats, nats_without, best, strict=True)
        return tuple(reading_of(*of_sentence, self.source_words) for of_sentence in read)


def reading_of(
    sentence: Sentence,
    nats: Array,
    nats_without: Array,
    edits: Sequence[WordEdit],
    source_words: Sequence[Sequence[str]],
) -> Reading:
    """Return what the reader makes of a sentence; each token is in one of its words.

    Args:
        sentence: The sentence.
        nats: Log-probabilities of its tokens with the documents, (n,).
        nats_without: The same without the documents, (n,).
        edits: Its edits, in characters of its own text.
        source_words: The words of each source.
    """
    words = []
    for start, end, tokens in sentence.words():
        word = sentence.text[start:end]
        sums = float(nats[tokens].sum()), float(nats_without[tokens].sum())
        words.append(WordReading(sentence.start + start, sentence.start + end, word, *sums))
    clauses = tuple(_clause(words, span, source_words) for span in _clause_spans(words))
    in_prompt = [edit._replace(start=edit.start + sentence.start, end=edit.end + sentence.start) for edit in edits]
    return Reading(tuple(words), tuple(in_prompt), clauses)


def _clause_spans(words: Sequence[WordReading]) -> list[tuple[int, int]]:
    """Return which words each clause of a sentence has; punctuation ends one, of `CLAUSE_WORDS` words and more."""
    spans: list[tuple[int, int]] = []
    start, spoken, remaining = 0, 0, sum(_is_spoken(word.text) for word in words)
    for place, word in enumerate(words):
        spoken += _is_spoken(word.text)
        if word.text.strip() in CLAUSE_ENDS and min(spoken, remaining - spoken) >= CLAUSE_WORDS:
            spans.append((start, place + 1))
            start, spoken, remaining = place + 1, 0, remaining - spoken
    return [*spans, (start, len(words))]


def _is_spoken(word: str) -> bool:
    return any(map(str.isalnum, word))


def _clause(words: Sequence[WordReading], span: tuple[int, int], source_words: Sequence[Sequence[str]]) -> Clause:
    """Compare a clause of a sentence with the sources.

    Of sources that have as much of it, the one with more of its values counts. A word counts by how few sources have
    it, log((1 + n) / how many), and is the same as another if both begin alike. A value is a word with digits, or with
    a capital inside the sentence.

    Args:
        words: The words of the sentence.
        span: The places of the clause's first word and of the word behind it.
        source_words: The words of each of n sources.
    """
    spoken = [place for place in range(*span) if _is_spoken(words[place].text)]
    folded = [words[place].text.casefold() for place in spoken]
    all_words = [word for of_source in source_words for word in of_source]
    own = len(folded) - SequenceMatcher(None, folded, all_words, autojunk=False).find_longest_match().size
    first = next((place for place, word in enumerate(words) if _is_spoken(word.text)), 0)  # of the sentence
    values = [
        place
        for place in spoken
        if any(map(str.isdecimal, words[place].text)) or (place > first and words[place].text[:1].isupper())
    ]
    stems = [{word[:STEM] for word in of_source} for of_source in source_words]
    counts = Counter(stem for of_source in stems for stem in of_source)
    weights = {word[:STEM]: math.log((1 + len(stems)) / max(1, counts[word[:STEM]])) for word in folded}
    total = sum(weights.values())
    if not total or not stems:
        return Clause(*span, own, 0.0, tuple(values))
    shares = [round(sum(weights[stem] for stem in stems_there & weights.keys()) / total, 6) for stems_there in stems]
    elsewhere = [
        [place for place in values if words[place].text.casefold()[:STEM] not in stems_there] for stems_there in stems
    ]
    coverage, _, nearest = max((share, -len(elsewhere[i]), -i) for i, share in enumerate(shares))
    return Clause(*span, own, coverage, tuple(elsewhere[-nearest]))


def split_words(text: str) -> list[str]:
    """Return the words of a text, folded to one case."""
    groups = word_groups(text, [(i, i, i + 1) for i in range(len(text))])
    return [text[start:end].casefold() for start, end, _ in groups if any(map(str.isalnum, text[start:end]))]


def source_words(completed: Completed) -> list[list[str]]:
    """Return the words of each of an answer's sources; the fields of one message of JSON are one source."""
    text, texts = completed.sequenced().text, dict[str, list[str]]()
    for name, (start, end) in completed.named_sources.items():
        origin, _, place = name.rpartition(":")
        texts.setdefault(name if place.isdecimal() else origin, []).append(text[start:end])
    return [split_words("\n".join(parts)) for parts in texts.values()]


def _gains(
    prompt: ContinuedText,
    sentences: Sequence[Sentence],
    edits: Sequence[tuple[int, WordEdit]],
    token_nats: Sequence[Array],
) -> list[float]:
    """Return what each edit of a sentence gains after a prompt.

    Args:
        prompt: The prompt.
        sentences: The sentences.
        edits: The edits, each with the index of its sentence.
        token_nats: Log-probabilities of each sentence's tokens after that prompt, (n,) each.
    """
    tokenizer = private_tokenizer(prompt.model.tokenizer)
    own = [Continuation(sentence.prefix, sentence.ids) for sentence in sentences]
    rewritten = [_ids(tokenizer, sentence.text) for sentence in sentences]
    # An answer may be in other tokens than its text alone would be: then the text is the one to compare with.
    bases = [Continuation(sentence.prefix, ids) for sentence, ids in zip(sentences, rewritten, strict=True)]
    edited = [
        Continuation(sentences[k].prefix, _ids(tokenizer, edited_text(sentences[k].text, edit))) for k, edit in edits
    ]
    if not edits:
        return []
    # Only the sentences that have edits; the first one is known, and tells whether the cache is right.
    variants = list(dict.fromkeys([*own[:1], *(bases[k] for k, _ in edits), *edited]))
    values = prompt.log_probabilities(variants, float(token_nats[0].sum()))
    nats = dict(zip(variants, values, strict=True))
    return [nats[variant] - nats[bases[k]] for (k, _), variant in zip(edits, edited, strict=True)]


def _ids(tokenizer: PreTrainedTokenizerBase, text: str) -> tuple[int, ...]:
    return tuple(cast(list[int], tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]))


def edited_text(text: str, edit: WordEdit) -> str:
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
    predictions: Predictions,
    most: int,
) -> list[WordEdit]:
    """Return one-word edits of a sentence: leaving out each word, then what the reader would rather have read.

    Args:
        tokenizer: The model's tokenizer, a private one.
        prompt_text: The prompt, whose words complete proposed tokens that are the beginning of a word.
        sentence: The sentence.
        predictions: What the reader predicts at the places of its n tokens.
        most: Most edits.
    """
    text = sentence.text
    groups = word_groups(text, [(i, *offset) for i, offset in enumerate(sentence.offsets)])
    words = [(start, end, tokens) for start, end, tokens in groups if any(c.isalnum() for c in text[start:end])]
    if not words:
        return []
    spans = [(start, end) for start, end, _ in words]
    left_out = [WordEdit("left out", start, end, "") for start, end in spans] if len(words) > 1 else []
    vocabulary = Counter(match.group() for match in _WORD.finditer(prompt_text))
    proposals: dict[WordEdit, float] = {}
    for index, (start, end, tokens) in enumerate(words):
        own_word = text[start:end]
        for token in tokens:
            likeliest = predictions.likeliest_ids[token].tolist(), predictions.likeliest_nats[token].tolist()
            for proposed, value in zip(*likeliest, strict=True):
                gain = value - float(predictions.nats[token])
                if proposed == sentence.ids[token] or gain < -LESS_LIKELY:
                    continue
                piece = _piece(tokenizer, sentence.ids[max(0, token - 2) : token], proposed)
                stem = "" if token == tokens[0] else text[start : max(start, sentence.offsets[token][0])]
                for word in _words_from(stem, piece, vocabulary, ends=token in (tokens[0], tokens[-1])):
                    if word != own_word:
                        for edit in _with_word(text, spans, index, word, whole=token == tokens[0]):
                            proposals[edit] = max(gain, proposals.get(edit, -np.inf))
    ranked = sorted(proposals, key=lambda edit: -proposals[edit])
    room = max(most - len(left_out), most - most // 2)
    return [*left_out[: most // 2], *ranked[:room]]


def _with_word(
    text: str, spans: Sequence[tuple[int, int]], index: int, word: str, *, whole: bool
) -> Iterator[WordEdit]:
    """Yield the edits that bring a word to a place: in place of what is there, before it, or the two exchanged."""
    start, end = spans[index]
    yield WordEdit("replaced", start, end, word)
    if whole:
        yield WordEdit("inserted", start, start, word + " ")
    for other, (other_start, other_end) in enumerate(spans):
        if other == index or text[other_start:other_end].casefold() != word.casefold():
            continue
        for length in (1, 2):  # words, or pairs of words such as a name with its title
            first, second = sorted((index, other))
            if first + length <= second and second + length <= len(spans):
                a, b = spans[first][0], spans[first + length - 1][1]
                c, d = spans[second][0], spans[second + length - 1][1]
                yield WordEdit("exchanged", a, d, text[c:d] + text[b:c] + text[a:b])


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


def prompt_without_sources(model: TaskModel, completed: Completed) -> Encoding | None:
    """Return the prompt of an answer without its sources; None if nothing of it is left."""
    sources, _ = sources_and_parts(completed, completed.named_sources, None)
    try:
        rest = Ablations(model, completed, sources).without((False,) * len(sources))
    except InputError:  # the prompt has nothing beside its sources
        return None
    return rest.take(range(len(rest) - (len(completed.encoding) - completed.prompt_tokens)))


def sentences_in(completed: Completed, parts: Sequence[NamedSpan]) -> list[Sentence]:
    """Return parts of an answer as sentences that follow its prompt."""
    sequence, encoding, start = completed.sequenced(), completed.encoding, completed.prompt_tokens
    shift = len(sequence.offsets) - len(encoding)  # of the source of an encoder-decoder model
    answer, sentences = tuple(encoding.ids[start:]), []
    ends = _entry_ends(sequence.text, sequence.prompt_characters)
    for part in parts:
        first, last = min(part.tokens), max(part.tokens) + 1
        before = sequence.offsets[first - 1][1] if first else 0
        offsets = sequence.offsets[first:last]
        begin = min(before, offsets[0][0]) if sequence.text[before : offsets[0][0]].isspace() else offsets[0][0]
        sentences.append(
            Sentence(
                answer,
                slice(first - shift - start, last - shift - start),
                begin,
                sequence.text[begin : offsets[-1][1]],
                tuple((a - begin, b - begin) for a, b in offsets),
                ends[part.start] - begin if part.start in ends else 0,
            )
        )
    return sentences


def _entry_ends(text: str, start: int) -> dict[int, int]:
    """Return the end of the number of each entry of a list behind a character, by where it begins: 1, 2, 3, ..."""
    ends, number = dict[int, int](), 0
    for entry in _ENTRY.finditer(text[start:]):
        if int(entry["number"]) in (1, number + 1):
            number, ends[start + entry.start("mark")] = int(entry["number"]), start + entry.end("mark")
    return ends


_ENTRY = re.compile(r"^[^\S\n]*(?P<mark>\(?(?P<number>\d{1,3})[.)])(?=\s)", re.MULTILINE)
_WORD = re.compile(r"\w+(?:[^\w\s]\w+)*")
