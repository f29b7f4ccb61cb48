"""What a model answers with, and where in its input the answer is read."""

import re
from collections.abc import Collection, Hashable, Sequence
from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from ..copies.answer_form import AnswerForm
from ..errors import InputError, TargetError, UnsupportedModelError, listed, nearest
from ..inputs.batches import Batch
from ..inputs.encoding import Encoding
from ..inputs.texts import whole_number
from ..results.storage.schema import FloatArray, Strings
from ..results.targets import Prediction, Target
from ..text.characters import Span
from ..text.same import find_text, matching_names

if TYPE_CHECKING:
    from ..model.forward_pass import ForwardPass

MAX_LISTED_LABELS = 20
"""Most labels that an error lists."""

HOLDS = 0.5
"""The probability from which on an output is true, where several can be."""

OutputType = Literal["label", "token", "value"]
"""The kind of target that an output is."""

Exclusivity = Literal["exclusive", "independent"] | None
"""Whether one of the outputs is true or each by itself; None if they have no probabilities."""


Problem = Literal["single-label", "multi-label", "regression"]
"""What a classifier answers: one of several labels, several at once, or values."""


def has_position_for_each(position: Any) -> bool:
    """Return whether a position is a list, an array or a column with one for each input; a tuple is one span.

    Args:
        position: What the caller gave, see `targets.Position`.
    """
    return isinstance(position, list) or getattr(position, "ndim", 0) > 0


class Outputs:
    """The outputs of a model: their names, which one is explained by default, and how they are described.

    Args:
        labels: The names of the outputs; empty for vocabularies and vectors.
        kind: What an output is as a target.
        outcomes: Whether one of the outputs is true or each by itself; None if they have no probabilities.

    Attributes:
        field: The name or the index of the field of a plain module's output that holds them, where it has several.
    """

    field: str | int | None = None

    def __init__(self, labels: Strings = (), kind: OutputType = "label", outcomes: Exclusivity = "exclusive") -> None:
        self.labels = labels
        self.kind: OutputType = kind
        self.outcomes: Exclusivity = outcomes

    @property
    def vocabulary(self) -> bool:
        """Whether the outputs are the vocabulary."""
        return self.kind == "token"

    def check(self, logits: Tensor, name: str, task: str) -> None:
        """Refuse logits with another number of outputs.

        Args:
            logits: What the model answers, (..., C).
            name: The model's name, for errors.
            task: The name of its task, for errors.

        Raises:
            UnsupportedModelError: If C is not the number of labels.
        """
        if self.labels and logits.shape[-1] != len(self.labels):
            raise UnsupportedModelError(
                f"the head of {name} answers with {logits.shape[-1]} numbers and its {task} names {len(self.labels)} "
                f"labels ({self._listed()}); of a classifier, set config.id2label to the names of all of them"
            )

    def of_problem(self, problem: Problem) -> "Outputs":
        """Return the outputs for a pipeline that says which problem its model solves: these, if no labels change."""
        return self

    def of_answer(self, form: AnswerForm, logits: Tensor | None = None, name: str = "") -> "Outputs":
        """Return the outputs of a model that answers in a form.

        Args:
            form: Where the answer is in what the model returns, and what makes it of logits.
            logits: What a plain module answered, (B, C) or (B, T, C); None of a model of transformers.
            name: The model's, for errors.

        Raises:
            UnsupportedModelError: If the model's probabilities exclude each other and these outputs do not, or the
                other way round.
        """
        normaliser = form.normaliser
        if normaliser is not None and self.outcomes not in (None, normaliser.outcomes):
            raise UnsupportedModelError(
                f"{name} returns {normaliser.outputs} of {normaliser.outcomes} outcomes, and the outputs of its task "
                f"are {self.outcomes}: the probabilities would be others"
            )
        return self

    def check_contrast(self, contrast: Any) -> None:
        """Refuse a contrast where the outputs are not alternatives."""
        if self.outcomes is None and contrast is not None:
            raise TargetError(
                "the outputs are values, or read at different tokens, and no alternatives: leave out contrast="
            )

    def default_target(self, logits: Tensor) -> Tensor:
        """Return the default target, (B, 1), for logits (B, C): the likeliest output; the first without likelihoods."""
        likeliest = logits.argmax(-1, keepdim=True)  # (B, 1)
        return likeliest if self.outcomes else torch.zeros_like(likeliest)

    def predicted(self, explained: Tensor) -> Tensor | None:
        """Return the output that a prediction shows, (B, 1): of values the first explained one; None for the likeliest.

        Args:
            explained: The explained outputs, (B, K).
        """
        return explained[:, :1] if self.kind == "value" else None

    def index_of(self, name: str) -> int:
        """Return the index of the output with a name."""
        matches = matching_names(name, self.labels)
        if len(matches) != 1:
            similar = [] if matches else nearest(name, self.labels)
            hint = f"; did you mean {' or '.join(map(repr, similar))}?" if similar else ""
            problem = "more than one" if matches else "no"
            raise TargetError(f"{problem} label {name!r}; the model knows {self._listed()}{hint}")
        return matches[0]

    def _listed(self) -> str:
        """Return the first labels as text, with the number of further ones."""
        return listed([*map(repr, self.labels)], MAX_LISTED_LABELS)

    def name_of(self, index: int) -> str:
        """Return the name of an output."""
        return self.labels[index]

    def probabilities(self, logits: Tensor) -> Tensor | None:
        """Return the probabilities of the outputs, (N, C), of logits (N, C); None if they have none."""
        if self.outcomes is None:
            return None
        return logits.sigmoid() if self.outcomes == "independent" else logits.softmax(-1)

    def top(self, logits: Tensor, ids: Tensor | None = None) -> Tensor:
        """Return the predicted output of each row as numbers: its logit, its index, its probability or NaN, (N, 3).

        Args:
            logits: The logits, (N, C).
            ids: Which outputs are returned instead of the predicted ones, (N, 1).
        """
        logits = logits.float()
        if ids is None:
            ids = self.default_target(logits)  # (N, 1)
        values = logits.gather(-1, ids)  # (N, 1)
        probabilities = self.probabilities(logits)  # (N, C)
        probability = torch.full_like(values, torch.nan) if probabilities is None else probabilities.gather(-1, ids)
        return torch.cat((values, ids.to(values.dtype), probability), -1)

    def answered(self, logits: Tensor, explained: Tensor) -> Tensor:
        """Return the answers in logits as `top` does: the likeliest outputs, the explained ones if several are true.

        Args:
            logits: (N, C).
            explained: Which output is explained of each, (N, 1).

        Returns:
            The logit, the index and the probability of each, (N, 3).
        """
        return self.top(logits, None if self.outcomes == "exclusive" else explained)

    def outcome(self, prediction: Prediction) -> Hashable:
        """Return what answers are compared by: which output is true, or whether this one is; None of values."""
        if self.outcomes == "independent":
            return (prediction.probability or 0) >= HOLDS  # `or 0` for the type checker alone: there is one
        return None if self.outcomes is None else prediction.id

    def describe(self, table: FloatArray) -> tuple[Prediction, ...]:
        """Return the predictions in a table of `top`, with their names."""
        values = table[:, 0].tolist()
        indices = table[:, 1].astype(int).tolist()
        probabilities = repeat(None) if self.outcomes is None else table[:, 2].tolist()
        name_of_index = {index: self.name_of(index) for index in set(indices)}  # there may be a row for every token
        names = [name_of_index[index] for index in indices]
        return tuple(map(Prediction, names, indices, values, probabilities))


