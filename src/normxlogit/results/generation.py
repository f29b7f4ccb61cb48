"""The result for generated text: which tokens every generated token rests on."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..errors import DataError, InputError, MethodError
from .attribution import PREDICTION, SPAN, TARGET, Attribution, Prediction, TargetInfo, Token
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
from .sources import Merging, Passage, Sources, check_merging, sum_to_sources
from .spans import By, MessageSpan, Of, Sequenced, answer_parts, prompt_sources
from .tables import Columns, Shap, token_columns
from .words import MERGES, Merge, Word, merge_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
        special_tokens_mask: True at special tokens, also those that the model wrote, and at all that a chat template
            wrote around the messages.
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
        diagnostics: What the method measured of itself, by name, with one number for each generated token.
        bias: float32, (G,), with layers (G, L): what belongs to no token. `scores.sum(-1) + bias`, and `sink` where
            there is one, is what is explained: the logit of each row's target, less the contrast's or, without one,
            the mean over the vocabulary. None where the scores do not add up to it.
        sink: float32, of the shape of `bias`: what attention sinks contribute, which is in no token's score. None
            without sinks.
        sinks: Indices of the tokens that are attention sinks.
        merge: How the score of a word comes from its tokens' unless `words` is told otherwise.
        messages: Where the messages of a chat stand in the text; None for a prompt that was one text.
        named: The sources that the caller named, by their character spans in the text.
        format_version: Version of the JSON format.
    """

    kind: ClassVar = "generation"
    described: ClassVar = "an attribution of generated text"

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
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    bias: FloatArray | None = None
    sink: FloatArray | None = None
    sinks: tuple[int, ...] = ()
    merge: Merge = "sum"
    messages: tuple[MessageSpan, ...] | None = None
    named: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    format_version: int = field(default=FORMAT_VERSION)

    @property
    def prompt(self) -> str | None:
        """The part of the text that was given; for chat messages as the template wrote it."""
        return None if self.text is None else self.text[: len(self.text) - len(self.completion)]

    def __len__(self) -> int:
        """Return G, the number of generated tokens."""
        return len(self.generated)

    def for_token(self, index: int) -> Attribution:
        """Return the explanation of one generated token, as a result of its own.

        Args:
            index: Which generated token, 0 to G - 1; negative from the end.

        Raises:
            InputError: If there is no such token.
        """
        if not -len(self) <= index < len(self):
            raise InputError(f"no generated token {index}; there are {len(self)}")
        index %= len(self)
        seen = self.prompt_tokens + index
        sinks = tuple(i for i in self.sinks if i < seen - 1)  # the token that the answer is read from is never held
        text = None
        if self.text is not None and self.offsets is not None:
            # As far as what was read reaches: a token before may hold bytes of the same character.
            text = self.text[: max(self.offsets[seen][0], *(end for _, end in self.offsets[:seen]))]
        return Attribution(
            scores=np.ascontiguousarray(self.scores[index, ..., :seen]),
            tokens=self.tokens[:seen],
            token_ids=self.token_ids[:seen],
            offsets=None if self.offsets is None else self.offsets[:seen],
            word_ids=None,
            sequence_ids=tuple(None if special else 0 for special in self.special_tokens_mask[:seen]),
            special_tokens_mask=self.special_tokens_mask[:seen],
            text=text,
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
            diagnostics={name: values[index] for name, values in self.diagnostics.items()},
            bias=None if self.bias is None else np.array(self.bias[index]),
            sink=None if self.sink is None or not sinks else np.array(self.sink[index]),
            sinks=sinks,
            merge=self.merge,
        )

    def words(self, merge: Merge | None = None) -> list[Word]:
        """Merge the tokens of prompt and completion to the words of the text.

        Args:
            merge: How a word's score comes from its tokens', as in `Attribution.words`.

        Returns:
            The words in the order of the text, each with an array of scores: one for each generated token, with
            layers (G, L). Special tokens are left out.

        Raises:
            DataError: If the tokenizer gave no offsets.
        """
        if self.offsets is None or self.text is None:
            raise DataError("words need a tokenizer that reports character offsets")
        sequences = [None if special else 0 for special in self.special_tokens_mask]
        return merge_words(self.scores, [self.text], self.offsets, sequences, merge or self.merge)

    def top(self, k: int = 5, *, special: bool = False) -> list[Token]:
        """Return the `k` tokens of the prompt with the highest scores, summed over the generated tokens.

        Args:
            k: How many.
            special: Whether special tokens may appear.

        Raises:
            DataError: If the result has a layer axis; use `select` first.
        """
        if self.layers is not None:
            raise DataError("top() needs one score for each token; choose with select(layer=...)")
        total = self.scores[:, : self.prompt_tokens].sum(0)  # (P,)
        order = np.argsort(-total, kind="stable")
        kept = [int(i) for i in order if special or not self.special_tokens_mask[i]]
        return [Token(i, self.tokens[i], float(total[i])) for i in kept[:k]]

    def sources(
        self,
        by: By | None = None,
        of: Of = None,
        *,
        merge: Merging = "sum",
        centered: bool = False,
    ) -> Sources:
        """Merge the tokens of the prompt to sources: which sentences, messages or documents the answer rests on.

        Args:
            by: "sentence", "paragraph", "message", "word" or named spans of characters of the prompt; by default the
                sources named in `explain_completion`, and sentences where none were.
            of: The part of the answer: a token's index, a span of characters of the completion, None for all of it; or
                a list of indices, "token", "word", "sentence", "paragraph" for a row of the table each.
            merge: The "sum" of a source's scores, "max", its largest, or "excess", the sum less what as many tokens of
                the sources have on average: long sources have large sums for being long.
            centered: Take off each token its mean over the generated tokens, which removes what it has in common for
                all of them, such as a large norm. Summed over the whole answer nothing is left then: it goes with
                parts of the answer, or with "max".

        Raises:
            DataError: If the tokenizer gave no offsets, or the result has a layer axis; use `select` first.
            InputError: If there is no such kind, part, span or `merge`.
        """
        if self.layers is not None:
            raise DataError("sources() needs one score for each token; choose with select(layer=...)")
        check_merging(merge)
        sequence = self._sequenced()
        found = prompt_sources(sequence, by if by is not None else self.named or "sentence")
        if not found:
            raise DataError("; ".join(["the prompt holds no source", *self.notes]))
        parts = answer_parts(sequence, of)
        values = self.scores
        if centered:
            seen = np.arange(len(self.tokens)) < self.prompt_tokens + np.arange(len(self))[:, None]  # (G, T)
            values = np.where(seen, values - values.sum(0) / np.maximum(seen.sum(0), 1), 0)  # (G, T)
        start, whole = self.prompt_tokens, merge == "sum" and not centered
        table, rest, written = sum_to_sources(values, parts, found, start, merge)
        besides = {
            name: np.array([each.astype(np.float64)[[i - start for i in p.tokens]].sum() for p in parts], np.float32)
            for name, each in (("bias", self.bias), ("sink", self.sink))
            if each is not None and whole
        }
        settings = dict(self.settings) | ({"merge": merge} if merge != "sum" else {})
        return Sources(
            scores=table.sum(0),
            table=table,
            rest=rest,
            written=written,
            bias=besides.get("bias"),
            sink=besides.get("sink"),
            sinks=self.sinks,
            sources=tuple(Passage(s.name, s.start, s.end) for s in found),
            parts=tuple(Passage(p.name, p.start, p.end) for p in parts),
            text=sequence.text,
            completion=self.completion,
            unit="logit",
            method=self.method,
            settings=settings | ({"centered": True} if centered else {}),
            model=self.model,
            signed=self.signed,
            notes=self.notes,
            version=self.version,
        )

    def plot(self, by: By | None = None, of: Of = "token", *, k: int | None = None) -> "Figure":
        """Return a matplotlib heat map: what each generated token, or other part of the answer, rests on.

        Args:
            by: The columns, see `sources`; by default the named sources, and words where none were named.
            of: The rows: "token", "word", "sentence", "paragraph".
            k: How many columns: the strongest, in the order of the prompt.

        Raises:
            DataError: If matplotlib is missing, or the tokenizer gave no offsets.
            ValueError: If the result has a layer axis; use `select` first.
        """
        return self.sources(by if by is not None else self.named or "word", of).plot(k=k)

    def _sequenced(self) -> Sequenced:
        if self.offsets is None or self.text is None:
            raise DataError("sources need a tokenizer that reports character offsets")
        return Sequenced(
            self.text,
            self.offsets,
            self.special_tokens_mask,
            self.prompt_tokens,
            len(self.text) - len(self.completion),
            self.messages,
        )

    def select(self, *, layer: int) -> "GenerationAttribution":
        """Take one layer out of a result that has several.

        Raises:
            MethodError: If the result has no such layer.
        """
        if self.layers is None or layer not in self.layers:
            raise MethodError(f"no layer {layer} among {self.layers}")
        index = self.layers.index(layer)
        bias, sink = (None if v is None else v[:, index].copy() for v in (self.bias, self.sink))  # (G,)
        return replace(self, scores=self.scores[:, index].copy(), layers=None, bias=bias, sink=sink)  # (G, T)

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
            "special_tokens_mask": each(flag),
            "text": optional(string),
            "completion": string,
            "prompt_tokens": integer,
            "predictions": each(PREDICTION),
            "generated": each(PREDICTION),
            "targets": each(TARGET),
            "layers": optional(each(integer)),
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
            "messages": optional(each(record(MessageSpan, {"role": string, "start": integer, "end": integer}))),
            "named": mapping(each(integer, 2)),
            "format_version": integer,
        }

    def _check(self) -> None:
        count, written = len(self.tokens), len(self.generated)
        for name in ("token_ids", "offsets", "special_tokens_mask"):
            values = getattr(self, name)
            agree(values is None or len(values) == count, f"{name}: not one for each of {count} tokens")
        agree(self.prompt_tokens + written == count and written > 0, "prompt_tokens: not what stands before the rest")
        rows = {"predictions": self.predictions, "targets": self.targets}
        rows |= {f"diagnostics, {name}": values for name, values in self.diagnostics.items()}
        for name, values in rows.items():
            each_has = isinstance(values, tuple) and len(values) == written
            agree(each_has, f"{name}: not one for each of {written} generated tokens")
        agree(all(len(t.labels) == len(t.ids) == 1 for t in self.targets), "targets: not one label each")
        wanted = (written, count) if self.layers is None else (written, len(self.layers), count)
        agree(
            self.scores.shape == wanted and 0 not in wanted, f"scores: not of shape {wanted}, as its layers and tokens"
        )
        check_besides(self.bias, self.sink, self.sinks, wanted)
        length = len(self.completion) if self.text is None else len(self.text)
        agree(len(self.completion) <= length, "completion: longer than the text")
        spans = [*(self.offsets or ()), *self.named.values(), *((m.start, m.end) for m in self.messages or ())]
        for start, end in spans:
            agree(start <= end and (self.text is None or end <= length), "offsets, messages or named: outside the text")

    def _columns(self) -> Columns:
        sequences = [None if special else 0 for special in self.special_tokens_mask]
        tokens = token_columns(self.tokens, self.token_ids, self.offsets, sequences, self.special_tokens_mask)
        found: Columns = {name: [] for name in ("generated", "generated_token", "label", "layer", *tokens, "score")}
        for g, target in enumerate(self.targets):
            seen = self.prompt_tokens + g
            for row, layer in enumerate(self.layers or (None,)):
                values = self.scores[g] if self.layers is None else self.scores[g, row]  # (T,)
                one = {"generated": g, "generated_token": self.tokens[seen], "label": target.labels[0], "layer": layer}
                for name, value in one.items():
                    found[name] += [value] * seen
                for name, column in tokens.items():
                    found[name] += column[:seen]
                found["score"] += values[:seen].tolist()
        return found

    def _shap(self) -> Shap:
        raise DataError("SHAP's plots show one text; take one generated token with for_token(...)")

    def _page(self) -> str:
        """Return a page: pointing at a generated token colours what it rests on; without scripts it shows tables."""
        from ..render.generation import page

        return page(self)

    def _repr_html_(self) -> str:
        from ..render.generation import fragment

        return fragment(self)

    def __str__(self) -> str:
        from ..render.generation import to_text

        return to_text(self)

    def _shown(self) -> str:
        return f"{self.method}, {self.completion!r}, {'x'.join(map(str, self.scores.shape))}"
