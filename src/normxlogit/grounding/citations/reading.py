"""How the reader of documents takes a sentence: with them, without them, and with one of its words edited.

D is the log-probability of a sentence's tokens with the documents, N without them. Where the documents say something
else, the reader proposes it itself: among its likeliest next tokens inside the sentence are the beginnings of the words
that it would rather have read. Each such word takes a word's place, or stands before it, or changes places with it, and
each word is left out; the gain of an edit is D of the edited sentence less D of the sentence.
"""

import copy
import inspect
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from difflib import SequenceMatcher
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import DynamicCache, PreTrainedTokenizerBase

from ...copies.memory import enough_memory, reraise_out_of_memory
from ...errors import InputError
from ...inputs.decoded_tokens import append_tokens
from ...inputs.encoder import private_tokenizer
from ...inputs.encoding import Encoding
from ...leave_out.outcomes import Outcomes, in_batches
from ...model.task_model import TaskModel
from ...parts.headpiece import TOKENS_AT_ONCE
from ...pipeline.completions.completed_prompts import Completed
from ...pipeline.completions.leave_out import Ablations, Array
from ...pipeline.completions.sources import sources_and_parts
from ...results.units.spans import PartSpec, answer_parts
from ...results.units.units import word_groups
from ..verdicts import Clause, Reading, WordEdit, WordReading

TOLERANCE = 0.05
"""Most nats by which a log-probability computed with a cache may differ."""

ROWS_ON_CPU = 16
"""Most continuations in a batch on a CPU: sorted ones share their beginnings, which are read once."""

Ids = tuple[int, ...]


class Continuation(NamedTuple):
    """Token ids that follow a text: first those that are only context, then those whose probability is measured."""

    prefix: Ids
    ids: Ids


class Predictions(NamedTuple):
    """What a model predicts at the places of n tokens."""

    nats: Array  # log-probabilities of the tokens, (n,)
    likeliest_ids: npt.NDArray[np.int64]  # the likeliest tokens there, (n, k)
    likeliest_nats: Array  # their log-probabilities, (n, k)


