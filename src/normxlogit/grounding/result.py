"""`Citations`: an answer with the sentences of documents, or of a conversation, that it rests on."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from ..results.attribution import Attribution
from ..results.base import Record
from ..results.storage.schema import Fields, FloatArray, Indices, Strings, require
from ..results.targets import Target
from ..results.units.media import overlap
from ..results.units.spans import MessageSpan
from ..results.units.through import passed_through
from ..results.units.units import APART, Units
from ..results.verification import LEAST_LOSS, Verification
from ..text.characters import Span, moved
from .action import BEGINNING, Action, Beginning, FirstSource
from .columns import COLUMNS, citation_row
from .facts import Facts
from .measured import DocumentGain, Lead, RankedSentence, Reading
from .support import Document, Source, Support
from .verdicts import GOOD, Origin, summary_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MEDIA = ("picture", "sound")
"""Roles of messages that say nothing."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Citations(Record):
    """An answer to a question with the sentences of the documents, or of the conversation, that it rests on.

    Where the answer reasons first, its verdicts, losses and readings are of its other sentences alone, measured
    directly behind the question; they rank their sources by what they take from them through the reasoning.

    Attributes:
        question: The question.
        attribution: What each sentence of the answer rests on: its units are the documents' sentences, the rest of the
            prompt and the answer's earlier words, its targets the answer's sentences, with those of its reasoning.
        messages: The messages of the conversation before the answer, in its order; empty if the sources are of
            documents.
        weighted_scores: float32, (K, U): what each unit contributes to the tokens of each sentence, each weighted by
            what its log-probability gains from all sources. None if the method has no such scores.
        facts: What each sentence has in common with its sources.
        readings: How likely the model finds each sentence with its sources and without; empty if not measured.
        alone: How much likelier each sentence is after each document, or message, alone than without any of them; empty
            if not measured.
        leads: What each other document makes likelier in the first of them, see `top_documents`; empty if not
            measured.
        support: What is said of each sentence; see docs/grounding.md.
        ranking: What orders the sentences, the most doubtful first; empty if they were not ranked.
        action: Of an answer that is a call of a tool what is said of it: its targets are then what stands before the
            tool's name, the name and the values of the arguments, which count as its sentences; against another answer
            the one of them in which the two part. None for a text.
    """

    kind: ClassVar = "citations"
    described: ClassVar = "an answer with citations"
    columns: ClassVar = COLUMNS

    question: str
    attribution: Attribution
    messages: tuple[MessageSpan, ...] = ()
    weighted_scores: FloatArray | None = None
    facts: tuple[Facts, ...] = ()
    readings: tuple[Reading, ...] = ()
    alone: tuple[DocumentGain, ...] = ()
    leads: tuple[Lead, ...] = ()
    support: tuple[Support, ...] = ()
    ranking: tuple[RankedSentence, ...] = ()
    action: Action | None = None

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
    def notes(self) -> Strings:
        """Notes on the result, such as a prompt that was cut."""
        return self.attribution.notes

    @property
    def verified(self) -> Verification | None:
        """The losses without each source and without all, or without each thought; None if not measured."""
        return self.attribution.verified

    @property
    def tested(self) -> Verification | None:
        """The losses without each source and without all; None if not measured."""
        # Sentences of the reasoning, which `verify="reasoning"` leaves out, are units of the answer and no sources.
        removed = () if self.verified is None else [unit for r in self.verified.single for unit in r.tokens]
        return None if "answer" in map(self.attribution.units.kind.__getitem__, removed) else self.verified

    @cached_property
    def concluding(self) -> list[int]:
        """The indices of the attribution's targets that are not reasoning."""
        answer_start = len(self.text) - len(self.answer)
        # With their marks: a sentence that is nothing but a mark is no answer.
        thoughts = [moved(span, answer_start) for span in self.attribution.marked_reasoning]
        spans = enumerate(self.attribution.target_spans)
        return [target for target, span in spans if not any(overlap(span, thought) for thought in thoughts)]

    @cached_property
    def conclusion(self) -> Attribution:
        """The attribution of the K sentences that are not reasoning."""
        return of_targets(self.attribution, self.concluding)

    @cached_property
    def sources(self) -> list[int]:
        """The indices of the attribution's units that are sources."""
        return self.attribution.units.sources

    @cached_property
    def _source_units(self) -> Units:
        return self.attribution.units.take(self.sources)

    @property
    def names(self) -> Strings:
        """The names of the sources."""
        return self._source_units.name

    @property
    def spans(self) -> tuple[Span, ...]:
        """The character spans of the sources in `text`."""
        return self._source_units.spans or ()

    @property
    def documents(self) -> Strings:
        """The name of each source's document or message."""
        divided = str.partition if self.messages else str.rpartition  # a message's name has no colon, a field's may
        pairs = zip(self.names, self._source_units.kind, strict=True)
        return tuple(name if kind == "medium" else divided(name, ":")[0] or name for name, kind in pairs)

    @property
    def document_spans(self) -> dict[str, list[Span]]:
        """The character spans of the sources of each document, or message, by its name."""
        spans_of = defaultdict[str, list[Span]](list)
        for name, span in zip(self.documents, self.spans, strict=True):
            spans_of[name].append(span)
        return spans_of

    @cached_property
    def message_indices(self) -> list[int]:
        """The index of each source's message in the conversation; -1 of one that is not there."""
        places = {message.name: index for index, message in enumerate(self.messages)}
        return [places.get(name, -1) for name in self.documents]

    @property
    def sentences(self) -> Strings:
        """The sentences of the answer."""
        return tuple(target.name for target in self.conclusion.targets)

    @property
    def sentence_spans(self) -> list[Span]:
        """The character spans of the sentences in `text`."""
        return self.conclusion.target_spans

    @cached_property
    def evidence(self) -> Attribution:
        """The scores that rank the sources: of a sentence's tokens by weight, if they were, else of its tokens alike.

        A sentence none of whose tokens gains from the sources keeps its scores in `attribution`. Behind a reasoning
        these are the scores through it.
        """
        thoughts = len(self.attribution.targets) - len(self.concluding)
        is_passed = thoughts and self.attribution.earlier_parts  # perturbation methods score no part of the answer
        return of_targets(self.through("reasoning") if is_passed else self.direct_evidence, self.concluding)

    @cached_property
    def direct_evidence(self) -> Attribution:
        """The scores that rank what each sentence takes from the sources itself, for the reasoning's sentences, too."""
        if self.weighted_scores is None:
            return self.attribution
        scores, weighted = self.attribution.scores.copy(), self.weighted_scores  # (K, U) each
        sources = np.array(self.sources)
        places = np.ix_(weighted[:, sources].any(1), sources)
        scores[places] = weighted[places]
        # With the rest of the result they would not add up to these scores.
        return replace(self.attribution, scores=scores, bias=None, sink=None)

    def through(self, spans: Literal["reasoning"] | Sequence[Span] | None = None) -> Attribution:
        """Return what each sentence of the answer rests on through its earlier sentences, as `Attribution.through`.

        What a sentence takes from an earlier one rests on the sources of that one, weighted by what its tokens gain
        from them, and on what it took from still earlier ones in the same way.

        Args:
            spans: As there.
        """
        weighted, units = self.direct_evidence.scores.copy(), self.attribution.units  # (K, U)
        is_unit = np.array([sequence is not None for sequence in units.sequence])  # a source or a part of the answer
        kinds = np.array(units.kind)  # (U,)
        # The rest of the prompt, and what of the answer is in no part, are no sources to be passed on.
        weighted[:, np.isin(kinds, APART) & ~is_unit] = 0
        if self.weighted_scores is not None:
            of_answer = (kinds == "answer") & is_unit
            weighted[:, of_answer] = self.weighted_scores[:, of_answer]
        return passed_through(self.attribution, spans, weighted)

    @property
    def summary(self) -> str:
        """The verdicts in one line: "7 of 10 sentences are supported; 2 cannot be told".

        Of a call of a tool it says which source it rests on, see docs/how-to-conversations.md.
        """
        if self.action is not None:
            return self.action.line(self.first_source(), self._beginning())
        return summary_line((sentence.judgement for sentence in self.support), self.origin)

    def first_source(self) -> FirstSource:
        """Return what costs the answer most of what was left out; if nothing was, the source with the largest share."""
        if self.tested is None or not self.tested.single:
            first = self.top(1)[0]
            return FirstSource(first.name, first.text, first.share, nats=None, places=(first.source,))
        removals = self.tested.single
        removal = max(removals, key=lambda removal: removal.original - removal.value)
        places = tuple(place for place, unit in enumerate(self.sources) if unit in removal.tokens)
        name, text = removal.units[0], ""  # of a message or a paragraph, whose text is that of several sources
        if len(places) == 1:
            name, text = self.names[places[0]], self._source_units.text[places[0]]
        share = float(np.nansum(self.shares[list(places)]))
        least = np.min([removal.values for removal in removals], axis=0)  # (K,), of each part of the call
        is_needed = least < np.subtract(self.tested.original.values, LEAST_LOSS)  # (K,), whether any source matters
        return FirstSource(
            name,
            text,
            share,
            nats=removal.original - removal.value,
            places=places,
            is_first_of_each=bool(np.all((removal.values == least)[is_needed])),
        )

    def _beginning(self) -> Beginning | None:
        """Return how likely it is that a tool is called at all; None where that was not measured."""
        tested, target = self.tested, self.conclusion.targets[0]
        if tested is None or not tested.single or target.name != BEGINNING or target.contrast is not None:
            return None
        # The first value is that of the first part of the call, which is its beginning.
        least = min(tested.single, key=lambda removal: removal.values[0])
        return Beginning(math.exp(tested.original.values[0]), least.units[0], math.exp(least.values[0]))

    @property
    def most_doubtful(self) -> list[int]:
        """The indices of the sentences, the most doubtful first; empty if they were not ranked."""
        return sorted(range(len(self.ranking)), key=lambda sentence: self.ranking[sentence].support)

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
        """The drop of the answer's log-probability without each removed source, or document, in nats, by its name."""
        single = () if self.verified is None else self.verified.single
        return {removal.units[0]: removal.original - removal.value for removal in single}

    @property
    def source_losses(self) -> FloatArray:
        """The drop of each sentence's log-probability without each source, in nats, (K, S); NaN if not removed."""
        losses = np.full((len(self.sentences), len(self.sources)), np.nan, np.float32)
        if (tested := self.tested) is not None:
            for removal in tested.single:
                if len(removal.tokens) == 1:  # of several that were removed together, none has a loss of its own
                    place = self.sources.index(removal.tokens[0])
                    losses[:, place] = np.subtract(tested.original.values, removal.values)
        return losses

    @property
    def sentence_losses(self) -> FloatArray:
        """The drop of each sentence's log-probability without any source, in nats, (K,); NaN if not measured."""
        if self.tested is None:
            return np.full(len(self.sentences), np.nan, np.float32)
        return np.subtract(self.tested.original.values, self.tested.together.values).astype(np.float32)

    def top(self, k: int = 5, *, sentence: int | None = None) -> list[Source]:
        """Return the first `k` sources: removed ones by the answer's loss without them, then the others by score.

        Args:
            k: How many.
            sentence: Index of a sentence of the answer, negative from the end; None for the whole answer.

        Raises:
            TargetError: If the answer has no such sentence.
        """
        ranked = self._ranked_by_score(sentence)
        if sentence is None:  # stable: sources that were not removed follow by score
            ranked.sort(key=lambda source: -math.inf if source.nats is None else source.nats, reverse=True)
        return ranked[:k]

    def top_documents(self, k: int = 5, *, sentence: int | None = None) -> list[Document]:
        """Return the first `k` documents, or messages: by how much likelier the answer is after each alone.

        Of the whole answer the information of the words that a document shares with question and answer is added, in
        nats as well, and the others follow by what they make likelier in the first one, see `leads`. Documents that
        were not read come last, by their best sources.

        Args:
            k: How many.
            sentence: Index of a sentence of the answer, negative from the end; None for the whole answer.

        Raises:
            TargetError: If the answer has no such sentence.
        """
        shares = dict[str, float]()
        for source in self._ranked_by_score(sentence):
            shares.setdefault(source.document, source.share)  # of its best source, which comes first
        gains = sorted(self.alone, key=lambda gain: gain.evidence(sentence), reverse=True)
        read = {gain.name: Document(gain.name, gain.of(sentence), shares[gain.name], gain.words) for gain in gains}
        unread = [Document(name, None, share) for name, share in shares.items() if name not in read]
        first, *others = [*read.values(), *unread]
        # What leads to the first document was measured for the answer as a whole.
        leads = {} if sentence is not None else {lead.name: lead.nats for lead in self.leads}
        # The sort is stable: documents of which no lead is known keep their order.
        others.sort(key=lambda document: leads.get(document.name, -math.inf), reverse=True)
        return [first, *others][:k]

    def citations(self) -> list[Source]:
        """Return the cited sources, in the order of their numbers in the answer."""
        # A source begins with its number, which no two have.
        return sorted(source for source in self._sources(self.shares) if source.number is not None)

    def _ranked_by_score(self, sentence: int | None) -> list[Source]:
        """Return all sources, the highest score for a sentence, or for the whole answer, first."""
        scores = self.evidence.whole() if sentence is None else self.evidence[sentence]
        sources = dict(zip(self.sources, self._sources(scores.shares[self.sources]), strict=True))
        return [sources[unit.position] for unit in scores.top(len(sources))]

    def _sources(self, shares: FloatArray) -> list[Source]:
        """Return all sources in the order of the prompt, with shares, (S,)."""
        numbers = dict(pair for s in self.support for pair in zip(s.sources, s.citations, strict=True))
        documents, names, texts = self.documents, self.names, self._source_units.text
        return [
            Source(
                number=numbers.get(place),
                source=place,
                document=documents[place],
                name=names[place],
                text=texts[place],
                share=float(shares[place]),
                nats=None if self.verified is None else self.verified.loss(unit),
            )
            for place, unit in enumerate(self.sources)
        ]

    @property
    def cited(self) -> tuple[Indices, ...]:
        """The places of the sources that each sentence cites, the strongest first."""
        return tuple(sentence.sources for sentence in self.support)

    def marked(self) -> str:
        """Return the answer with the numbers of its citations behind each sentence: "It was built in 1974.[1]".

        If it begins with reasoning, this stands before them as it was written, without numbers.
        """
        text, position = "", len(self.text) - len(self.answer)
        for (start, end), numbers in zip(self.sentence_spans, self.marks, strict=True):
            end = start + len(self.text[start:end].rstrip())  # numbers stand before the white space
            text += self.text[position:end] + "".join(map("[{}]".format, numbers))
            position = end
        return text + self.text[position:]

    @property
    def marks(self) -> list[Indices]:
        """The numbers behind each sentence: of its citations if it rests on them, or it was not tested."""
        marked = (*GOOD, "rests on", "not tested")
        return [sentence.citations if sentence.judgement in marked else () for sentence in self.support]

    def validate(self) -> None:
        """Raise ValueError if the fields do not belong together, as in a file that was changed by hand."""
        a = self.attribution
        super().validate()
        is_answer = a.completion is not None and a.text is not None
        is_answer &= a.has_target_axis and a.layers is None and all(target.span for target in a.targets)
        require(is_answer, "attribution: not of the sentences of an answer")
        require(bool(a.units.name and a.units.spans and self.sources), "attribution: without named sources")
        is_whole = self.weighted_scores is None or self.weighted_scores.shape == a.scores.shape
        require(is_whole, "weighted_scores: not one for each sentence and unit")
        self._check_sentences(len(self.concluding))
        if self.messages:
            self._check_messages()
        request = () if self.action is None else self.action.request
        require(max(request, default=0) < len(self.sources), "action: a request that is not among the sources")

    def _check_sentences(self, count: int) -> None:
        """Raise ValueError if not each sentence has what is said of it."""
        require(count > 0, "attribution: an answer that is all reasoning")
        # Readings and the ranking may be missing as a whole.
        lengths = {len(self.support), len(self.facts), len(self.readings) or count, len(self.ranking) or count}
        lengths |= {len(gain.nats) for gain in self.alone}
        require(lengths == {count}, "support, facts, readings, ranking, alone: not one for each sentence")
        require({gain.name for gain in self.alone} <= {*self.documents}, "alone: not of the documents")
        require({lead.name for lead in self.leads} <= {*self.documents}, "leads: not of the documents")
        self._check_sources()
        if (tested := self.tested) is not None:
            removals = (tested.original, *tested.single, tested.together)
            is_whole = all(len(r.values) == count and {*r.tokens} <= {*self.sources} for r in removals)
            require(is_whole, "verified: not one value for each sentence, without sources")

    def _check_sources(self) -> None:
        """Raise ValueError if what is said of a sentence names a source that is not there."""
        for sentence in self.support:
            beside = [each.source for each in (sentence.check, sentence.compared) if each is not None]
            is_there = max([*sentence.sources, *beside], default=0) < len(self.sources)
            require(is_there and len(sentence.sources) == len(sentence.citations), "support: not of the sources")

    def _check_messages(self) -> None:
        """Raise ValueError if the messages are not in the order of the prompt, or a source is in none of them."""
        edges = [edge for message in self.messages for edge in (message.start, message.end)]
        edges = [0, *edges, len(self.text) - len(self.answer)]  # all of them before the answer
        require(edges == sorted(edges), "messages: not one after the other in the prompt")
        for index, (_, end) in zip(self.message_indices, self.spans, strict=True):
            require(index >= 0 and end <= self.messages[index].end, "messages: a source that is not in one of them")

    def to_dict(self) -> Fields:
        """Return everything as plain Python values, with derived values such as the verdicts first.

        Before the fields: "summary", the verdicts in one line; "answer", its text; "sentences", each with its span, its
        verdict and the numbers of its citations; "citations", each with its number, document, span of characters in
        "text", share and nats; and "text", the prompt with the answer.
        """
        fields, sentences = super().to_dict(), zip(self.conclusion.targets, self.marks, self.support, strict=True)
        read_first = {name: fields[name] for name in ("kind", "format_version", "question")}
        read_first |= {
            "summary": self.summary,
            "answer": self.answer.strip(),
            "sentences": [
                {**self._described(t), "citations": list(numbers), "verdict": support.verdict}
                for t, numbers, support in sentences
            ],
            "citations": [{**c._asdict(), "span": list(self.spans[c.source])} for c in self.citations()],
            "text": self.text,
        }
        return read_first | fields

    def _described(self, target: Target) -> Fields:
        """Return the text of a sentence and its span; of a part of a call its name as well."""
        span = target.span or (0, 0)  # for the type alone: `validate` refuses a target without a span
        if self.action is None:
            return {"text": target.name, "span": list(span)}
        return {"part": target.name, "text": self.text[slice(*span)], "span": list(span)}

    def plot(self, *, k: int | None = None) -> "Figure":
        """Return a matplotlib heat map of the shares, a row for each source and a column for each sentence.

        Args:
            k: How many sources: the strongest for any sentence, in the order of the prompt, by default 12.

        Raises:
            DataError: If matplotlib is missing.
        """
        return self.evidence.plot(k=k)

    def column_values(self) -> Fields:
        """Return the answer, its sources and their support as columns."""
        return citation_row(self)

    def heading(self) -> str:
        """Return the question."""
        return self.question

    def short_text(self) -> str:
        """Return the question and the answer, with the number of sources."""
        return f"{self.question!r}, {self.answer!r}, {len(self.sources)} sources"


def of_targets(a: Attribution, rows: Sequence[int]) -> Attribution:
    """Return an attribution of some of its targets."""
    indices = list(rows)
    bias, sink = (None if values is None else values[indices] for values in (a.bias, a.sink))
    return replace(a, scores=a.scores[indices], targets=tuple(a.targets[k] for k in indices), bias=bias, sink=sink)
