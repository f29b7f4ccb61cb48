"""An answer to a question with the sentences of the documents that it rests on."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..errors import InputError
from .characters import markdown_escaped, one_line
from .citation_test import CitationTest, Swap
from .schema import FloatArray, plain
from .sources import Sources, SourceScore

LEAST = 0.2
"""Least share of a sentence's sources with which a further one is cited."""

MOST = 3
"""Most sources cited for a sentence of the answer."""

LEAST_SHARE = 0.18
"""Least share of the documents in a sentence that rests on them; chosen on training data, see docs/grounding.md."""

LEAST_LOSS = 1.0
"""Nats that a sentence loses without the documents that it rests on, or a source that it cites, where measured."""


class Citation(NamedTuple):
    """A source that is cited for the answer.

    Attributes:
        number: Its number in the answer, counted from 1.
        source: Its place among the sources.
        name: What it is called: its document and which sentence of it.
        text: What it says.
        share: Its share of all that the sources have in favour of the whole answer.
        nats: What the answer's log-probability loses without it; None where it was not measured.
    """

    number: int
    source: int
    name: str
    text: str
    share: float
    nats: float | None

    @property
    def document(self) -> str:
        """The name of the document that the sentence is of."""
        return self.name.rpartition(":")[0] or self.name


class Support(NamedTuple):
    """What a sentence of the answer rests on; documents + prompt + answer + sink + bias is the explained quantity.

    It says what this model used, not what is true: a sentence can rest on a document that is wrong.

    Attributes:
        text: The sentence.
        documents: Contribution of the documents.
        prompt: Contribution of the question, instructions and template.
        answer: Contribution of the answer's own earlier tokens.
        sink: Contribution of attention sinks.
        bias: Contribution of no token.
        share: documents / (|documents| + |prompt| + |answer|).
        citations: Numbers of the cited sources; none if the sentence does not rest on the documents.
        rests: Whether the share reaches the threshold, and the sentence loses something without the documents, where
            that was measured.
        loss: What its log-probability loses without all documents, in nats; None where that was not measured.
        contradiction: The value of it in whose place the model would rather have read another one of the documents;
            None where there is none, or that was not tested.
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

    @property
    def verdict(self) -> str:
        """The result in words: what it contradicts, or what it rests on."""
        if self.contradiction is not None:
            swap = self.contradiction
            return f'contradicts {swap.source}: "{swap.other}" is likelier than "{swap.value}"'
        if not self.rests:
            return "does not rest on the documents"
        return "rests on " + ("".join(f"[{number}]" for number in self.citations) or "the documents")

    @property
    def reason(self) -> str:
        """The shares that the verdict follows from, in words."""
        total = abs(self.documents) + abs(self.prompt) + abs(self.answer) or 1.0
        documents, prompt, answer = (part / total for part in (self.documents, self.prompt, self.answer))
        shares = f"documents {documents:.0%}, question and template {prompt:.0%}, its earlier words {answer:.0%}"
        return shares if self.loss is None else f"{shares}; {self.loss:+.1f} nats without the documents"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Citations(Sources):
    """An answer whose sentences are the parts and the documents' sentences the sources.

    Attributes:
        question: The question.
        verified: What the answer loses without sources and without all documents, and the values that it contradicts;
            None where that was not measured.
    """

    kind: ClassVar = "citations"
    described: ClassVar = "an answer with citations"

    question: str = ""
    verified: CitationTest | None = None

    @property
    def losses(self) -> Mapping[str, float]:
        """What the answer's log-probability loses without a source, in nats, by the names of those left out in turn."""
        if self.verified is None:
            return {}
        whole = self.verified.whole().tolist()  # (S,)
        return {name: nats for name, nats in zip(self.names, whole, strict=True) if not math.isnan(nats)}

    def top(self, k: int = 5, *, part: int | None = None) -> list[SourceScore]:
        """Return the first `k` sources: verified ones by what the answer loses without them, then the others by score.

        Args:
            k: How many.
            part: Index of a sentence of the answer; None for the whole answer.

        Raises:
            InputError: If the answer has no such sentence.
        """
        ranked = super().top(len(self), part=part)
        if part is None:
            losses = self.losses
            ranked.sort(key=lambda source: -losses.get(source.name, -math.inf))  # a stable sort
        return ranked[:k]

    @property
    def cited(self) -> tuple[tuple[int, ...], ...]:
        """The sources of each sentence of the answer: the strongest, and others with a fifth of its loss or share.

        Sources that were left out come first, by what the sentence loses without them; those without which it loses
        nothing are not cited. A sentence that does not rest on the documents, or contradicts them, cites none.
        """
        return self._cited_from(LEAST_SHARE)

    def _cited_from(self, threshold: float) -> tuple[tuple[int, ...], ...]:
        """Return the sources of the sentences whose share of documents reaches the threshold, of all without shares."""
        cited = []
        for k, shares in enumerate(self.part_shares):
            contradicts = self.verified is not None and self.verified.contradiction(k) is not None
            cited.append(self._strongest(k, shares) if self._rests(k, threshold) and not contradicts else ())
        return tuple(cited)

    def _strongest(self, k: int, shares: FloatArray) -> tuple[int, ...]:
        """Return the sources that a sentence cites: those left out by what it loses, the others by shares."""
        lost = np.full(len(self), np.nan) if self.verified is None else self.verified.losses[k]  # (S,)
        measured = [int(i) for i in np.argsort(-lost, kind="stable") if not np.isnan(lost[i])]
        least = max([LEAST_LOSS, *(LEAST * float(lost[i]) for i in measured[:1])])
        kept = [i for i in measured if lost[i] > least]
        others = [int(i) for i in np.argsort(-shares, kind="stable") if np.isnan(lost[i]) and shares[i] > 0]
        kept += [i for rank, i in enumerate(others) if shares[i] >= LEAST or (not rank and not measured)]
        return tuple(kept[:MOST])

    def _rests(self, k: int, threshold: float) -> bool:
        """Return whether sentence `k` rests on the documents, by its share and by what it loses without them."""
        loss = self._loss(k)
        return (self.bias is None or self._rested_on(k)[-1] >= threshold) and (loss is None or loss > LEAST_LOSS)

    def _loss(self, k: int) -> float | None:
        loss = math.nan if self.verified is None else float(self.verified.without_documents[k])
        return None if math.isnan(loss) else loss

    def _rested_on(self, k: int) -> tuple[float, float, float, float]:
        """Return what documents, prompt and answer contribute to sentence `k`, and the share of the documents."""
        documents, prompt, answer = float(self.table[k].sum()), float(self.rest[k]), float(self.written[k])
        total = abs(documents) + abs(prompt) + abs(answer)
        return documents, prompt, answer, documents / total if total else 0.0

    @property
    def support(self) -> tuple[Support, ...]:
        """Whether each sentence of the answer rests on the documents, by the threshold that is measured in the docs."""
        return self.support_from(LEAST_SHARE)

    def support_from(self, share: float) -> tuple[Support, ...]:
        """Return whether each sentence of the answer rests on the documents.

        Args:
            share: Least share of the documents in a sentence that rests on them, from 0 to 1; `normxlogit evaluate
                grounding` chooses it for a model. Citations are numbered among the sentences that reach it.

        Raises:
            InputError: If the scores of the method do not add up, so that there is no share.
        """
        if self.bias is None:
            raise InputError(f"support needs scores that add up, such as frozen-gradient's, not {self.method}'s")
        sinks = np.zeros_like(self.bias) if self.sink is None else self.sink
        support = []
        for k, numbers in enumerate(_numbers(self._cited_from(share))):
            documents, prompt, answer, part = self._rested_on(k)
            values = (documents, prompt, answer, float(sinks[k]), float(self.bias[k]), part)
            contradiction = None if self.verified is None else self.verified.contradiction(k)
            rests = self._rests(k, share)
            support.append(Support(self.parts[k].name, *values, numbers, rests, self._loss(k), contradiction))
        return tuple(support)

    def marked(self) -> str:
        """Return the answer with the numbers of its citations behind each sentence: "It was built in 1974.[1]"."""
        return self._with_marks("[{}]")

    def to_markdown(self) -> str:
        """Return the answer in Markdown, with the cited sources as footnotes."""
        notes = [f"[^{c.number}]: {markdown_escaped(one_line(f'{c.name}: {c.text}'))}" for c in self.citations()]
        return "\n\n".join([self._with_marks("[^{}]", markdown_escaped).strip(), "\n".join(notes)]).strip() + "\n"

    @property
    def marks(self) -> list[tuple[int, ...]]:
        """The numbers cited by each sentence; none for a sentence that does not rest on the documents."""
        return _numbers(self.cited)

    def _with_marks(self, mark: str, written: Callable[[str], str] = str) -> str:
        """Return the answer, each piece of it as `written`, with a mark for each citation behind each sentence."""
        text, position = "", len(self.text) - len(self.completion)
        for part, numbers in zip(self.parts, self.marks, strict=True):
            end = part.start + len(self.text[part.start : part.end].rstrip())
            text += written(self.text[position:end]) + "".join(map(mark.format, numbers))
            position = end
        return text + written(self.text[position:])

    def citations(self) -> list[Citation]:
        """Return the sources that stand as numbers in the answer, in the order in which it cites them first."""
        order = list(dict.fromkeys(i for part in self.cited for i in part))
        shares, losses = self.shares, self.losses
        return [
            Citation(
                number,
                i,
                self.names[i],
                self.text[slice(*self.spans[i])],
                float(shares[i]),
                losses.get(self.names[i]),
            )
            for number, i in enumerate(order, start=1)
        ]

    def _validate(self) -> None:
        super()._validate()
        if self.verified is not None:
            self.verified.validate(len(self.parts), self.names, len(self.text))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values, with what follows from them.

        Beside the fields: "answer", its text; "sentences", each with the numbers of its citations and its "support"
        (shares, whether it rests on the documents, what it loses without them, and the verdict), null where scores do
        not add up; and "citations", each with its number, document, span of characters in "text", share and nats.
        """
        support = [None] * len(self.parts) if self.bias is None else [_support_state(one) for one in self.support]
        return super().to_dict() | {
            "answer": self.completion.strip(),
            "sentences": [
                {"text": part.name, "span": [part.start, part.end], "citations": list(numbers), "support": state}
                for part, numbers, state in zip(self.parts, self.marks, support, strict=True)
            ],
            "citations": [
                {**c._asdict(), "document": c.document, "span": list(self.spans[c.source])} for c in self.citations()
            ],
        }

    def _heading(self) -> str:
        return self.question

    def _shown(self) -> str:
        return f"{self.question!r}, {self.completion!r}, {len(self)} sources"


def _numbers(cited: tuple[tuple[int, ...], ...]) -> list[tuple[int, ...]]:
    """Return the sources of each sentence as numbers, counted from 1 in the order of their first citation."""
    order = list(dict.fromkeys(i for sources in cited for i in sources))
    return [tuple(order.index(i) + 1 for i in sources) for sources in cited]


def _support_state(support: Support) -> dict[str, Any]:
    state = {name: value for name, value in support._asdict().items() if name not in ("text", "citations")}
    return {name: plain(value) for name, value in state.items()} | {"verdict": support.verdict}
