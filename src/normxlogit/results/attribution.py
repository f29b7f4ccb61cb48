"""The result: one frozen `Attribution` for each explained text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

from ..errors import DataError, MethodError, TargetError
from .base import FORMAT_VERSION, FloatArray, Result
from .fields import (
    Check,
    agree,
    array,
    check_besides,
    choice,
    current_bias,
    each,
    flag,
    integer,
    mapping,
    number,
    optional,
    record,
    scores,
    setting,
    string,
)
from .tables import Columns, Shap, text_pieces, token_columns
from .words import MERGES, Merge, Word, merge_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..render.plots import PlotKind

__all__ = ["Attribution", "Merge", "Prediction", "TargetInfo", "Token", "Word"]


class Prediction(NamedTuple):
    """What the model says.

    Attributes:
        label: Label name or token string; for regression the name of the output.
        id: Class or vocabulary index.
        value: The logit, or the regression output.
        probability: Softmax (or, for several labels at once, sigmoid) probability; None for regression.
    """

    label: str
    id: int
    value: float
    probability: float | None


@dataclass(frozen=True)
class TargetInfo:
    """What the scores explain.

    Attributes:
        kind: "label", "value" (regression) or "token" (language models).
        labels: One name for each entry of the label axis; a single one when there is no such axis.
        ids: Their class or vocabulary indices.
        contrast: Name of the class or token that is subtracted, if any.
        contrast_id: Its index.
        position: Index of the token whose prediction is explained (language models), counted in `tokens`.
    """

    kind: Literal["label", "value", "token"]
    labels: tuple[str, ...]
    ids: tuple[int, ...]
    contrast: str | None = None
    contrast_id: int | None = None
    position: int | None = None


class Token(NamedTuple):
    """One token with its score, as `Attribution.top` returns it."""

    position: int
    text: str
    score: float


PREDICTION = record(Prediction, {"label": string, "id": integer, "value": number, "probability": optional(number)})
TARGET = record(
    TargetInfo,
    {
        "kind": choice("label", "value", "token"),
        "labels": each(string),
        "ids": each(integer),
        "contrast": optional(string),
        "contrast_id": optional(integer),
        "position": optional(integer),
    },
)
SPAN = each(integer, 2)
"""How the fields of predictions, targets and offsets are checked when they are read."""


@dataclass(frozen=True, eq=False, repr=False)
class Attribution(Result):
    """Scores of the tokens of one text, and everything needed to read, show and store them.

    Attributes:
        scores: float32, one axis for each thing asked for, in the order (label, layer, token): `(T,)` by default,
            `(C, T)` for all labels, `(L, T)` for layers, `(C, L, T)` for both.
        tokens: The T tokens as readable strings.
        token_ids: Their vocabulary indices; empty for pictures and sounds, which have none.
        offsets: Character spans `(start, end)` in the original text (of the token's sequence); `(0, 0)` for
            special tokens; None when the tokenizer cannot tell.
        word_ids: Index of the word of each token within its sequence, None for special tokens.
        sequence_ids: 0 or 1 (second text of a pair), None for special tokens.
        special_tokens_mask: True where the tokenizer added the token.
        text: The original text, None if the input was already encoded.
        text_pair: The second text of a pair.
        prediction: What the model said.
        target: What the scores explain.
        layers: The layers on the layer axis, None when there is no such axis.
        token_predictions: What the head says at each single token, at the last layer (the paper's figure 1b);
            None where it was not computed.
        method: Name of the method.
        settings: The method's settings.
        model: Name of the model.
        signed: Whether negative scores mean evidence against the target.
        notes: What the reader should know, such as a text cut to the model's length.
        version: Version of the library.
        diagnostics: What the method measured of itself, by name, such as the "convergence_error" of Integrated
            Gradients; a tuple with one number for each label where there is a label axis.
        bias: float32, one for each label and layer of `scores` and without axes where these have none: what belongs to
            no token. `scores.sum(-1) + bias`, and `sink` where there is one, is what is explained: the target's logit
            (less the contrast's, or of a vocabulary without one less its mean). None where the scores do not add up to
            it.
        sink: float32, of the shape of `bias`: what attention sinks contribute, which is in no token's score. None
            without sinks.
        sinks: Indices of the tokens that are attention sinks.
        merge: How the score of a word comes from its tokens' unless `words` is told otherwise: "sum" where scores add
            up, "max" or "mean" where a sum would grow with the number of tokens.
        format_version: Version of the JSON format.
    """

    kind: ClassVar = "text"
    described: ClassVar = "an attribution"

    scores: FloatArray
    tokens: tuple[str, ...]
    token_ids: tuple[int, ...]
    offsets: tuple[tuple[int, int], ...] | None
    word_ids: tuple[int | None, ...] | None
    sequence_ids: tuple[int | None, ...]
    special_tokens_mask: tuple[bool, ...]
    text: str | None
    text_pair: str | None
    prediction: Prediction
    target: TargetInfo
    layers: tuple[int, ...] | None
    token_predictions: Sequence[Prediction] | None
    method: str
    settings: Mapping[str, Any]
    model: str
    signed: bool
    notes: tuple[str, ...]
    version: str
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    bias: FloatArray | None = None
    sink: FloatArray | None = None
    sinks: tuple[int, ...] = ()
    merge: Merge = "sum"
    format_version: int = field(default=FORMAT_VERSION)

    @property
    def has_label_axis(self) -> bool:
        """Whether the first axis of `scores` runs over labels."""
        return self.scores.ndim - 1 - (self.layers is not None) == 1

    def __len__(self) -> int:
        return len(self.tokens)

    def select(self, *, label: str | int | None = None, layer: int | None = None) -> "Attribution":
        """Take one label or one layer out of a result that has several.

        Args:
            label: Label name or class index on the label axis.
            layer: Layer number on the layer axis.

        Returns:
            The same result without the axis (or axes) chosen from.

        Raises:
            TargetError: If the result has no such label, or no label axis.
            MethodError: If it has no such layer, or no layer axis.
        """
        scores, target, layers, diagnostics = self.scores, self.target, self.layers, self.diagnostics
        besides = [self.bias, self.sink]
        if label is not None:
            names: tuple[str | int, ...] = target.labels if isinstance(label, str) else target.ids
            if not self.has_label_axis or label not in names:
                raise TargetError(f"no label {label!r} among {list(target.labels)}")
            index = names.index(label)
            scores, besides = scores[index], [None if v is None else v[index] for v in besides]
            target = replace(target, labels=(target.labels[index],), ids=(target.ids[index],))
            diagnostics = {name: values[index] for name, values in diagnostics.items()}
        if layer is not None:
            if layers is None or layer not in layers:
                raise MethodError(f"no layer {layer} among {layers}")
            index = layers.index(layer)
            scores, layers = np.take(scores, index, axis=-2), None
            besides = [None if v is None else v[..., index] for v in besides]
        bias, sink = (None if value is None else np.array(value) for value in besides)
        about = {"target": target, "layers": layers, "diagnostics": diagnostics}
        return replace(self, scores=scores.copy(), bias=bias, sink=sink, **about)  # type: ignore[arg-type]

    @property
    def has_words(self) -> bool:
        """Whether `words` can tell the words of the text."""
        return self.offsets is not None and self.text is not None

    def words(self, merge: Merge | None = None) -> list[Word]:
        """Merge tokens to the words of the original text.

        Words are those that people see: "don't" and "state-of-the-art" are one each, whatever the tokenizer does.

        Args:
            merge: How a word's score comes from its tokens': "sum", "max" (largest magnitude, sign kept), "mean"
                or "first"; by default as fits the method, see the attribute `merge`.

        Returns:
            The words in the order of the text; special tokens are left out.

        Raises:
            DataError: If the tokenizer gave no offsets or the input was already encoded.
            InputError: If there is no such way to merge.
        """
        if self.offsets is None or self.text is None:
            raise DataError("words need the original text and a tokenizer that reports character offsets")
        texts = [self.text] if self.text_pair is None else [self.text, self.text_pair]
        sequences = [None if m else s for m, s in zip(self.special_tokens_mask, self.sequence_ids, strict=True)]
        return merge_words(self.scores, texts, self.offsets, sequences, merge or self.merge)

    def top(self, k: int = 5, *, special: bool = False) -> list[Token]:
        """Return the `k` tokens with the highest scores, ties by position.

        Args:
            k: How many.
            special: Whether special tokens may appear.

        Raises:
            DataError: If the result has a label or layer axis; use `select` first.
        """
        if self.scores.ndim != 1:
            raise DataError("top() needs one score for each token; choose with select(label=..., layer=...)")
        order = np.argsort(-self.scores, kind="stable")
        kept = [int(i) for i in order if special or not self.special_tokens_mask[i]]
        return [Token(i, self.tokens[i], float(self.scores[i])) for i in kept[:k]]

    @classmethod
    def _current(cls, state: Mapping[str, Any]) -> Mapping[str, Any]:
        return current_bias(state)

    @classmethod
    def _checks(cls) -> dict[str, Check]:
        return {
            "scores": scores,
            "tokens": each(string),
            "token_ids": each(integer),
            "offsets": optional(each(SPAN)),
            "word_ids": optional(each(optional(integer))),
            "sequence_ids": each(optional(integer)),
            "special_tokens_mask": each(flag),
            "text": optional(string),
            "text_pair": optional(string),
            "prediction": PREDICTION,
            "target": TARGET,
            "layers": optional(each(integer)),
            "token_predictions": optional(each(PREDICTION)),
            "method": string,
            "settings": mapping(setting),
            "model": string,
            "signed": flag,
            "notes": each(string),
            "version": string,
            "diagnostics": mapping(array(number)),
            "bias": optional(scores),
            "sink": optional(scores),
            "sinks": each(integer),
            "merge": choice(*MERGES),
            "format_version": integer,
        }

    def _check(self) -> None:
        count, labels = len(self.tokens), self.target.labels
        for name in ("offsets", "word_ids", "sequence_ids", "special_tokens_mask", "token_predictions"):
            values = getattr(self, name)
            agree(values is None or len(values) == count, f"{name}: not one for each of {count} tokens")
        agree(len(self.token_ids) in (0, count), f"token_ids: not one for each of {count} tokens")
        agree(len(labels) == len(self.target.ids) > 0, "target: not one id for each label")
        axes = self.scores.ndim - 1 - (self.layers is not None)
        agree(axes in (0, 1), "scores: not the axes of its labels and layers")
        agree(self.scores.shape[-1] == count, f"scores: not one for each of {count} tokens")
        agree(not axes or len(self.scores) == len(labels), "scores: not one row for each label")
        agree(
            self.layers is None or self.scores.shape[-2] == len(self.layers) > 0, "scores: not one row for each layer"
        )
        agree(all(s in (None, 0, 1) for s in self.sequence_ids), "sequence_ids: neither 0 nor 1")
        agree(
            not axes or all(isinstance(v, tuple) and len(v) == len(labels) for v in self.diagnostics.values()),
            "diagnostics: not one for each label",
        )
        self._check_bias()
        texts = (self.text, self.text_pair)
        for (start, end), sequence in zip(self.offsets or (), self.sequence_ids, strict=False):
            text = texts[sequence or 0]
            agree(start <= end and (text is None or end <= len(text)), "offsets: outside the text")

    def _check_bias(self) -> None:
        check_besides(self.bias, self.sink, self.sinks, self.scores.shape)

    def _columns(self) -> Columns:
        every = [(label, layer) for label in self.target.labels for layer in self.layers or (None,)]
        if not self.has_label_axis:
            every = [(self.target.labels[0], layer) for layer in self.layers or (None,)]
        tokens = token_columns(self.tokens, self.token_ids, self.offsets, self.sequence_ids, self.special_tokens_mask)
        count = len(self)
        return {
            "label": [label for label, _ in every for _ in range(count)],
            "layer": [layer for _, layer in every for _ in range(count)],
            **{name: values * len(every) for name, values in tokens.items()},
            "score": self.scores.reshape(-1).tolist(),
        }

    def _shap(self) -> Shap:
        if self.layers is not None:
            raise DataError("SHAP's plots know no layers; choose one with select(layer=...)")
        pieces = text_pieces(self.tokens, (self.text, self.text_pair), self.offsets, self.sequence_ids)
        names = self.target.labels if self.has_label_axis else self.target.labels[0]
        return Shap(self.scores.T, self._base(), pieces, names)

    def _base(self) -> FloatArray:
        """Return what the scores add up from, one for each label: the bias, or zero where there is none."""
        base = np.zeros(self.scores.shape[:-1], np.float32)
        return sum((part for part in (self.bias, self.sink) if part is not None), base)

    def plot(
        self,
        kind: "PlotKind | None" = None,
        *,
        k: int | None = None,
        words: bool | None = None,
        merge: Merge | None = None,
    ) -> "Figure":
        """Return the scores as a matplotlib figure; its `savefig` writes SVG, PDF or PNG.

        Args:
            kind: "bars", one for each word in the order of the text; "waterfall", from the bias over the strongest
                words to the sum, of methods whose scores add up; "heatmap", a row for each label and layer. By default
                what fits the scores.
            k: How many words: the strongest.
            words: Whether to merge tokens to words; by default where the result can tell them.
            merge: How, see `words`.

        Raises:
            DataError: If matplotlib is missing, or scores that do not add up are asked for as a waterfall.
            ValueError: If bars or a waterfall are asked for and there are several labels or layers; use `select`.
        """
        from ..render.plots import plot_attribution

        return plot_attribution(self, kind, k=k, words=words, merge=merge)

    def _page(self) -> str:
        from ..render.html import page

        content: str = page([self])
        return content

    def _repr_html_(self) -> str:
        from ..render.html import fragment

        return fragment(self)

    def __str__(self) -> str:
        from ..render.terminal import to_text

        return to_text(self)

    def _shown(self) -> str:
        shape = "x".join(map(str, self.scores.shape))
        return f"{self.method}, {self.prediction.label!r}, target={list(self.target.labels)}, {shape}"
