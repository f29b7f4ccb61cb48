"""The result: one frozen `Attribution` for each explained text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..errors import DataError, TargetError
from .base import require
from .schema import FloatArray, Index
from .tables import Columns, Shap, text_pieces, text_row
from .targets import Prediction, TargetInfo
from .tokens import Token, TokenScores
from .verification import Verification
from .words import Merge

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..render.blocks import Block
    from ..render.plots import PlotKind


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Attribution(TokenScores):
    """Scores of the tokens of one text, and everything needed to read, show and store them.

    It has the attributes of `TokenScores` and of `Result`, and:

    Attributes:
        scores: float32, one axis for each requested dimension, in the order (label, layer, token): `(T,)` by default,
            `(C, T)` for all labels, `(L, T)` for layers, `(C, L, T)` for both.
        word_ids: Index of the word of each token within its sequence, None for special tokens.
        sequence_ids: 0 or 1 (second text of a pair), None for special tokens.
        text_pair: The second text of a pair.
        prediction: The model's prediction.
        target: What the scores explain.
        token_predictions: The head's prediction at each single token, at the last layer (the paper's figure 1b);
            None where it was not computed.
        diagnostics: As in `Result`; a tuple with one number for each label where there is a label axis.
        bias: float32, with the axes of `scores` but the last. `scores.sum(-1) + bias`, and `sink` where there is one,
            is the explained quantity: the target's logit, minus the contrast's or, for a vocabulary without a contrast,
            minus the mean logit. None where the scores do not add up to it.
        verified: What the model answers without the units of the highest scores; None where it was not asked.
    """

    kind: ClassVar = "text"
    described: ClassVar = "an attribution"
    title: ClassVar = "Token attributions"

    word_ids: tuple[Index | None, ...] | None
    sequence_ids: tuple[Index | None, ...]
    text_pair: str | None
    prediction: Prediction
    target: TargetInfo
    token_predictions: Sequence[Prediction] | None
    verified: Verification | None = None

    @property
    def has_label_axis(self) -> bool:
        """Whether the first axis of `scores` runs over labels."""
        return self.scores.ndim - 1 - (self.layers is not None) == 1

    @property
    def reads_at(self) -> int | None:
        """Index of the token at which a token is predicted: the last one read, or the mask; None for other answers.

        Its score says that an answer is due there more than which, so that rankings and colours go by the others.
        """
        return self.target.position if self.target.kind == "token" else None

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
        result = self if label is None else self._at_label(label)
        return result if layer is None else replace(result, **result._at_layer(layer))

    def centered(self) -> "Attribution":
        """Return the scores minus their mean over the tokens that are not special.

        Of scores that all have one sign, drawings show little else than what they share. Scores that add up still do:
        what is subtracted goes to the bias.
        """
        plain = ~np.array(self.special_tokens_mask, dtype=bool)  # (T,)
        means = self.scores[..., plain].mean(-1, keepdims=True) if plain.any() else np.float32(0)  # (..., 1)
        scores = np.where(plain, self.scores - means, self.scores)  # (..., T)
        bias = None
        if self.bias is not None and self.bias.shape == self.scores.shape[:-1]:  # not one for each text of a pair
            bias = np.array(self.bias + (self.scores - scores).sum(-1), np.float32)  # (...)
        settings = {**self.settings, "centered": True}
        return replace(self, scores=scores, bias=bias, settings=settings, signed=True)

    def _at_label(self, label: str | int) -> "Attribution":
        names: tuple[str | int, ...] = self.target.labels if isinstance(label, str) else self.target.ids
        if not self.has_label_axis or label not in names:
            raise TargetError(f"no label {label!r} among {list(self.target.labels)}")
        index = names.index(label)
        bias, sink = (None if v is None else np.array(v[index]) for v in (self.bias, self.sink))
        return replace(
            self,
            scores=self.scores[index].copy(),
            target=replace(self.target, labels=(self.target.labels[index],), ids=(self.target.ids[index],)),
            diagnostics={name: values[index] for name, values in self.diagnostics.items()},
            bias=bias,
            sink=sink,
            verified=self.verified if self.verified and self.verified.target == self.target.labels[index] else None,
        )

    def top(self, k: int = 5, *, special: bool = False, lowest: bool = False) -> list[Token]:
        """Return the `k` tokens with the highest scores, ties by position, without the one at `reads_at`.

        Args:
            k: How many.
            lowest: Whether those with the lowest scores are returned, the lowest first.
            special: Whether special tokens and the one at `reads_at` may appear.

        Raises:
            DataError: If the result has a label or layer axis; use `select` first.
        """
        if self.scores.ndim != 1:
            raise DataError("top() needs one score for each token; choose with select(label=..., layer=...)")
        ranked = self._ranked(-self.scores if lowest else self.scores, len(self), special=special)
        ranked = [token._replace(score=float(self.scores[token.position])) for token in ranked]
        return [token for token in ranked if special or token.position != self.reads_at][:k]

    def _texts(self) -> tuple[str | None, ...]:
        return (self.text, self.text_pair)

    def _sequences(self) -> Sequence[int | None]:
        return self.sequence_ids

    def _validate(self) -> None:
        count, labels = len(self.tokens), self.target.labels
        require(all(s in (None, 0, 1) for s in self.sequence_ids), "sequence_ids: neither 0 nor 1")
        self._validate_tokens("word_ids", "sequence_ids", "token_predictions")
        require(len(labels) == len(self.target.ids) > 0, "target: not one id for each label")
        axes = self.scores.ndim - 1 - (self.layers is not None)
        require(axes in (0, 1), "scores: not the axes of its labels and layers")
        require(self.scores.shape[-1] == count, f"scores: not one for each of {count} tokens")
        require(not axes or len(self.scores) == len(labels), "scores: not one row for each label")
        rows = self.scores.shape[-2] if self.layers is not None else 1
        require(rows == len(self.layers or (0,)) > 0, "scores: not one row for each layer")
        each = all(isinstance(v, tuple) and len(v) == len(labels) for v in self.diagnostics.values())
        require(not axes or each, "diagnostics: not one for each label")
        self._validate_bias(self._bias_shape())
        if self.verified is not None:
            self.verified.validate(count)

    def _bias_shape(self) -> tuple[int, ...]:
        return self.scores.shape[:-1]

    def _columns(self) -> Columns:
        labels = self.target.labels if self.has_label_axis else self.target.labels[:1]
        rows = [(label, layer) for label in labels for layer in self.layers or (None,)]
        removals = [None if self.verified is None else self.verified.without(i) for i in range(len(self.tokens))]
        tested = (
            {}
            if self.verified is None
            else {"value_without": [None if one is None else one.value for one in removals] * len(rows)}
        )
        return {
            "label": [label for label, _ in rows for _ in self.tokens],
            "layer": [layer for _, layer in rows for _ in self.tokens],
            **{name: values * len(rows) for name, values in self._token_columns().items()},
            "score": self.scores.reshape(-1).tolist(),
            **tested,
        }

    def _text_row(self) -> Mapping[str, Any]:
        if self.scores.ndim != 1:
            raise DataError("a row for each text needs one score for each token; choose with select(label=, layer=)")
        plain = zip(self.tokens, self.scores, self.special_tokens_mask, strict=True)
        tokens = [(token, float(score)) for token, score, special in plain if not special]
        scored = [(word.text, word.score) for word in self.words()] if self.has_words else tokens
        pair = {} if self.text_pair is None else {"text_pair": self.text_pair}
        answer = {"value": self.prediction.value, "probability": self.prediction.probability}
        target = self.target.labels[0] + (f" rather than {self.target.contrast}" if self.target.contrast else "")
        tested = {} if self.verified is None else self.verified.text_row()
        return text_row(
            self.text,
            self.prediction.label,
            scored,
            self.notes,
            truncated=self.truncated,
            **pair,
            **answer,
            target=target,
            **tested,
        )

    def _shap(self) -> Shap:
        if self.layers is not None:
            raise DataError("SHAP's plots know no layers; choose one with select(layer=...)")
        pieces = text_pieces(self.tokens, (self.text, self.text_pair), self.offsets, self.sequence_ids)
        names = self.target.labels if self.has_label_axis else self.target.labels[0]
        return Shap(self.scores.T, self._base(), pieces, names)

    def _base(self) -> FloatArray:
        """Return the sum of bias and sink for each label, zero where there is none."""
        base = np.zeros(self.scores.shape[:-1], np.float32)
        return sum((part for part in (self.bias, self.sink) if part is not None), base)

    def plot(
        self,
        kind: "PlotKind | None" = None,
        *,
        k: int | None = None,
        words: bool | None = None,
        merge: Merge | None = None,
        greys: bool = False,
    ) -> "Figure":
        """Return the scores as a matplotlib figure; its `savefig` writes SVG, PDF or PNG.

        Args:
            kind: "bars", one for each word in the order of the text; "waterfall", from the bias over the strongest
                words to the sum, of methods whose scores add up; "heatmap", a row for each label and layer; "text", the
                text in its colours. By default what fits the scores.
            k: How many words: the strongest.
            words: Whether to merge tokens to words; by default where the result can tell them.
            merge: How, see `words`.
            greys: Whether coloured text is drawn in greys, what is negative underlined.

        Raises:
            InputError: If there is no such kind, or an argument is not for it.
            DataError: If matplotlib is missing, scores that do not add up are asked for as a waterfall, or bars or a
                waterfall are asked for and there are several labels or layers; use `select`.
        """
        from ..render.plots import plot_attribution

        return plot_attribution(self, kind, k=k, words=words, merge=merge, greys=greys)

    def to_latex(self, *, words: bool | None = None, merge: Merge | None = None, greys: bool = False) -> str:
        r"""Return the text in its colours as LaTeX, for a document with `\usepackage{xcolor}`.

        Args:
            words: Whether to merge tokens to words; by default where the result can tell them.
            merge: How, see `words`.
            greys: Whether to use greys, what is negative underlined.

        Raises:
            DataError: If words are asked for and the result has none.
        """
        from ..render.latex import coloured_text, latex_of

        return latex_of(coloured_text(self, words=words, merge=merge), greys=greys)

    def _blocks(self) -> "list[Block]":
        from ..render.text_blocks import attribution_blocks

        return attribution_blocks(self)

    def _heading(self) -> str:
        from ..render.describe import text_of

        return text_of(self)

    def _shown(self) -> str:
        shape = "x".join(map(str, self.scores.shape))
        return f"{self.method}, {self.prediction.label!r}, target={list(self.target.labels)}, {shape}"
