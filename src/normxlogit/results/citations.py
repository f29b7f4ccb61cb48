"""`Citations`: an answer with the sentences of documents, or of a conversation, that it rests on."""

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

from ..errors import InputError
from .attribution import Attribution
from .base import Record, require
from .storage.schema import FloatArray, plain
from .units.characters import markdown_escaped, one_line
from .units.spans import MessageSpan
from .units.units import APART
from .verification import Swap, Verification

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEAST = 0.2
"""A further source is cited from this part of the strongest one's share or loss on."""

MOST = 3
"""Most sources that a sentence cites."""

LEAST_SHARE = 0.18
"""Least share of the documents in a sentence that rests on them; chosen on training data, see docs/grounding.md."""

LEAST_LOSS = 1.0
"""A sentence rests on documents, or cites a source, if it loses this many nats without them; where measured."""


Judgement = Literal["rests", "contradicts", "does not rest"]
"""How a sentence of an answer relates to its sources."""


Origin = Literal["documents", "conversation"]
"""Where the sources of an answer come from."""


class Source(NamedTuple):
    """A source of an answer.

    Attributes:
        number: Its number in the answer, counted from 1; None if the answer does not cite it.
        source: Its place among the sources.
        document: The name of the document or message that it is of.
        name: What it is called: its document and which sentence of it.
        text: Its text.
        share: Its share of all that the sources have in favour of the whole answer, or of the sentence asked for.
        nats: The drop of the answer's log-probability without it; None if not measured.
    """

    number: int | None
    source: int
    document: str
    name: str
    text: str
    share: float
    nats: float | None


