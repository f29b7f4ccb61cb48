"""The result for generated text: which tokens every generated token rests on."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from .attribution import Attribution, Prediction, TargetInfo
from .base import FORMAT_VERSION, FloatArray, Result

__all__ = ["GenerationAttribution"]


@dataclass(frozen=True, eq=False, repr=False)
class GenerationAttribution(Result):
    """Scores of the context of every generated token.

    The sequence has T tokens: P of the prompt and then G generated ones. Row g belongs to the generated token at
    place P + g, which the model predicted at place P + g - 1; it has seen the tokens before P + g, and only they have
    scores. What lies ahead is zero.

    Attributes:
        scores: float32, (G, T), with layers (G, L, T).
        tokens: The T tokens as readable strings.
        token_ids: Their vocabulary indices.
        offsets: Character spans `(start, end)` in `text`; None when the tokenizer cannot tell.
        special_tokens_mask: True at special tokens, also those that a chat template or the model wrote.
        text: Prompt and completion; None if the tokenizer cannot tell.
        completion: The generated part of the text.
        prompt_tokens: P.
        predictions: What the model found most likely at each of the G places.
        generated: The generated tokens with their own logit and probability.
        targets: What each row explains.
        layers: The layers on the layer axis, None when there is no such axis.
        method: Name of the method.
        settings: The method's settings.
        model: Name of the model.
        signed: Whether negative scores mean evidence against the target.
        notes: What the reader should know.
        version: Version of the library.
    """

    kind: ClassVar = "an attribution of generated text"

    scores: FloatArray
    tokens: tuple[str, ...]
    token_ids: tuple[int, ...]
    offsets: tuple[tuple[int, int], ...] | None
    special_tokens_mask: tuple[bool, ...]
    text: str | None
    completion: str
    prompt_tokens: int
    predictions: tuple[Prediction, ...]
    generated: tuple[Prediction, ...]
    targets: tuple[TargetInfo, ...]
    layers: tuple[int, ...] | None
    method: str
    settings: Mapping[str, Any]
    model: str
    signed: bool
    notes: tuple[str, ...]
    version: str
    format_version: int = field(default=FORMAT_VERSION)

    @property
    def prompt(self) -> str | None:
        """The part of the text that was given; for chat messages as the template wrote it."""
        return None if self.text is None else self.text[: len(self.text) - len(self.completion)]

    def __len__(self) -> int:
        """G, the number of generated tokens."""
        return len(self.generated)

    def for_token(self, index: int) -> Attribution:
        """The explanation of one generated token, as a result of its own.

        Args:
            index: Which generated token, 0 to G - 1; negative from the end.

        Raises:
            IndexError: If there is no such token.
        """
        if not -len(self) <= index < len(self):
            raise IndexError(f"no generated token {index}; there are {len(self)}")
        index %= len(self)
        seen = self.prompt_tokens + index
        return Attribution(
            scores=np.ascontiguousarray(self.scores[index, ..., :seen]),
            tokens=self.tokens[:seen],
            token_ids=self.token_ids[:seen],
            offsets=None if self.offsets is None else self.offsets[:seen],
            word_ids=None,
            sequence_ids=tuple(None if special else 0 for special in self.special_tokens_mask[:seen]),
            special_tokens_mask=self.special_tokens_mask[:seen],
            text=None if self.text is None or self.offsets is None else self.text[: self.offsets[seen][0]],
            text_pair=None,
            prediction=self.predictions[index],
            target=self.targets[index],
            layers=self.layers,
            token_predictions=None,
            method=self.method,
            settings=self.settings,
            model=self.model,
            signed=self.signed,
            notes=self.notes,
            version=self.version,
        )

    def select(self, *, layer: int) -> "GenerationAttribution":
        """Take one layer out of a result that has several.

        Raises:
            KeyError: If the result has no such layer.
        """
        if self.layers is None or layer not in self.layers:
            raise KeyError(f"no layer {layer} among {self.layers}")
        return replace(self, scores=self.scores[:, self.layers.index(layer)].copy(), layers=None)  # (G, T)

    @classmethod
    def _parts(cls, state: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "predictions": tuple(Prediction(**p) for p in state["predictions"]),
            "generated": tuple(Prediction(**p) for p in state["generated"]),
            "targets": tuple(TargetInfo.from_dict(t) for t in state["targets"]),
        }

    def _page(self) -> str:
        """Pointing at a generated token colours what it rests on; without scripts the page shows tables."""
        from ..render.generation import page

        return page(self)

    def _repr_html_(self) -> str:
        from ..render.generation import fragment

        return fragment(self)

    def __str__(self) -> str:
        from ..render.generation import to_text

        return to_text(self)

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.scores.shape))
        return f"GenerationAttribution({self.method}, {self.completion!r}, {shape})"
