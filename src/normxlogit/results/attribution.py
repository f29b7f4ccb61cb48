"""The result: one frozen `Attribution` for each explained text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ..errors import DataError
from .base import FORMAT_VERSION, FloatArray, Result, tuples

__all__ = ["Attribution", "Prediction", "TargetInfo", "Token", "Word"]

Merge = Literal["sum", "max", "mean", "first"]


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

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> "TargetInfo":
        """What JSON keeps of one."""
        return cls(**{name: tuples(value) for name, value in state.items()})


class Token(NamedTuple):
    """One token with its score, as `Attribution.top` returns it."""

    position: int
    text: str
    score: float


class Word(NamedTuple):
    """One word of the original text with its merged score.

    Attributes:
        text: The word as it stands in the original text.
        start: First character, in the text of its `sequence`.
        end: One past the last character.
        score: Merged scores: a float, or an array of the leading axes of `Attribution.scores`.
        sequence: 0 for the text, 1 for the second text of a pair.
        tokens: Indices of the tokens that make the word.
    """

    text: str
    start: int
    end: int
    score: float | FloatArray
    sequence: int
    tokens: tuple[int, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Attribution(Result):
    """Scores of the tokens of one text, and everything needed to read, show and store them.

    Attributes:
        scores: float32, one axis for each thing asked for, in the order (label, layer, token): `(T,)` by default,
            `(C, T)` for all labels, `(L, T)` for layers, `(C, L, T)` for both.
        tokens: The T tokens as readable strings.
        token_ids: Their vocabulary indices.
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
    """

    kind: ClassVar = "an attribution"

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
            KeyError: If the result has no such axis, label or layer.
        """
        scores, target, layers, diagnostics = self.scores, self.target, self.layers, self.diagnostics
        if label is not None:
            names: tuple[str | int, ...] = target.labels if isinstance(label, str) else target.ids
            if not self.has_label_axis or label not in names:
                raise KeyError(f"no label {label!r} among {list(target.labels)}")
            index = names.index(label)
            scores = scores[index]
            target = replace(target, labels=(target.labels[index],), ids=(target.ids[index],))
            diagnostics = {name: values[index] for name, values in diagnostics.items()}
        if layer is not None:
            if layers is None or layer not in layers:
                raise KeyError(f"no layer {layer} among {layers}")
            scores, layers = np.take(scores, layers.index(layer), axis=-2), None
        return replace(self, scores=scores.copy(), target=target, layers=layers, diagnostics=diagnostics)

    def words(self, merge: Merge = "sum") -> list[Word]:
        """Merge tokens to the words of the original text.

        Args:
            merge: How a word's score comes from its tokens': "sum", "max" (largest magnitude, sign kept), "mean"
                or "first".

        Returns:
            The words in the order of the text; special tokens are left out.

        Raises:
            DataError: If the tokenizer gave no offsets or the input was already encoded.
        """
        if self.offsets is None or self.word_ids is None or self.text is None:
            raise DataError("words need the original text and a tokenizer that reports character offsets")
        groups: dict[tuple[int, int], list[int]] = {}
        for index, (word, sequence) in enumerate(zip(self.word_ids, self.sequence_ids, strict=True)):
            start, end = self.offsets[index]
            if word is not None and sequence is not None and end > start:
                groups.setdefault((sequence, word), []).append(index)
        words = []
        for (sequence, _), indices in groups.items():
            text = self.text if sequence == 0 else (self.text_pair or "")
            start, end = self.offsets[indices[0]][0], self.offsets[indices[-1]][1]
            # Byte-level tokenizers count the space before a word as part of it.
            start += len(text[start:end]) - len(text[start:end].lstrip())
            score = _merged(self.scores[..., indices], merge)
            words.append(Word(text[start:end], start, end, score, sequence, tuple(indices)))
        return words

    def top(self, k: int = 5, *, special: bool = False) -> list[Token]:
        """The `k` tokens with the highest scores, ties by position.

        Args:
            k: How many.
            special: Whether special tokens may appear.

        Raises:
            ValueError: If the result has a label or layer axis; use `select` first.
        """
        if self.scores.ndim != 1:
            raise ValueError("top() needs one score for each token; choose with select(label=..., layer=...)")
        order = np.argsort(-self.scores, kind="stable")
        kept = [int(i) for i in order if special or not self.special_tokens_mask[i]]
        return [Token(i, self.tokens[i], float(self.scores[i])) for i in kept[:k]]

    @classmethod
    def _parts(cls, state: Mapping[str, Any]) -> dict[str, Any]:
        heard = state["token_predictions"]
        return {
            "prediction": Prediction(**state["prediction"]),
            "target": TargetInfo.from_dict(state["target"]),
            "token_predictions": None if heard is None else tuple(Prediction(**p) for p in heard),
            "diagnostics": {name: tuples(value) for name, value in state["diagnostics"].items()},
        }

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

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.scores.shape))
        return f"Attribution({self.method}, {self.prediction.label!r}, target={list(self.target.labels)}, {shape})"


def _merged(scores: FloatArray, merge: Merge) -> float | FloatArray:
    if merge == "sum":
        merged = scores.sum(-1)
    elif merge == "mean":
        merged = scores.mean(-1)
    elif merge == "first":
        merged = scores[..., 0]
    elif merge == "max":
        merged = np.take_along_axis(scores, np.abs(scores).argmax(-1)[..., None], -1)[..., 0]
    else:
        raise ValueError(f"merge must be 'sum', 'max', 'mean' or 'first', not {merge!r}")
    return float(merged) if merged.ndim == 0 else merged