class Support(NamedTuple):
    """The support of a sentence of the answer.

    The sum documents + prompt + answer + sink + bias is the explained quantity.

    It says what this model used, not what is true: a sentence can rest on a document that is wrong. Of a conversation
    the documents are what was said before the answer, without the question.

    Attributes:
        text: The sentence.
        documents: Contribution of the documents.
        prompt: Contribution of the rest of the prompt: question and template, and instructions where they are no
            message of a conversation.
        answer: Contribution of the answer's own earlier tokens.
        sink: Contribution of attention sinks.
        bias: Contribution of no token.
        share: documents / (|documents| + |prompt| + |answer|).
        citations: Numbers of the cited sources; none if the sentence does not rest on the documents.
        rests: Whether the share reaches the threshold, and the sentence loses something without the documents, where
            that was measured.
        loss: The drop of its log-probability without all documents, in nats; None if not measured.
        contradiction: The value of it in whose place the model would rather have read another one of the documents;
            None if there is none, or that was not tested.
        messages: The messages that its citations are of, one for each; empty if they are of documents.
        origin: "documents" or "conversation", for the verdict.
        sources: The places of the cited sources among all.
    """

    text: str
    documents: float
    prompt: float
    answer: float
    sink: float
    bias: float
    share: float
    citations: tuple[int, ...]
    rests: bool
    loss: float | None = None
    contradiction: Swap | None = None
    messages: tuple[str, ...] = ()
    origin: Origin = "documents"
    sources: tuple[int, ...] = ()

    @property
    def judgement(self) -> Judgement:
        """The verdict as one word; a contradiction counts first, also if the sentence rests on the sources."""
        if self.contradiction is not None:
            return "contradicts"
        return "rests" if self.rests else "does not rest"

    @property
    def verdict(self) -> str:
        """The verdict as a text: what the sentence contradicts, what it rests on, or that nothing supports it."""
        if self.contradiction is not None:
            swap = self.contradiction
            return f'contradicts {swap.source}: "{swap.other}" is likelier than "{swap.value}"'
        if not self.rests:
            return f"does not rest on the {self.origin}"
        numbers_by_message: dict[str, str] = {}  # "user": "[1][3]"
        for number, message in zip(self.citations, self.messages or [""] * len(self.citations), strict=True):
            numbers_by_message[message] = numbers_by_message.get(message, "") + f"[{number}]"
        cited = ", ".join(f"{message} {numbers}".strip() for message, numbers in numbers_by_message.items())
        return "rests on " + (cited or f"the {self.origin}")

    @property
    def reason(self) -> str:
        """The shares or losses behind the verdict, as a text."""
        total = abs(self.documents) + abs(self.prompt) + abs(self.answer) or 1.0
        sources, prompt, answer = (part / total for part in (self.documents, self.prompt, self.answer))
        name = self.origin
        shares = f"{name} {sources:.0%}, question and template {prompt:.0%}, its earlier words {answer:.0%}"
        return shares if self.loss is None else f"{shares}; {-self.loss:+.1f} nats without the {name}"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Citations(Record):
    """An answer to a question with the sentences of the documents, or of the conversation, that it rests on.

    Attributes:
        question: The question.
        attribution: What each sentence of the answer rests on: its units are the documents' sentences, the rest of the
            prompt and the answer's earlier words, its targets the answer's sentences.
        messages: The messages of the conversation before the answer, in its order; empty if the sources are of
            documents.
        value_scores: float32, (K, S): what each source contributes to the values (numbers, names and the like) of each
            sentence that the question does not hold, less what it contributes to the other values of the sources in
            their place; NaN for a sentence without such values. None if no sentence has them, or the method has no
            such scores.
    """

    kind: ClassVar = "citations"
    described: ClassVar = "an answer with citations"

    question: str
    attribution: Attribution
    messages: tuple[MessageSpan, ...] = ()
    value_scores: FloatArray | None = None

    @property
    def scored(self) -> Attribution:
        """The attribution of the answer."""
        return self.attribution

    @property
    def origin(self) -> Origin:
        """Where the sources come from: "documents" or "conversation"."""
        return "conversation" if self.messages else "documents"

    @property
    def text(self) -> str:
        """The prompt with the answer."""
        return self.attribution.text or ""

    @property
    def answer(self) -> str:
        """The answer as it was generated."""
        return self.attribution.completion or ""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the result, such as a prompt that was cut."""
        return self.attribution.notes

    @property
    def verified(self) -> Verification | None:
        """The losses without each source and without all, and with other values; None if not measured."""
        return self.attribution.verified

    @property
    def sources(self) -> list[int]:
        """The indices of the attribution's units that are sources."""
        return self.attribution.units.sources

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the sources."""
        names = self.attribution.units.name
        return tuple(names[i] for i in self.sources)

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """The character spans of the sources in `text`."""
        spans = self.attribution.units.spans or ()
        return tuple(spans[i] for i in self.sources)

    @property
    def documents(self) -> tuple[str, ...]:
        """The name of each source's document or message."""
        if not self.messages:
            kinds = [self.attribution.units.kind[i] for i in self.sources]
            pairs = zip(self.names, kinds, strict=True)
            return tuple(name if kind == "medium" else name.rpartition(":")[0] or name for name, kind in pairs)
        return tuple(self.messages[i].name for i in self.message_indices)

    @property
    def message_indices(self) -> list[int]:
        """The index of each source's message in the conversation."""
        starts = [message.start for message in self.messages]
        media = {m.name: i for i, m in enumerate(self.messages) if m.role in ("picture", "sound")}
        pairs = zip(self.names, self.spans, strict=True)
        return [media.get(name, bisect_right(starts, start) - 1) for name, (start, _) in pairs]

    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentences of the answer."""
        return tuple(target.name for target in self.attribution.targets)

    @property
    def evidence(self) -> Attribution:
        """The scores that rank the sources: the mean of their scores in `attribution` and of their value scores.

        The value scores of a sentence are scaled first. Each positive one is divided by the sum of magnitudes over the
        sources, and multiplied by the sum of the sources' positive scores in `attribution`. A sentence without values
        keeps its scores in `attribution`.
        """
        a, sources = self.attribution, self.sources
        if self.value_scores is None:
            return a
        scores = a.scores.astype(np.float64)  # (K, U)
        for k, valued in enumerate(self.value_scores.astype(np.float64)):
            size = float(np.abs(valued).sum())  # NaN without values
            if size > 0:
                favour = float(np.maximum(scores[k, sources], 0).sum())
                scores[k, sources] = (scores[k, sources] + np.maximum(valued, 0) * (favour / size)) / 2
        return replace(a, scores=scores.astype(np.float32), bias=None, sink=None)

    @property
    def shares(self) -> FloatArray:
        """Each source's share of the `evidence` in favour of the whole answer, (S,)."""
        return self.evidence.whole().shares[self.sources]

    @property
    def sentence_shares(self) -> FloatArray:
        """The same for each sentence of the answer, (K, S)."""
        return self.evidence.shares[:, self.sources]

    @property
    def losses(self) -> Mapping[str, float]:
        """The drop of the answer's log-probability without each removed source, in nats, by the source's name."""
        if self.verified is None:
            return {}
        whole = self.verified.original.value
        return {removal.units[0]: whole - removal.value for removal in self.verified.single}

    @property
    def source_losses(self) -> FloatArray:
        """The drop of each sentence's log-probability without each source, in nats, (K, S); NaN if not removed."""
        losses = np.full((len(self.sentences), len(self.sources)), np.nan, np.float32)
        if self.verified is not None:
            source_of_unit = {unit: source for source, unit in enumerate(self.sources)}
            nats_with_all = np.array(self.verified.original.values)  # (K,)
            for removal in self.verified.single:
                losses[:, source_of_unit[removal.tokens[0]]] = nats_with_all - removal.values
        return losses

    @property
    def sentence_losses(self) -> FloatArray:
        """The drop of each sentence's log-probability without any source, in nats, (K,); NaN if not measured."""
        if self.verified is None:
            return np.full(len(self.sentences), np.nan, np.float32)
        return np.subtract(self.verified.original.values, self.verified.together.values).astype(np.float32)

    def top(self, k: int = 5, *, sentence: int | None = None) -> list[Source]:
        """Return the first `k` sources: removed ones by the answer's loss without them, then the others by score.

        Args:
            k: How many.
            sentence: Index of a sentence of the answer, negative from the end; None for the whole answer.

        Raises:
            TargetError: If the answer has no such sentence.
        """
        scores = self.evidence.whole() if sentence is None else self.evidence[sentence]
        sources = self._sources(scores.shares[self.sources])
        source_of_unit = dict(zip(self.sources, sources, strict=True))
        ranked = [source_of_unit[unit.position] for unit in scores.top(len(sources))]
        if sentence is None:  # stable: sources that were not removed follow by score
            ranked.sort(key=lambda source: -math.inf if source.nats is None else source.nats, reverse=True)
        return ranked[:k]

    def citations(self) -> list[Source]:
        """Return the cited sources, in the order of their numbers in the answer."""
        numbered = {source.number: source for source in self._sources(self.shares) if source.number is not None}
        return [numbered[number] for number in sorted(numbered)]

    def _sources(self, shares: FloatArray) -> list[Source]:
        """Return all sources in the order of the prompt, with shares, (S,)."""
        support = self._support_with(LEAST_SHARE)
        numbers = {  # of the citations, by source
            source: number
            for sentence in support
            for source, number in zip(sentence.sources, sentence.citations, strict=True)
        }
        texts = [self.attribution.units.text[unit] for unit in self.sources]  # pictures have none
        described = zip(self.documents, self.names, texts, shares.tolist(), strict=True)
        losses = [None if self.verified is None else self.verified.loss(unit) for unit in self.sources]
        return [
            Source(numbers.get(i), i, document, name, text, share, losses[i])
            for i, (document, name, text, share) in enumerate(described)
        ]

    @property
    def cited(self) -> tuple[tuple[int, ...], ...]:
        """The sources of each sentence: the strongest, and others with at min_loss a fifth of its loss or share.

        Sources that were left out come first, by what the sentence loses without them; those without which it loses
        nothing are not cited. A sentence that does not rest on the documents, or contradicts them, cites none.
        """
        return tuple(sentence.sources for sentence in self._support_with(LEAST_SHARE))

    def _support_with(self, threshold: float) -> tuple[Support, ...]:
        """Return the support of each sentence.

        Args:
            threshold: Least share of the documents in a sentence that rests on them; all do where there are no shares.
        """
        a, documents_of = self.attribution, self.documents
        bias, sink = (np.zeros(len(a.targets)) if values is None else values for values in (a.bias, a.sink))
        kinds = np.array([kind if kind in APART else "source" for kind in a.units.kind])
        without_all, support = self.sentence_losses.tolist(), []
        numbers: dict[int, int] = {}  # of each cited source, counted from 1 in the order of their first citation
        for k, (shares, losses) in enumerate(zip(self.sentence_shares, self.source_losses, strict=True)):
            scores = a.scores[k].astype(np.float64)  # (U,)
            documents, prompt, answer = (float(scores[kinds == kind].sum()) for kind in ("source", *APART))
            share = documents / (abs(documents) + abs(prompt) + abs(answer) or 1.0)
            loss = None if math.isnan(without_all[k]) else without_all[k]
            contradiction = None if self.verified is None else self.verified.contradiction(k)
            rests = (a.bias is None or share >= threshold) and (loss is None or loss > LEAST_LOSS)
            cited = _cited_sources(shares, losses) if rests and contradiction is None else ()
            messages = tuple(documents_of[i] for i in cited) if self.messages else ()
            citations = tuple(numbers.setdefault(i, len(numbers) + 1) for i in cited)
            support.append(
                Support(
                    text=self.sentences[k],
                    documents=documents,
                    prompt=prompt,
                    answer=answer,
                    sink=float(sink[k]),
                    bias=float(bias[k]),
                    share=share,
                    citations=citations,
                    rests=rests,
                    loss=loss,
                    contradiction=contradiction,
                    messages=messages,
                    origin=self.origin,
                    sources=cited,
                )
            )
        return tuple(support)

    @property
    def support(self) -> tuple[Support, ...]:
        """The support of each sentence of the answer, judged by the thresholds of docs/grounding.md."""
        return self.support_from(LEAST_SHARE)

    def support_from(self, share: float) -> tuple[Support, ...]:
        """Return the support of each sentence of the answer, judged by another threshold.

        Args:
            share: Least share of the documents in a sentence that rests on them, from 0 to 1; `normxlogit evaluate
                grounding` chooses it for a model. Citations are numbered among the sentences that reach it.

        Raises:
            InputError: If the scores of the method do not add up, so that there is no share.
        """
        if self.attribution.bias is None:
            method = self.attribution.method
            raise InputError(f"support needs scores that add up, such as frozen-gradient's, not {method}'s")
        return self._support_with(share)

    def marked(self) -> str:
        """Return the answer with the numbers of its citations behind each sentence: "It was built in 1974.[1]"."""
        return self._with_marks("[{}]")

    def to_markdown(self) -> str:
        """Return the answer in Markdown, with the cited sources as footnotes."""
        notes = [f"[^{c.number}]: {markdown_escaped(one_line(f'{c.name}: {c.text}'))}" for c in self.citations()]
        return "\n\n".join([self._with_marks("[^{}]", markdown_escaped).strip(), "\n".join(notes)]).strip() + "\n"

    @property
    def marks(self) -> list[tuple[int, ...]]:
        """The numbers that each sentence cites; none if it does not rest on the documents."""
        return [sentence.citations for sentence in self._support_with(LEAST_SHARE)]

    def _with_marks(self, mark: str, format_text: Callable[[str], str] = str) -> str:
        """Return the answer with marks after each sentence; `format_text` formats each piece of text."""
        text, position = "", len(self.text) - len(self.answer)
        for target, numbers in zip(self.attribution.targets, self.marks, strict=True):
            start, end = target.span or (position, position)
            end = start + len(self.text[start:end].rstrip())
            text += format_text(self.text[position:end]) + "".join(map(mark.format, numbers))
            position = end
        return text + format_text(self.text[position:])

    def _validate(self) -> None:
        """Raise ValueError if the fields do not belong together, as in a file that was changed by hand."""
        a, tested, sources = self.attribution, self.verified, self.sources
        a._validate()
        require(a.completion is not None and a.text is not None, "attribution: not of an answer")
        require(a.has_target_axis and a.layers is None, "attribution: not one score for each sentence and source")
        require(all(target.span is not None for target in a.targets), "attribution: a sentence without a span")
        require(bool(a.units.name and a.units.spans and sources), "attribution: without named sources")
        fits = self.value_scores is None or self.value_scores.shape == (len(a.targets), len(sources))
        require(fits, "value_scores: not one for each sentence and source")
        if tested is not None:
            for removal in (tested.original, *tested.single, tested.together):
                require(len(removal.values) == len(a.targets), "verified: not one value for each sentence")
            for removal in tested.single:
                fits = len(removal.tokens) == 1 and removal.tokens[0] in sources
                require(fits, "verified: a removal of no source")
            for swap in tested.swaps:
                fits = swap.sentence < len(a.targets) and swap.source in self.names
                require(fits, "verified: a swap of no sentence or source")
                require(swap.start <= swap.end <= len(self.text), "verified: a swap outside the text")
        place, limit = 0, len(self.text) - len(self.answer)
        for message in self.messages:
            is_shown = message.role in ("picture", "sound")  # its placeholder may have no characters that are known
            in_order = place <= message.start < message.end + is_shown <= limit + is_shown
            require(in_order, "messages: not one after the other in the prompt")
            place = message.end
        for index, (start, end) in zip(self.message_indices, self.spans, strict=True) if self.messages else ():
            inside = index >= 0 and start <= end <= self.messages[index].end
            require(inside, "messages: a source that is not in one of them")

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values, with derived values such as the verdicts first.

        Before the fields: "answer", its text; "text", the prompt with it; "sentences", each with the numbers of its
        citations and its "support" (shares, whether it rests on the documents, what it loses without them, and the
        verdict), null where scores do not add up; and "citations", each with its number, document, span of characters
        in "text", share and nats.
        """
        add_up = self.attribution.bias is not None
        support = [_support_state(sentence) for sentence in self.support] if add_up else [None] * len(self.sentences)
        fields = super().to_dict()
        read_first = {
            "kind": fields["kind"],
            "format_version": fields["format_version"],
            "question": fields["question"],
            "answer": self.answer.strip(),
            "sentences": [
                {"text": target.name, "span": list(target.span or ()), "citations": list(numbers), "support": state}
                for target, numbers, state in zip(self.attribution.targets, self.marks, support, strict=True)
            ],
            "citations": [{**c._asdict(), "span": list(self.spans[c.source])} for c in self.citations()],
            "text": self.text,
        }
        return read_first | fields

    def plot(self, *, k: int | None = None) -> "Figure":
        """Return a matplotlib heat map of the shares, a row for each source and a column for each sentence.

        Args:
            k: How many sources: the strongest for any sentence, in the order of the prompt, by default 12.

        Raises:
            DataError: If matplotlib is missing.
        """
        return self.evidence.plot(k=k)

    def _heading(self) -> str:
        return self.question

    def _shown(self) -> str:
        return f"{self.question!r}, {self.answer!r}, {len(self.sources)} sources"


def _cited_sources(shares: FloatArray, losses: FloatArray) -> tuple[int, ...]:
    """Return the sources that a sentence cites: removed ones by the sentence's loss, the others by their shares.

    Args:
        shares: The share of each source, (S,).
        losses: The drop of the sentence's log-probability without each source, in nats, (S,); NaN if not removed.
    """
    measured = [int(i) for i in np.argsort(-losses, kind="stable") if not np.isnan(losses[i])]
    min_loss = max([LEAST_LOSS, *(LEAST * float(losses[i]) for i in measured[:1])])
    cited = [i for i in measured if losses[i] > min_loss]
    unmeasured = [int(i) for i in np.argsort(-shares, kind="stable") if np.isnan(losses[i]) and shares[i] > 0]
    cited += [i for rank, i in enumerate(unmeasured) if shares[i] >= LEAST or (not rank and not measured)]
    return tuple(cited[:MOST])


def _support_state(support: Support) -> dict[str, Any]:
    apart = ("text", "citations", "sources", "origin")
    state = {name: plain(value) for name, value in support._asdict().items() if name not in apart}
    return {**state, "verdict": support.verdict}