class AnswerPosition:
    """Where an answer is read: of the class itself, from the text as a whole.

    Attributes:
        pooled: Whether the head pools a text to one answer, (B, C), instead of answering at every token, (B, T, C).
        token_per_output: Whether each output is read at a token of its own, such as the start and the end of a span.
        can_choose: Whether a caller can choose the token whose prediction is explained.
        left_to_right: Whether an answer cannot depend on later tokens, as of a model that continues a text.
    """

    pooled: bool = True
    token_per_output: bool = False
    can_choose: bool = False
    left_to_right: bool = False

    def ignoring(self, labels: Collection[int]) -> "AnswerPosition":
        """Return where a pipeline that leaves out some labels of tokens, given by their indices, reads the answer."""
        return self

    def locate(self, encodings: list[Encoding], position: Any) -> list[Encoding]:
        """Return the encodings with a note of the token whose prediction is to be explained.

        Args:
            encodings: The texts.
            position: Where the caller wants it, see `targets.Position`: one place, or a list with one for each text.

        Raises:
            InputError: If the head does not answer at single tokens, or a text has no such place.
        """
        if position is None:
            return encodings
        if not self.can_choose:
            hint = "; use explain_completion for the tokens of a text" if self.left_to_right else ""
            raise InputError(f"position= chooses a token of token classifiers and masked language models{hint}")
        places = list(position) if has_position_for_each(position) else [position] * len(encodings)
        if len(places) != len(encodings):
            raise InputError(f"{len(places)} positions for {len(encodings)} inputs; give one, or one for each")
        return [
            encoding if place is None else replace(encoding, position=_token_index(encoding, place))
            for encoding, place in zip(encodings, places, strict=True)
        ]

    def every(self, encoding: Encoding) -> list[int]:
        """Return the tokens whose predictions `position=ALL` explains; refuse it where no token can be chosen."""
        self.locate([encoding], 0)  # raises the error, which is the same for the choice of one token
        raise NotImplementedError  # not reached: classes whose token can be chosen have an `every` of their own

    def stays(self, *, masked: bool) -> bool:
        """Return whether the explained token stays where others are removed: it can be masked, but not deleted.

        Args:
            masked: Whether removed tokens are replaced by a mask, or by another token, and not deleted.
        """
        return not masked

    def removable(self, encoding: Encoding, positions: Sequence[int], *, masked: bool) -> list[int]:
        """Return the tokens of a text that may be removed one at a time, special ones excepted.

        Args:
            encoding: The text.
            positions: The tokens at which the explained answer is read.
            masked: As in `stays`.
        """
        kept = positions if self.stays(masked=masked) else ()
        return [index for index, special in enumerate(encoding.special) if not special and index not in kept]

    def token_of(self, target: Target) -> int | None:
        """Return the token whose prediction a target is; None for the text as a whole, or a span."""
        return None

    def of_window(self, window: Encoding, tokens: Sequence[int], target: Target) -> Encoding:
        """Return a window of a text in which the same token is explained as in the text.

        Args:
            window: The window.
            tokens: The indices of its tokens in the text.
            target: What is explained of the text.
        """
        return window

    def of_batch(self, batch: Batch, logits: Tensor | None) -> Tensor | None:
        """Return at which tokens the answers are read that are explained.

        Args:
            batch: B texts.
            logits: The logits at every token, (B, T, C); None where the head has not run.

        Returns:
            The position of each, (B,), or its start and end, (B, 2); None for the text as a whole.
        """
        return None

    def known(self, encoding: Encoding) -> int | None:
        """Return the index of the token whose prediction is explained, None if it depends on the model's answer."""
        return encoding.position

    def answering_window(self, runs: Sequence["ForwardPass"]) -> int | None:
        """Return which of the windows of a long text holds the answer; None if it is that of their mean logits."""
        return None

    def spans(self, run: "ForwardPass") -> list[Prediction] | None:
        """Return the span of the text that the model predicts for each text of a batch; None if it predicts outputs."""
        return None

    def in_whole_text(self, prediction: Prediction, places: Sequence[int]) -> Prediction:
        """Return the prediction of a window with its places counted in the whole text.

        Args:
            prediction: The prediction, such as a span of tokens of the window.
            places: The place in the text of each token of the window.
        """
        return prediction


