"""What an attribution holds, and what follows from it: tokens, words, the prompt, shares."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError
from ..text.characters import Span
from .base import Record
from .storage.schema import FloatArray, Index, IndexSpans, Indices, Measured, Strings
from .targets import Prediction, Quantity, Target, common_position, prediction_of
from .units.kinds import Merge
from .units.media import Medium
from .units.spans import MessageSpan
from .units.units import Units
from .verification import Verification

if TYPE_CHECKING:
    from ..media.units import PictureScores, SoundScores

TRUNCATED = re.compile(r"only the (first|last) \d+ were read")
"""The note of a text that was cut to the model's length."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Contents(Record):
    """The fields of an attribution: the scores of K targets over U units at L layers, and what is known of them.

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

    @property
    def has_target_axis(self) -> bool:
        """Whether the first axis of `scores` runs over targets."""
        layer_axes = 0 if self.layers is None else 1
        return self.scores.ndim == 2 + layer_axes  # the last axis is that of units

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
        """The character spans of the text units, in their texts; None if they are not known."""
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
        target_ids = [target.id for target in self.targets]
        return bool(self.generated) and target_ids == [token.id for token in self.generated]

    @cached_property
    def target_spans(self) -> list[Span]:
        """The span of each target in the text, (0, 0) of a target without characters."""
        return [target.span or (0, 0) for target in self.targets]

    @cached_property
    def earlier_parts(self) -> dict[Span, int]:
        """The parts of an answer that are units: the unit of each span; the rest of an answer has no span."""
        return {
            span: unit
            for unit, span in enumerate(self.units.spans or ())
            if self.units.kind[unit] == "answer" and self.units.sequence[unit] is not None
        }

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
        axes = self.scores.shape[:-1]  # of targets and layers
        return tuple(
            replace(medium, scores=self.scores[..., medium.units].reshape(*axes, *medium.shape))
            for medium in self.media
        )

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
        are_tokens = all(target.kind == "token" for target in self.targets)
        return common_position(self.targets) if are_tokens else None

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
