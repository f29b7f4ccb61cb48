"""`Attribution`, the one result type of all tasks and methods."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from ..errors import DataError, InputError, MethodError
from ..text.characters import Span
from .base import for_kind_of
from .choosing import of_target
from .consistency import check_answer, check_scores, check_spans
from .contents import Contents
from .storage.schema import Fields, FloatArray, Indices
from .summary import summary_of
from .targets import Target
from .units.grouping import grouped, grouped_targets
from .units.kinds import Merge
from .units.spans import PartSpec, SourceSpec
from .units.through import passed_through
from .units.units import UnitScore, merge_scores, with_shares, word_groups

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PlotKind = Literal["bars", "waterfall", "heatmap"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Attribution(Contents):
    """The scores of K targets over U units at L layers, and everything needed to read, show and store them.

    `a["positive"]` or `a[3]` is one target, `a.layer(2)` one layer, `a.group("sentence")` has coarser units and
    `a.group_targets("sentence")` coarser targets: all are attributions, and sums stay.
    """

    kind = "attribution"
    described = "an attribution"

    @property
    def scored(self) -> "Attribution":
        """The result itself; for citations, their attribution."""
        return self

    # Choosing

    def __iter__(self) -> "Iterator[Attribution]":
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, target: str | SupportsIndex) -> "Attribution":
        """Return the result for one target, without the target axis.

        A generated token is explained by what was read before it.

        Args:
            target: Its name, or its index, negative from the end.
        """
        return of_target(self, target)

    def _transformed(self, change: Callable[[FloatArray], Any], **fields: Any) -> "Attribution":
        """Return the result with a function applied to its scores, bias and sink, and other fields replaced."""
        for name in ("scores", "bias", "sink"):
            values = getattr(self, name)
            fields[name] = None if values is None else np.array(change(values), np.float32)
        return replace(self, **fields)

    def layer(self, layer: int) -> "Attribution":
        """Take one layer out of a result that has several.

        Raises:
            MethodError: If the result has no such layer, or no layer axis.
        """
        if self.layers is None or layer not in self.layers:
            raise MethodError(f"no layer {layer} among {self.layers}")
        index = self.layers.index(layer)
        layer_axis = 1 if self.has_target_axis else 0
        return self._transformed(lambda scores: scores.take(index, layer_axis), layers=None)

    def whole(self) -> "Attribution":
        """Return the sum over the targets of a completion, the attribution of the whole answer.

        Raises:
            DataError: If the targets are not parts of one answer.
        """
        if not self.has_target_axis:
            return self
        if self.completion is None:
            raise DataError(f"{len(self.targets)} targets are not parts of one answer; choose one")
        target = Target("part", self.completion, span=(len(self.prompt or ""), len(self.text or "")))
        # Predictions and diagnostics are of single parts, and are not summed.
        return self._transformed(
            lambda scores: scores.sum(0, dtype=np.float64),
            targets=(target,),
            predictions=(),
            generated=(),
            diagnostics={},
        )

    def _summed(self, purpose: str) -> "Attribution":
        """Return the result with one score for each unit, of a completion the sum over the answer."""
        summed = self if self.completion is None else self.whole()
        if summed.scores.ndim != 1:
            raise DataError(f"{purpose} needs one score for each unit; choose with a[target] or a.layer(...)")
        return summed

    # Coarser units and targets

    @property
    def has_words(self) -> bool:
        """Whether the text and offsets that `words` needs are known."""
        return self.units.spans is not None and self.text is not None

    def words(self, merge: Merge | None = None, *, sequence: int | None = None) -> list[UnitScore]:
        """Merge tokens to the words of the original text.

        Words are those that the caller has split, or else those that people see: "don't" and "state-of-the-art" are one
        each, whatever the tokenizer does.

        Args:
            merge: How a word's score comes from its tokens': "sum", "max" (largest magnitude, sign kept), "mean"
                or "first"; by default as fits the method, see the attribute `merge`.
            sequence: Which of two texts, 0 or 1; None for both.

        Returns:
            The words in the order of the text, each with the leading axes of `scores`; special tokens are left out.

        Raises:
            DataError: If the text is not known, or its tokens could not be found in it.
            InputError: If the way to merge is unknown.
        """
        if self.offsets is None or self.text is None:
            raise DataError("words need the text and the character offsets of its tokens")
        words: list[UnitScore] = []
        for number, text in enumerate((self.text, self.text_pair)):
            if text is not None and sequence in (None, number):
                words += self._words_of(text, number, merge or self.merge)
        return words if self.scores.ndim > 1 else with_shares(words)  # a share is of a single score

    def _words_of(self, text: str, sequence: int, merge: Merge) -> list[UnitScore]:
        """Return the words of one text, without their shares.

        Args:
            text: The text.
            sequence: Which of two texts it is, 0 or 1.
            merge: How a word's score comes from its tokens'.
        """
        tokens = [
            (token, *span)
            for token, span in enumerate(self.offsets or ())
            if self.units.sequence[token] == sequence and not self.units.special[token]
        ]
        # The first generated token begins a word; without a completion no word ends at a boundary.
        completion_start = min((start for token, start, _ in tokens if token in self.answer_units), default=0)
        words = []
        for start, end, word_tokens in word_groups(text, tokens, completion_start, self.units.words):
            score = merge_scores(self.scores[..., word_tokens], merge)
            words.append(UnitScore(text[start:end], tuple(word_tokens), score, start, end, sequence=sequence))
        return words

    def group(self, by: SourceSpec) -> "Attribution":
        """Return the same with coarser units, each with the sum of its units' scores; of words as the method merges.

        Args:
            by: "word", "sentence", "paragraph", "message" or named spans of characters of the text (of the prompt,
                where there is a completion). Beside spans, regions of its picture: (left, top, right, bottom) in
                pixels of the picture that was given; of several pictures with the picture's number, from 0, first.
                Of its only sound seconds (start, end), of which one has a fraction if there is a text.

        What is in no group is the unit "rest", what the answer's own tokens contribute the unit "answer"; each picture
        and sound is a unit with the sum of its parts. A patch that lies partly in a region counts by the share of its
        area, a moment by that of its time; what no region holds is "the rest of" the picture or sound.

        Raises:
            DataError: If tokens could not be found in the text.
            InputError: If there is no such kind or span.
        """
        # Beside media words are sums, too, as a medium is the sum of its parts.
        return grouped(self, by, self.merge if by == "word" and not self.media else "sum")

    def group_targets(self, parts: PartSpec) -> "Attribution":
        """Return the same with coarser targets: the sums over the generated tokens of each part of the answer.

        Args:
            parts: A generated token's index, a span of characters of the completion, "all" of it (or None); a target
                for each of a list of indices, of spans by name, or for each "token", "word", "sentence" or "paragraph".

        Raises:
            DataError: If nothing was generated, or its tokens could not be found in the text.
            InputError: If there is no such part.
        """
        return grouped_targets(self, parts)

    def sources(self, sources: SourceSpec = "sentence", parts: PartSpec = None) -> "Attribution":
        """Return which sentences, messages or documents of the prompt each part of the answer rests on.

        It is `group`, of words too by sums, and `group_targets`, always with a target axis.

        Args:
            sources: The units, as in `group`.
            parts: The targets, as in `group_targets`.

        Raises:
            DataError: As `group` and `group_targets`.
            InputError: As these.
        """
        if self.completion is None:
            return grouped(self, sources)
        return grouped(self.group_targets(parts), sources)  # in this order the parts of the answer are units, too

    def through(self, spans: Literal["reasoning"] | Sequence[Span] | None = None) -> "Attribution":
        """Return what the parts of an answer rest on through its own earlier words.

        A part's score of an earlier part is passed on to what that one rests on, in proportion to its positive scores,
        until the prompt is reached. Sums, `bias` and `sink` stay.

        Args:
            spans: Which parts are passed through: those in spans (start, end) of characters of the completion, or in
                its `reasoning`; by default all.

        Raises:
            DataError: If the parts of the answer are not both targets and units.
            InputError: If no part lies there.
        """
        return passed_through(self, spans)

    def top(self, k: int = 5, *, special: bool = False, lowest: bool = False) -> list[UnitScore]:
        """Return the `k` units with the highest scores, ties by position.

        Special units and the token at which an answer is read (`reads_at`) are left out. Of a completion the units are
        those of the prompt, by their scores for the whole answer.

        Args:
            k: How many.
            special: Whether special units and the one at `reads_at` may appear.
            lowest: Whether those with the lowest scores are returned, the lowest first.

        Raises:
            DataError: If there are several labels or layers; choose with a[target] and a.layer(...) first.
            InputError: If `k` is negative.
        """
        if k < 0:
            raise InputError(f"k must be at least 0, not {k}")
        summed = self._summed("top()")
        left_out = {*self.answer_units}
        if not special:
            left_out |= {self.reads_at, *np.flatnonzero(self.units.special).tolist()}
        order = np.argsort(summed.scores if lowest else -summed.scores, kind="stable").tolist()
        ranked = [unit for unit in order if unit not in left_out]
        return list(map(summed._scored_unit, ranked[:k]))

    def _scored_unit(self, unit: int) -> UnitScore:
        """Return a unit with its score and its share, of a result with one score for each unit."""
        units = self.units
        start, end = units.spans[unit] if units.spans else (0, 0)
        return UnitScore(
            units.text[unit],
            tokens=(unit,),
            score=float(self.scores[unit]),
            start=start,
            end=end,
            sequence=units.sequence[unit],
            name=self.unit_names[unit],
            share=float(self.shares[unit]),
        )

    # Files

    def validate(self) -> None:
        """Raise ValueError if the fields do not fit together, such as a score for each of too few tokens."""
        count = len(self.units)
        self.units.validate()
        check_scores(self)
        check_answer(self)
        check_spans(self)
        for medium in self.media:
            medium.validate(count)
        if self.verified is not None:
            self.verified.validate(count)

    def _bias_shape(self, shape: Indices) -> Indices:
        """Return the shape that `bias` and `sink` must have; a result of an extension may have another.

        Args:
            shape: The sizes of the axes of targets and layers, as far as `scores` has them.
        """
        return shape

    def _without_units(self) -> Fields:
        """Return what holds something of single units, cleared for a result of coarser ones."""
        return {"media": (), "prompt_tokens": None, "token_predictions": None, "verified": None}

    # Drawings

    @property
    def title(self) -> str:
        """The heading of a page of such results."""
        if self.targets[0].kind == "part":
            return "An answer and the sources it rests on"
        return "What the answer rests on" if self.completion is None else "Generated text and what it rests on"

    def plot(self, kind: PlotKind | None = None, *, k: int | None = None) -> "Figure":
        """Return the scores as a matplotlib figure; its `savefig` writes SVG, PDF or PNG.

        Args:
            kind: "bars", one for each word in the order of the text; "waterfall", from the bias over the strongest
                words to the sum, of methods whose scores add up; "heatmap", a row for each target and layer. By default
                what fits the scores: pictures and sounds in their colours, a heat map of what each part of an answer
                rests on, bars of other results.
            k: How many words, units or pictures: the strongest.

        Raises:
            InputError: If there is no such kind, or an argument is not for it.
            DataError: If matplotlib is missing, scores that do not add up are asked for as a waterfall, or bars or a
                waterfall are asked for and there are several targets or layers.
        """
        return for_kind_of(self, "figures")(self, kind, k=k)

    def heading(self) -> str:
        """Return what was explained: the part of an answer, or the text with its media."""
        if self.targets[0].kind == "part" and self.completion is not None:
            return self.completion
        media = [medium.name for medium in self.media] if self.completion is None else []
        return " / ".join(filter(None, (self.prompt, self.text_pair, *media))) or "".join(self.tokens)

    def short_text(self) -> str:
        """Return the text, its answer and the words of the highest scores, in one line."""
        return summary_of(self)
