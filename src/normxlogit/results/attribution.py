"""`Attribution`, the one result type of all tasks and methods."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from ..errors import DataError, InputError, MethodError
from ..text.characters import Span
from .base import Record, for_kind_of
from .choosing import of_target
from .consistency import check_answer, check_scores, check_spans
from .storage.schema import Fields, FloatArray, Index, IndexSpans, Indices, Measured, Strings
from .summary import summary_of
from .targets import Prediction, Quantity, Target, prediction_of
from .units.grouping import grouped, grouped_targets
from .units.kinds import Merge
from .units.media import Medium
from .units.spans import MessageSpan, PartSpec, SourceSpec
from .units.through import passed_through
from .units.units import Units, UnitScore, merge_scores, with_shares, word_groups
from .verification import Verification

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..media.units import PictureScores, SoundScores

PlotKind = Literal["bars", "waterfall", "heatmap"]

TRUNCATED = re.compile(r"only the (first|last) \d+ were read")
"""The note of a text that was cut to the model's length."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Attribution(Record):
    """The scores of K targets over U units at L layers, and everything needed to read, show and store them.

    `a["positive"]` or `a[3]` is one target, `a.layer(2)` one layer, `a.group("sentence")` has coarser units and
    `a.group_targets("sentence")` coarser targets: all are attributions, and sums stay.

    Attributes:
        scores: float32, one axis for each requested dimension, in the order (target, layer, unit): (U,) for one label,
            (K, U) for several labels or for the tokens of a completion, (L, U) and (K, L, U) with layers.
        units: The units that have scores.
        targets: The explained targets; a single one if there is no such axis.
        layers: The layers on the layer axis, None when there is no such axis.
        bias: float32, with the axes of `scores` but the last: `scores.sum(-1) + bias`, and `sink` where there is one,
            is the explained quantity: the target's logit, minus the contrast's or, for a vocabulary without a contrast,
            minus the mean logit. None if the scores do not add up.
        sink: float32, of the shape of `bias`: what attention sinks contribute, which is in no unit's score. None
            without sinks.
        sinks: Indices of the units that are attention sinks, or hold one.
        text: The text that was read, with the completion; None if it is not known.
        text_pair: The second text of a pair.
        completion: The generated part of the text; None if nothing was generated.
        reasoning: The spans (start, end) of the completion, in its characters, in which the model reasons.
        marked_reasoning: The same with the marks around them.
        prompt_tokens: P, how many units are tokens before the first generated one; None if nothing was generated.
        messages: The spans of chat messages in the text; None for a prompt that was one text.
        media: What was read beside the text, such as pictures and sounds; see `scored_media`.
        predictions: The model's answer: one for the input, or for each generated token the likeliest at its position.
        generated: The generated tokens with their logits and probabilities.
        token_predictions: The head's prediction at each single token, at the last layer (the paper's figure 1b); of a
            cosine that of each token's state with the other text's vector. None if it was not computed.
        method: Name of the method, which has `settings`.
        model: Name of the model.
        signed: Whether negative scores mean evidence against the target.
        merge: How a word's score comes from its tokens': "sum" where scores add up, otherwise "max" or "mean".
        quantity: What was explained, to which the scores add up where they do, such as "logit less the contrast's".
        notes: Notes for the reader, such as a text cut to the model's length.
        diagnostics: What the method measured of itself, by name, such as the "convergence_error" of Integrated
            Gradients: a number, or a tuple with one for each target.
        verified: The model's answers without the units of the highest scores; None if not requested.
        version: Version of the library.
    """

    kind = "attribution"
    described = "an attribution"

    scores: FloatArray
    units: Units
    targets: tuple[Target, ...]
    method: str
    settings: Mapping[str, Any]
    model: str
    signed: bool
    version: str
    layers: Indices | None = None
    bias: FloatArray | None = None
    sink: FloatArray | None = None
    sinks: Indices = ()
    text: str | None = None
    text_pair: str | None = None
    completion: str | None = None
    reasoning: IndexSpans = ()
    marked_reasoning: IndexSpans = ()
    prompt_tokens: Index | None = None
    messages: tuple[MessageSpan, ...] | None = None
    media: tuple[Medium, ...] = ()
    predictions: tuple[Prediction, ...] = ()
    generated: tuple[Prediction, ...] = ()
    token_predictions: Sequence[Prediction] | None = None
    merge: Merge = "sum"
    quantity: Quantity = "logit"
    notes: Strings = ()
    diagnostics: Mapping[str, Measured] = field(default_factory=dict)
    verified: Verification | None = None

    # Content

    @property
    def scored(self) -> "Attribution":
        """The result itself; for citations, their attribution."""
        return self

    @property
    def has_target_axis(self) -> bool:
        """Whether the first axis of `scores` runs over targets."""
        return self.scores.ndim - 1 - (self.layers is not None) == 1

    @property
    def target(self) -> Target:
        """The explained target; DataError if there are several."""
        first, *more = self.targets
        if more:
            raise DataError(f"{1 + len(more)} targets; choose one, as in a[0] or a[{first.name!r}]")
        return first

    @property
    def prediction(self) -> Prediction:
        """The model's prediction for the input.

        Raises:
            DataError: If it predicts nothing, or the tokens of a completion: see `predictions`.
        """
        if (prediction := prediction_of(self)) is None:
            raise DataError("there is no single prediction; of a completion see predictions, or a[0].prediction")
        return prediction

    @property
    def tokens(self) -> Strings:
        """The texts of the text units, without those of pictures and sounds."""
        return self.units.text[: self.text_units]

    @property
    def token_ids(self) -> Indices:
        """The tokens' vocabulary indices; empty if there are none."""
        return tuple(index for index in self.units.ids[: self.text_units] if index is not None)

    @cached_property
    def offsets(self) -> IndexSpans | None:
        """The units' character spans in their texts; None if they are not known."""
        return None if self.units.spans is None else self.units.spans[: self.text_units]

    @cached_property
    def special_tokens_mask(self) -> tuple[bool, ...]:
        """Which tokens are special tokens, or were written by a chat template."""
        return self.units.special[: self.text_units]

    @cached_property
    def text_units(self) -> int:
        """The number of text units, which come first; all units if the input is a picture or a sound alone."""
        first = min((medium.first for medium in self.media), default=len(self.units))
        return first if self.has_text else len(self.units)

    @cached_property
    def answer_units(self) -> range:
        """The indices of the units that are tokens of the answer itself."""
        return range(self.text_units if self.prompt_tokens is None else self.prompt_tokens, self.text_units)

    @cached_property
    def explains_itself(self) -> bool:
        """Whether the targets are the generated tokens themselves, and not others in their place."""
        return bool(self.generated) and [t.id for t in self.targets] == [token.id for token in self.generated]

    @cached_property
    def target_spans(self) -> list[Span]:
        """The span of each target in the text, (0, 0) of a target without characters."""
        return [target.span or (0, 0) for target in self.targets]

    @cached_property
    def earlier_parts(self) -> dict[Span, int]:
        """The parts of an answer that are units: the unit of each span."""
        columns = zip(self.units.kind, self.units.sequence, self.units.spans or (), strict=False)
        units = enumerate(columns)
        return {span: unit for unit, (kind, text, span) in units if kind == "answer" and text is not None}

    @cached_property
    def has_text(self) -> bool:
        """Whether a text was read or generated, rather than a picture or a sound alone."""
        return bool(self.text or self.text_pair) or self.completion is not None or not self.media

    @cached_property
    def unit_names(self) -> Strings:
        """What each unit is called, if that is not its text: of a patch its box in pixels, of a moment its seconds."""
        names = list(self.units.names)
        for medium in self.media:
            names[medium.units] = medium.part_names
        return tuple(names)

    @cached_property
    def scored_media(self) -> tuple[Medium, ...]:
        """The media of the input, each with the scores of its units in their shape."""
        axes = self.scores.shape[:-1]
        return tuple(replace(m, scores=self.scores[..., m.units].reshape(*axes, *m.shape)) for m in self.media)

    @property
    def images(self) -> "tuple[PictureScores, ...]":
        """The pictures of `scored_media`, with the scores of their patches."""
        return tuple(medium for medium in self.scored_media if medium.kind == "picture")  # type: ignore[misc]

    @property
    def audio(self) -> "tuple[SoundScores, ...]":
        """The sounds of `scored_media`, with the scores of their moments."""
        return tuple(medium for medium in self.scored_media if medium.kind == "sound")  # type: ignore[misc]

    @cached_property
    def reads_at(self) -> int | None:
        """Index of the token at which a token is predicted: the last one read, or the mask; None for other answers.

        Its score reflects that a prediction is made there rather than which one, so rankings and colours leave it out.
        """
        positions = {target.position if target.kind == "token" else None for target in self.targets}
        return positions.pop() if len(positions) == 1 else None

    @cached_property
    def prompt(self) -> str | None:
        """The text before the completion; of chat messages as the template renders them."""
        if self.text is None or self.completion is None:
            return self.text
        return self.text[: len(self.text) - len(self.completion)]

    @property
    def truncated(self) -> bool:
        """Whether the model read only a part of the text, because it is longer than the model reads."""
        return any(TRUNCATED.search(note) for note in self.notes)

    @cached_property
    def shares(self) -> FloatArray:
        """Each unit's share of the sum of positive scores, of the shape of `scores`; special units have none."""
        positive = np.where(self.units.special, 0, np.maximum(self.scores, 0))  # (..., U)
        total = positive.sum(-1, keepdims=True)
        shares = np.asarray(positive / np.where(total > 0, total, 1), np.float32)
        shares.flags.writeable = False  # kept with the result, as its scores
        return shares

    def __len__(self) -> int:
        """Return K, the number of targets."""
        return len(self.targets)

    # Choosing

    def __iter__(self) -> "Iterator[Attribution]":
        return (self[index] for index in range(len(self)))

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
        return self._transformed(lambda scores: scores.take(index, int(self.has_target_axis)), layers=None)

    def whole(self) -> "Attribution":
        """Return the sum over the targets of a completion, the attribution of the whole answer.

        Raises:
            DataError: If the targets are not parts of one answer.
        """
        return self._whole

    @cached_property
    def _whole(self) -> "Attribution":
        """What `whole` returns, which drawings need several times."""
        if not self.has_target_axis:
            return self
        if self.completion is None:
            raise DataError(f"{len(self.targets)} targets are not parts of one answer; choose one")
        target = Target("part", self.completion, span=(len(self.prompt or ""), len(self.text or "")))
        cleared: Fields = {"predictions": (), "generated": (), "diagnostics": {}}
        return self._transformed(lambda scores: scores.sum(0, dtype=np.float64), targets=(target,), **cleared)

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
        return words if self.scores.ndim > 1 else with_shares(words)

    def _words_of(self, text: str, sequence: int, merge: Merge) -> list[UnitScore]:
        """Return the words of one text, without their shares; the first generated token begins a word."""
        columns = zip(self.offsets or (), self.units.sequence, self.units.special, strict=False)
        tokens = [
            (token, *span)
            for token, (span, of_text, is_special) in enumerate(columns)
            if of_text == sequence and not is_special
        ]
        generated = [start for token, start, _ in tokens if token in self.answer_units]
        return [
            UnitScore(
                text[start:end], tuple(members), merge_scores(self.scores[..., members], merge), start, end, sequence
            )
            for start, end, members in word_groups(text, tokens, min(generated, default=0), self.units.words)
        ]

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
        return grouped(self, by, self.merge if by == "word" and not self.media else "sum")

    def group_targets(self, parts: PartSpec) -> "Attribution":
        """Return the same with coarser targets: the sums over the generated tokens of each part of the answer.

        Args:
            parts: A generated token's index, a span of characters of the completion, "all" of it (or None); a target
                for each of a list of indices or for each "token", "word", "sentence" or "paragraph".

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
        hidden = {*self.answer_units}
        if not special:
            hidden |= {self.reads_at, *np.flatnonzero(self.units.special).tolist()}
        order = np.argsort(summed.scores if lowest else -summed.scores, kind="stable").tolist()
        shown = [unit for unit in order if unit not in hidden][:k]
        return [summed._scored_unit(unit, self.unit_names[unit]) for unit in shown]

    def _scored_unit(self, unit: int, name: str) -> UnitScore:
        """Return a unit with its score and its share, of a result with one score for each unit."""
        units = self.units
        start, end = units.spans[unit] if units.spans else (0, 0)
        score, share = float(self.scores[unit]), float(self.shares[unit])
        return UnitScore(units.text[unit], (unit,), score, start, end, units.sequence[unit], name, share)

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
        """Return the shape of `bias` and `sink` for the axes of targets and layers."""
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

    def plot(self, kind: PlotKind | None = None, *, k: int | None = None, words: bool | None = None) -> "Figure":
        """Return the scores as a matplotlib figure; its `savefig` writes SVG, PDF or PNG.

        Args:
            kind: "bars", one for each word in the order of the text; "waterfall", from the bias over the strongest
                words to the sum, of methods whose scores add up; "heatmap", a row for each target and layer. By default
                what fits the scores: pictures and sounds in their colours, a heat map of what each part of an answer
                rests on, bars of other results.
            k: How many words, units or pictures: the strongest.
            words: Whether to merge tokens to words; by default where the result can tell them.

        Raises:
            InputError: If there is no such kind, or an argument is not for it.
            DataError: If matplotlib is missing, scores that do not add up are asked for as a waterfall, or bars or a
                waterfall are asked for and there are several targets or layers.
        """
        figure: Figure = for_kind_of(self, "figures")(self, kind, k=k, words=words)
        return figure

    def heading(self) -> str:
        """Return what was explained: the part of an answer, or the text with its media."""
        if self.targets[0].kind == "part" and self.completion is not None:
            return self.completion
        media = [medium.name for medium in self.media] if self.completion is None else []
        return " / ".join(t for t in (self.prompt, self.text_pair, *media) if t) or "".join(self.tokens)

    def short_text(self) -> str:
        """Return the text, its answer and the words of the highest scores, in one line."""
        return summary_of(self)