class ContinuedText:
    """A text (what the decoder reads, if there is an encoder), and what a language model makes of its continuations."""

    def __init__(self, model: TaskModel, text: Encoding) -> None:
        self.model, self.text = model, text
        parameters = inspect.signature(type(model.unmodified).forward).parameters
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"  # before transformers 5.24
        self._last_logits_only = {"logits_to_keep": 1} if "logits_to_keep" in parameters else {}
        self._caches = text.source is None and not text.media and len(text) > 1
        self._cache: Any = None
        """The keys and values of all tokens of the text but the last one."""

    def predictions(self, continuations: Sequence[Ids], likeliest: int) -> list[Predictions]:
        """Return what the model predicts at the places of the continuations' tokens, with some of the likeliest there.

        They come from whole passes. Of a single continuation the pass also gives the cache of the text.
        """

        def continued(ids: Ids) -> Encoding:
            return append_tokens(self.model.tokenizer, self.text, list(ids))

        read = partial(self._predictions, likeliest=likeliest)
        return Outcomes(in_batches(self.model, continued, read))(continuations)

    @torch.inference_mode()
    def _predictions(self, encodings: list[Encoding], ids: list[Ids], likeliest: int) -> Iterator[Predictions]:
        counts = [*map(len, ids)]
        batch = self.model.batch(encodings, list(range(len(encodings))))
        self.model.prepare(batch)
        hidden = self._states_and_cache(batch.inputs, counts[0]) if len(encodings) == 1 and self._caches else None
        hidden = self.model.states(batch) if hidden is None else hidden  # (B, T, H)
        for row, (mask, count) in enumerate(zip(batch.mask, counts, strict=True)):
            states = hidden[row][mask][-count - 1 : -1]  # (G, H)
            own_ids = batch.inputs["input_ids"][row][mask][-count:]  # (G,)
            parts = []
            for block, tokens in zip(states.split(TOKENS_AT_ONCE), own_ids.split(TOKENS_AT_ONCE), strict=True):
                nats = self.model.head.tokens(block).float().log_softmax(-1)  # (G', V)
                top = nats.topk(min(likeliest, nats.shape[-1]))
                of_tokens = nats.gather(1, tokens[:, None].to(nats.device))[:, 0]  # (G',)
                parts.append((of_tokens.double(), top.indices, top.values.double()))
            yield Predictions(*(torch.cat(values).cpu().numpy() for values in zip(*parts, strict=True)))

    def _states_and_cache(self, inputs: Any, count: int) -> Tensor | None:
        """Return the states of the text with `count` tokens after it, (1, T), and keep its cache, if there is one."""
        try:
            cache: Any = DynamicCache(config=self.model.unmodified.config)
            cached: dict[str, Any] = {**inputs, self._cache_name: cache, "use_cache": True}
            hidden = self.model.run_trunk(cached)  # (1, T, H)
            cache.crop(-count - 1)
            self._cache = cache if cache.get_seq_length() == len(self.text) - 1 else None
        except Exception as error:  # whatever a model with another cache raises
            reraise_out_of_memory(error)
            return None
        return hidden

    def log_probabilities(self, continuations: Sequence[Continuation], first_value: float) -> list[float]:
        """Return the log-probability of each of several distinct continuations, in nats.

        The text is read once, and its keys and values are cached. Where the first continuation gets another value than
        `first_value`, which was computed without the cache, or the model has none, all are computed without it.
        """
        cached = self._with_cache(continuations) if len(continuations) > 2 and self._caches else None
        if cached is not None and abs(cached[0] - first_value) <= TOLERANCE:
            return cached
        predicted = self.predictions([prefix + ids for prefix, ids in continuations], likeliest=0)
        return [float(p.nats[len(c.prefix) :].sum()) for c, p in zip(continuations, predicted, strict=True)]

    @torch.inference_mode()
    def _with_cache(self, continuations: Sequence[Continuation]) -> list[float] | None:
        """Return the log-probabilities, computed with the text's cache; None if the model has none."""
        module, context = self.model.unmodified, torch.tensor([self.text.ids[:-1]], device=self.model.device)
        ordered = sorted(continuations, key=lambda continuation: continuation.prefix + continuation.ids)
        longest = max(len(prefix) + len(ids) for prefix, ids in ordered)
        rows = max(1, self.model.batch_tokens // (len(self.text) + longest))
        rows = min(rows, ROWS_ON_CPU) if self.model.device.type == "cpu" else rows
        nats: dict[Continuation, float] = {}
        try:
            if self._cache is None:
                self._cache = module(input_ids=context, use_cache=True, **self._last_logits_only)[self._cache_name]
            for start in range(0, len(ordered), rows):
                chunk = ordered[start : start + rows]
                nats |= zip(chunk, self._continue_from_cache(chunk), strict=True)
        except Exception as error:  # whatever a model without a cache raises
            reraise_out_of_memory(error)
            return None
        return [nats[continuation] for continuation in continuations]

    def _continue_from_cache(self, continuations: Sequence[Continuation]) -> list[float]:
        """Return the log-probabilities of B continuations from the cache; what all begin with is read once."""
        module: Any = self.model.unmodified
        device, cache, cached = self.model.device, copy.deepcopy(self._cache), len(self.text) - 1
        sequences = [[self.text.ids[-1], *prefix, *ids] for prefix, ids in continuations]
        lengths = torch.tensor([*map(len, sequences)], device=device)  # (B,)
        tensors = [torch.tensor(sequence, device=device) for sequence in sequences]
        ids = pad_sequence(tensors, batch_first=True, padding_value=self.model.pad_id)  # (B, n)
        is_same = (ids == ids[0]).all(0)[: lengths.min() - 1]
        common = int(is_same.cumprod(0).sum())  # c
        returned = module(input_ids=ids[:1, :common], use_cache=True, **{self._cache_name: cache})
        first = returned.logits.float().log_softmax(-1)  # (1, c, V)
        nats = first.expand(len(ids), -1, -1).gather(2, ids[:, 1 : common + 1, None])  # (B, c, 1)
        if common + 1 < ids.shape[1]:
            cache = returned[self._cache_name]
            cache.batch_repeat_interleave(len(ids))
            places = torch.arange(cached + ids.shape[1] - 1, device=device)  # the last token predicts none
            attended = (places < cached + lengths[:, None]).long()  # (B, T + n - 2)
            logits = module(
                input_ids=ids[:, common:-1], attention_mask=attended, use_cache=True, **{self._cache_name: cache}
            ).logits  # (B, n - c - 1, V)
            after = logits.float().log_softmax(-1).gather(2, ids[:, common + 1 :, None])  # (B, n - c - 1, 1)
            nats = torch.cat([nats, after], 1)  # (B, n - 1, 1)
        spans = [slice(len(prefix), len(prefix) + len(ids)) for prefix, ids in continuations]
        return [float(values[span].double().sum()) for values, span in zip(nats[..., 0], spans, strict=True)]


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
    """A sentence that follows a prompt."""

    answer: Ids  # the token ids of the answer that it is of
    tokens: slice  # which of them are its own
    start: int  # its first character in the prompt with the answer
    text: str  # with white space before it
    offsets: tuple[tuple[int, int], ...]  # the span of each token in the text
    entry_end: int = 0  # one past the number of a list's entry that it begins with, which no document says

    def words(self) -> list[tuple[int, int, list[int]]]:
        """Return its words: first character, one past the last, and which of its tokens."""
        tokens = [(i, *offset) for i, offset in enumerate(self.offsets) if offset[1] > self.entry_end]
        return word_groups(self.text, tokens)


class SentencesAfterPrompt:
    """The sentences of an answer, or whole answers (parts None), read after one prompt with documents and without."""

    def __init__(self, model: TaskModel, answers: Sequence[Completed], parts: PartSpec) -> None:
        completed, sentences = answers[0], [sentence for answer in answers for sentence in sentences_in(answer, parts)]
        self.model, self.sentences, self.source_words = model, sentences, source_words(completed)
        without, ids = prompt_without_sources(model, completed), [sentence.answer for sentence in sentences]
        self._prompt = ContinuedText(model, completed.encoding.take(range(completed.prompt_tokens)))
        self._prompt_without = None if without is None else ContinuedText(model, without)
        self._predictions = self._prompt.predictions(ids, LIKELIEST)
        nats = [p.nats for p in self._predictions]  # (G,) each
        nats_without = [np.full(len(of_answer), np.nan) for of_answer in ids]
        if self._prompt_without is not None:
            nats_without = [p.nats for p in self._prompt_without.predictions(ids, 1)]
        self.answer_nats, self.answer_nats_without = nats[0], nats_without[0]
        self._nats = [nats[s.tokens] for s, nats in zip(sentences, nats, strict=True)]  # (n,) each
        self._nats_without = [nats[s.tokens] for s, nats in zip(sentences, nats_without, strict=True)]

    def gains(self) -> Array:
        """Return what the documents gain each token of the answer, and 0 where they lose or that is unknown, (K, G)."""
        gained = np.nan_to_num(np.maximum(self.answer_nats - self.answer_nats_without, 0))  # (G,)
        weights = np.zeros((len(self.sentences), len(gained)))
        for row, sentence in zip(weights, self.sentences, strict=True):
            row[sentence.tokens] = gained[sentence.tokens]
        return weights

    @enough_memory("measure what the documents rather say")
    def readings(self, quoted: Collection[int] = ()) -> tuple[Reading, ...]:
        """Return what the reader makes of each sentence, without edits of those that are quoted."""
        return tuple(self._reading(k, () if k in quoted else self._edits(k)) for k in range(len(self.sentences)))

    def _edits(self, k: int) -> list[WordEdit]:
        """Return the edits of a sentence that gain most, with their gains."""
        prompt, sentence = self._prompt.text, self.sentences[k]
        is_cached = prompt.source is None and not prompt.media
        most = max(LEAST_EDITS, min(EDITS, EDITS_OF_ANSWER // len(self.sentences))) if is_cached else EDITS_UNCACHED
        p, tokens = self._predictions[k], sentence.tokens
        predictions = Predictions(p.nats[tokens], p.likeliest_ids[tokens], p.likeliest_nats[tokens])
        edits = proposed_edits(private_tokenizer(self.model.tokenizer), prompt.text or "", sentence, predictions, most)
        gains = _gains(self._prompt, sentence, edits, self._nats[k])
        edits = [edit._replace(gain=gain) for edit, gain in zip(edits, gains, strict=True)]
        edits = sorted(edits, key=lambda edit: -edit.gain)[:KEPT_EDITS]
        if self._prompt_without is None:
            return edits
        gains = _gains(self._prompt_without, sentence, edits, self._nats_without[k])
        return [edit._replace(gain_without=gain) for edit, gain in zip(edits, gains, strict=True)]

    def _reading(self, k: int, edits: Sequence[WordEdit]) -> Reading:
        """Return what the reader makes of a sentence; each token but a list's number is in one of its words."""
        sentence, words = self.sentences[k], []
        for start, end, tokens in sentence.words():
            nats = float(self._nats[k][tokens].sum()), float(self._nats_without[k][tokens].sum())
            words.append(WordReading(sentence.start + start, sentence.start + end, sentence.text[start:end], *nats))
        clauses = tuple(_clause(words, span, self.source_words) for span in _clause_spans(words))
        in_prompt = [edit._replace(start=edit.start + sentence.start, end=edit.end + sentence.start) for edit in edits]
        return Reading(tuple(words), tuple(in_prompt), clauses)


def _gains(prompt: ContinuedText, sentence: Sentence, edits: Sequence[WordEdit], nats: Array) -> list[float]:
    """Return what each edit of a sentence gains after a prompt, where its own tokens have these nats, (n,)."""
    tokenizer, prefix = private_tokenizer(prompt.model.tokenizer), sentence.answer[: sentence.tokens.start]
    texts = [sentence.text, *(edited_text(sentence.text, edit) for edit in edits)]
    ids = [tuple(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]) for text in texts]
    # The sentence as it is in the answer, whose value is known, tells whether the cache is right. It may be in other
    # tokens than its text alone would be, which is the one to compare with.
    known, unedited, *edited = (Continuation(prefix, each) for each in (sentence.answer[sentence.tokens], *ids))
    variants = list(dict.fromkeys([known, unedited, *edited]))
    values = dict(zip(variants, prompt.log_probabilities(variants, float(nats.sum())), strict=True)) if edits else {}
    return [values[continuation] - values[unedited] for continuation in edited]


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

    Of n sources that have as much of it, the one with more of its values counts. A word counts by how few sources have
    it, log((1 + n) / how many), and is the same as another if both begin alike. A value is a word with digits, or with
    a capital inside the sentence.
    """
    spoken = [(place, words[place].text) for place in range(*span) if _is_spoken(words[place].text)]
    folded = [text.casefold() for _, text in spoken]
    all_words = [word for of_source in source_words for word in of_source]
    own = len(folded) - SequenceMatcher(None, folded, all_words, autojunk=False).find_longest_match().size
    first = next((place for place, word in enumerate(words) if _is_spoken(word.text)), 0)  # of the sentence
    values = [
        place for place, text in spoken if any(map(str.isdecimal, text)) or (place > first and text[:1].isupper())
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
    words = (text[start:end] for start, end, _ in word_groups(text, [(i, i, i + 1) for i in range(len(text))]))
    return [word.casefold() for word in words if _is_spoken(word)]


def source_words(completed: Completed) -> list[list[str]]:
    """Return the words of each of an answer's sources; the fields of one message of JSON are one source."""
    text, texts = completed.sequenced().text, dict[str, list[str]]()
    for name, (start, end) in completed.named_sources.items():
        origin, _, place = name.rpartition(":")
        texts.setdefault(name if place.isdecimal() else origin, []).append(text[start:end])
    return [split_words("\n".join(parts)) for parts in texts.values()]


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
    tokenizer: PreTrainedTokenizerBase, prompt_text: str, sentence: Sentence, predictions: Predictions, most: int
) -> list[WordEdit]:
    """Return one-word edits of a sentence: leaving out each word, then what the reader would rather have read.

    Words of the prompt complete proposed tokens that are the beginning of a word.
    """
    text, ids = sentence.text, sentence.answer[sentence.tokens]
    words = [(start, end, tokens) for start, end, tokens in sentence.words() if _is_spoken(text[start:end])]
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
                if proposed == ids[token] or gain < -LESS_LIKELY:
                    continue
                before = list(ids[max(0, token - 2) : token])
                piece = str(tokenizer.decode([*before, proposed]))[len(str(tokenizer.decode(before))) :]
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
    for place, (place_start, place_end) in enumerate(spans):
        if place == index or text[place_start:place_end].casefold() != word.casefold():
            continue
        for length in (1, 2):  # words, or pairs of words such as a name with its title
            first, second = sorted((index, place))
            if first + length <= second and second + length <= len(spans):
                a, b = spans[first][0], spans[first + length - 1][1]
                c, d = spans[second][0], spans[second + length - 1][1]
                yield WordEdit("exchanged", a, d, text[c:d] + text[b:c] + text[a:b])


def _words_from(stem: str, piece: str, vocabulary: Counter[str], *, ends: bool) -> Iterator[str]:
    """Yield the words that a proposed token begins or ends: as it is, and as words of the prompt complete it.

    The stem is what of the word stands before the token; a piece has white space before it where it begins a word.
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


def prompt_without_sources(model: TaskModel, completed: Completed) -> Encoding | None:
    """Return the prompt of an answer without its sources; None if nothing of it is left."""
    sources, _ = sources_and_parts(completed, completed.named_sources, None)
    try:
        rest = Ablations(model, completed, sources).without((False,) * len(sources))
    except InputError:  # the prompt has nothing beside its sources
        return None
    return rest.take(range(len(rest) - (len(completed.encoding) - completed.prompt_tokens)))


def sentences_in(completed: Completed, parts: PartSpec) -> list[Sentence]:
    """Return the parts of an answer as sentences that follow its prompt."""
    sequence, encoding, start = completed.sequenced(), completed.encoding, completed.prompt_tokens
    shift = len(sequence.offsets) - len(encoding)  # of the source of an encoder-decoder model
    answer, sentences = tuple(encoding.ids[start:]), []
    entry_ends = _entry_ends(sequence.text, sequence.prompt_characters)
    for part in answer_parts(sequence, parts):
        first, last = min(part.tokens), max(part.tokens) + 1
        before, offsets = sequence.offsets[first - 1][1] if first else 0, sequence.offsets[first:last]
        begin = before if sequence.text[before : offsets[0][0]].isspace() else offsets[0][0]
        text, tokens = sequence.text[begin : offsets[-1][1]], slice(first - shift - start, last - shift - start)
        spans, entry_end = tuple((a - begin, b - begin) for a, b in offsets), entry_ends.get(part.start, begin) - begin
        sentences.append(Sentence(answer, tokens, begin, text, spans, entry_end))
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