class AtToken(AnswerPosition):
    """The prediction at one token is explained, of a head that answers at every token."""

    pooled = False

    def token_of(self, target: Target) -> int | None:
        """Return the token."""
        return target.position

    def of_window(self, window: Encoding, tokens: Sequence[int], target: Target) -> Encoding:
        """Return the window with a note of the token."""
        return replace(window, position=tokens.index(target.position or 0))  # `or 0` for the type checker alone

    def answering_window(self, runs: Sequence["ForwardPass"]) -> int:
        """Return the only window that is read, the one around a token that is known, or the first."""
        return 0


def with_chosen_positions(batch: Batch, positions: Tensor) -> Tensor:
    """Return the positions at which answers are explained: those that the caller chose, otherwise the default ones.

    Args:
        batch: B texts, each with the caller's choice if there is one.
        positions: The default positions, (B,), which are changed.
    """
    for row, encoding in enumerate(batch.encodings):
        if encoding.position is not None:
            tokens = batch.mask[row].nonzero()[:, 0]  # (T,), the positions of the text's tokens beside padding
            positions[row] = tokens[encoding.position]
    return positions


def logits_at(logits: Tensor, positions: Tensor) -> Tensor:
    """Return the logits at some positions, (B, C).

    Args:
        logits: The logits at every token, (B, T, C).
        positions: One position of each text, (B,), or one for each output, (B, C).
    """
    index = positions if positions.ndim == 2 else positions[:, None].expand(-1, logits.shape[-1])  # (B, C)
    return logits.gather(1, index[:, None].to(logits.device)).squeeze(1)


def _token_index(encoding: Encoding, position: Any) -> int:
    """Return the index of the token at a place; for a span of the text, of its first token."""
    count = len(encoding)
    if (token := whole_number(position)) is not None:
        if not -count <= token < count:
            raise InputError(f"position {token} is outside the text's {count} tokens")
        return token % count  # a negative one counts from the end
    if encoding.offsets is None or encoding.text is None:
        raise InputError("a position in characters needs the text and the character offsets of its tokens")
    start, end = _span_of(encoding.text, position)
    if not 0 <= start < end <= len(encoding.text):
        raise InputError(f"{start} to {end} is not a span of the text, which has {len(encoding.text)} characters")
    for index, (token_start, token_end) in enumerate(encoding.offsets):
        # Byte-level tokenizers count the space before a word as part of it, and a space alone is not a piece of a word.
        overlap = encoding.text[max(token_start, start) : min(token_end, end)]
        if encoding.sequence_ids[index] == 0 and overlap.strip():  # places are those of the first text of a pair
            return index
    raise InputError(f"no token at characters {start} to {end} of the text")


def _span_of(text: str, position: Any) -> Span:
    """Return the span that a caller means by a string, which stands once in the text, or by a start and an end."""
    if isinstance(position, str):
        places = [match.span() for match in re.finditer(re.escape(position), text)] if position else []
        places = places or find_text(text, position)  # in another spelling, where it does not stand letter by letter
        if len(places) != 1:
            times = len(places)
            raise InputError(f"the text must hold {position!r} once; it stands there {times} times: give (start, end)")
        return places[0]
    is_pair = isinstance(position, tuple) and len(position) == 2
    start, end = map(whole_number, position) if is_pair else (None, None)
    if start is None or end is None:
        expected = "a token's index, a piece of the text, or its characters as (start, end)"
        raise InputError(f"a position is {expected}, not {position!r}")
    return start, end
