"""The result for generated text: which tokens every generated token rests on."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..errors import DataError, InputError
from .attribution import Attribution
from .base import require
from .media import AudioScores, ImageScores, WordMoments, word_moments
from .regions import regions_of
from .schema import FloatArray, Index
from .sources import Merging, Passage, Sources, check_merging, sum_to_sources
from .spans import MessageSpan, PartSpec, Sequenced, SourceSpec, answer_parts, prompt_sources
from .tables import Columns
from .targets import Prediction, TargetInfo
from .tokens import Token, TokenScores
from .verification import Verification

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..render.blocks import Block


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class GenerationAttribution(TokenScores):
    """Scores of the context of every generated token.

    The sequence has T tokens: P of the prompt and then G generated ones. Row g belongs to the generated token at
    position P + g, which the model predicted at position P + g - 1; it has seen the tokens before P + g, and only they
    have scores. The scores of later tokens are zero.

    It has the attributes of `TokenScores` and of `Result`, and:

    Attributes:
        scores: float32, (G, T), with layers (G, L, T).
        special_tokens_mask: True at special tokens, also generated ones, and at all tokens that a chat template puts
            around the messages.
        text: Prompt and completion; None if the tokenizer cannot tell.
        completion: The generated part of the text.
        prompt_tokens: P.
        predictions: The most likely token at each of the G positions.
        generated: The generated tokens with their logits and probabilities.
        targets: What each row explains.
        diagnostics: As in `Result`, with one number for each generated token.
        bias: float32, (G,), with layers (G, L). `scores.sum(-1) + bias`, with the sums over pictures and sounds and
            `sink` where there are such, is what is explained: the logit of each row's target, minus the contrast's
            or, without one, the mean over the vocabulary. None where the scores do not add up to it.
        messages: The spans of chat messages in the text; None for a prompt that was one text.
        images: The scores of the patches of each picture that the prompt holds. The tokens that stand for a picture
            in the text have no score of their own.
        audio: The scores of the moments of each sound.
        named_sources: Spans of the sources that the caller named, in characters of the text, by name.
        verified: The log-probability of the completion without the words of the prompt that have the highest scores;
            None where it was not asked.
    """

    kind: ClassVar = "generation"
    described: ClassVar = "an attribution of generated text"
    title: ClassVar = "Generated text and what it rests on"

    completion: str
    prompt_tokens: Index
    predictions: tuple[Prediction, ...]
    generated: tuple[Prediction, ...]
    targets: tuple[TargetInfo, ...]
    messages: tuple[MessageSpan, ...] | None = None
    named_sources: Mapping[str, tuple[Index, Index]] = field(default_factory=dict)
    images: tuple[ImageScores, ...] = ()
    audio: tuple[AudioScores, ...] = ()
    verified: Verification | None = None

    @property
    def media(self) -> tuple[ImageScores | AudioScores, ...]:
        """The scores of pictures and sounds."""
        return *self.images, *self.audio

    @property
    def prompt(self) -> str | None:
        """The prompt; of chat messages as the template renders them."""
        return None if self.text is None else self.text[: len(self.text) - len(self.completion)]

    def __len__(self) -> int:
        """Return G, the number of generated tokens."""
        return len(self.generated)

    def moments(self, index: int = 0) -> list[WordMoments]:
        """Return the generated words, each with the moments of a sound that it rests on.

        Args:
            index: Which of the sounds.

        Raises:
            DataError: If there is no such sound, the tokenizer gave no offsets, or there are several layers.
        """
        if index not in range(len(self.audio)):
            raise DataError(f"no sound {index!r}; the result has {len(self.audio)}")
        return word_moments(self.audio[index], self.words(), self.prompt_tokens)

    def for_token(self, index: int) -> Attribution:
        """Return the explanation of one generated token, as a result of its own, by the words alone.

        What the pictures and sounds of the prompt contribute is in its bias, and a note says how much.

        Args:
            index: Which generated token, 0 to G - 1; negative from the end.

        Raises:
            InputError: If there is no such token.
        """
        if index not in range(-len(self), len(self)):
            raise InputError(f"no generated token {index!r}; there are {len(self)}, counted from 0")
        index %= len(self)
        position = self.prompt_tokens + index
        sinks = tuple(i for i in self.sinks if i < position - 1)  # the position that predicts is never held constant
        media = [f"{medium.name} contributes {np.round(medium.total[index], 3)}" for medium in self.media]
        notes = (
            *self.notes,
            *([f"{', '.join(media)}, which is in the bias"] if media and self.bias is not None else []),
        )
        text = None
        if self.text is not None and self.offsets is not None:
            # Up to the end of the last token that was read: it may hold bytes of the next token's first character.
            text = self.text[: max(self.offsets[position][0], *(end for _, end in self.offsets[:position]))]
        return Attribution(
            **self._provenance(notes=notes),
            scores=np.ascontiguousarray(self.scores[index, ..., :position]),
            tokens=self.tokens[:position],
            token_ids=self.token_ids[:position],
            offsets=None if self.offsets is None else self.offsets[:position],
            word_ids=None,
            sequence_ids=tuple(self._sequences()[:position]),
            special_tokens_mask=self.special_tokens_mask[:position],
            text=text,
            text_pair=None,
            prediction=self.predictions[index],
            target=self.targets[index],
            layers=self.layers,
            token_predictions=None,
            diagnostics={name: values[index] for name, values in self.diagnostics.items()},
            bias=None if self.bias is None else np.array(self.bias[index] + sum(m.total[index] for m in self.media)),
            sink=None if self.sink is None or not sinks else np.array(self.sink[index]),
            sinks=sinks,
            merge=self.merge,
        )

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
        return self._ranked(self.scores[:, : self.prompt_tokens].sum(0), k, special=special)  # of (P,)

    def sources(
        self,
        sources: SourceSpec | None = None,
        parts: PartSpec = None,
        *,
        merge: Merging = "sum",
        centered: bool = False,
    ) -> Sources:
        """Merge the tokens of the prompt to sources: which sentences, messages or documents the answer rests on.

        Args:
            sources: "sentence", "paragraph", "message", "word" or named spans of characters of the prompt; by default
                `named_sources`, or sentences if there are none. Beside spans, regions of its picture: (left, top,
                right, bottom) in pixels of the picture that was given; of several pictures with the picture's number,
                from 0, first.
            parts: The rows of the table. One row for a token's index, a span of characters of the completion, or None,
                the whole answer; a row for each of a list of indices or for each "token", "word", "sentence" or
                "paragraph".
            merge: The "sum" of a source's scores, "max", its largest, or "excess", the sum minus the mean score of the
                sources' tokens times the number of tokens: sums grow with a source's length.
            centered: Subtract from each token's scores their mean over the generated tokens, which removes what they
                have in common, such as a large norm. Summed over the whole answer they are zero then: use it with
                parts of the answer, or with "max".

        Each picture and sound of the prompt is a source too, with the sum of its scores. A patch that lies partly in
        a region counts by the share of its area; what no region holds is the source "the rest of" the picture.

        Raises:
            DataError: If the tokenizer gave no offsets, or the result has a layer axis; use `select` first.
            InputError: If there is no such kind, part, span or `merge`.
        """
        if self.layers is not None:
            raise DataError("sources() needs one score for each token; choose with select(layer=...)")
        if self.media and (merge != "sum" or centered):
            raise DataError("pictures and sounds are sources with the sum of their scores: merge='sum', not centered")
        check_merging(merge)
        sequence = self._sequenced()
        sources = sources if sources is not None else self.named_sources or "sentence"
        source_pieces, regions = prompt_sources(sequence, sources), regions_of(sources, self.images)
        if not source_pieces and not regions:
            raise DataError("; ".join(["the prompt holds no source", *self.notes]))
        part_pieces = answer_parts(sequence, parts)
        values, start = self.scores, self.prompt_tokens
        if centered:
            read = np.arange(len(self.tokens)) < start + np.arange(len(self))[:, None]  # (G, T)
            values = np.where(read, values - values.sum(0) / np.maximum(read.sum(0), 1), 0)  # (G, T)
        table, outside, written = sum_to_sources(values, part_pieces, source_pieces, start, merge)
        passages = [Passage(s.name, s.start, s.end) for s in source_pieces]

        def of_parts(row: FloatArray) -> FloatArray:
            sums = [row.astype(np.float64)[[i - start for i in piece.tokens]].sum() for piece in part_pieces]
            return np.array(sums, np.float32)  # (K,)

        for number, medium in enumerate(self.media):
            spans = [sequence.offsets[token] for token in medium.tokens]
            first, last = min((s for s, _ in spans), default=0), max((e for _, e in spans), default=0)
            columns = {
                region.name: region.scores(medium)  # (G,)
                for region in regions
                if region.picture == number and isinstance(medium, ImageScores)
            }
            name = f"the rest of {medium.name}" if columns else medium.name
            columns[name] = medium.total - sum(columns.values())
            for name, column in columns.items():
                passages.append(Passage(name, first, last))
                table = np.concatenate([table, of_parts(column)[:, None]], 1)
        changed = ({"merge": merge} if merge != "sum" else {}) | ({"centered": True} if centered else {})
        # Bias and sink add up with sums only.
        bias, sink = (None if row is None or changed else of_parts(row) for row in (self.bias, self.sink))
        return Sources(
            **self._provenance(settings={**self.settings, **changed}),
            scores=table.sum(0),
            table=table,
            rest=outside,
            written=written,
            bias=bias,
            sink=sink,
            sinks=self.sinks,
            sources=tuple(passages),
            parts=tuple(Passage(p.name, p.start, p.end) for p in part_pieces),
            text=sequence.text,
            completion=self.completion,
            unit="logit",
        )

    def plot(self, sources: SourceSpec | None = None, parts: PartSpec = "token", *, k: int | None = None) -> "Figure":
        """Return a matplotlib figure: what each generated token, or other part of the answer, rests on.

        A result with pictures or sounds is drawn as these, in the colours of each part of the answer, unless sources
        are named; other results as a heat map.

        Args:
            sources: The columns, as in the method `sources`; by default `named_sources`, or words if there are none.
            parts: The rows or pictures: "token", "word", "sentence", "paragraph".
            k: How many columns, pictures or rows below a sound: the strongest, in their order.

        Raises:
            DataError: If matplotlib is missing, the tokenizer gave no offsets, or the result has a layer axis; use
                `select` first.
        """
        if self.layers is not None:
            raise DataError("plot() needs one score for each token; choose with select(layer=...)")
        if self.media and sources is None:
            from ..render.media_figure import media_figure

            return media_figure(self, answer_parts(self._sequenced(), parts), k=k)
        from ..render.plots import figure_of
        from ..render.source_blocks import scores_grid

        summed = self.sources(sources if sources is not None else self.named_sources or "word", parts)
        return figure_of(scores_grid(summed).strongest(k))

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
        changed = self._at_layer(layer)
        index = (self.layers or ()).index(layer)
        images = tuple(replace(one, scores=one.scores[:, index].copy()) for one in self.images)
        audio = tuple(replace(one, scores=one.scores[:, index].copy()) for one in self.audio)
        return replace(self, **changed, images=images, audio=audio)

    def _validate(self) -> None:
        count, written = len(self.tokens), len(self.generated)
        require(self.prompt_tokens + written == count and written > 0, "prompt_tokens: not the number before the rest")
        self._validate_tokens()
        rows: dict[str, object] = {"predictions": self.predictions, "targets": self.targets}
        rows |= {f"diagnostics, {name}": values for name, values in self.diagnostics.items()}
        for name, values in rows.items():
            complete = isinstance(values, tuple) and len(values) == written
            require(complete, f"{name}: not one for each of {written} generated tokens")
        require(all(len(t.labels) == len(t.ids) == 1 for t in self.targets), "targets: not one label each")
        shape = (written, count) if self.layers is None else (written, len(self.layers), count)
        require(
            self.scores.shape == shape and 0 not in shape, f"scores: not of shape {shape}, as its layers and tokens"
        )
        self._validate_bias(shape[:-1])
        for one in self.media:
            one.validate(shape[:-1])
        if self.verified is not None:
            self.verified.validate(count)
        length = len(self.completion) if self.text is None else len(self.text)
        require(len(self.completion) <= length, "completion: longer than the text")
        for start, end in [*self.named_sources.values(), *((m.start, m.end) for m in self.messages or ())]:
            require(
                start <= end and (self.text is None or end <= length), "messages or named_sources: outside the text"
            )

    def _text_row(self) -> Mapping[str, Any]:
        return {**self.sources("word")._text_row(), "truncated": self.truncated}

    def _columns(self) -> Columns:
        tokens = self._token_columns()
        table: Columns = {name: [] for name in ("generated", "generated_token", "label", "layer", *tokens, "score")}
        for g, target in enumerate(self.targets):
            position = self.prompt_tokens + g
            for row, layer in enumerate(self.layers or (None,)):
                values = self.scores[g] if self.layers is None else self.scores[g, row]  # (T,)
                one = {
                    "generated": g,
                    "generated_token": self.tokens[position],
                    "label": target.labels[0],
                    "layer": layer,
                }
                for name, value in one.items():
                    table[name] += [value] * position
                for name, column in tokens.items():
                    table[name] += column[:position]
                table["score"] += values[:position].tolist()
        return table

    def _blocks(self) -> "list[Block]":
        from ..render.generation_blocks import generation_blocks

        return generation_blocks(self)

    def _heading(self) -> str:
        return "".join(self.tokens[: self.prompt_tokens]) if self.prompt is None else self.prompt

    def _shown(self) -> str:
        return f"{self.method}, {self.completion!r}, {'x'.join(map(str, self.scores.shape))}"
