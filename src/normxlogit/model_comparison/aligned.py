"""Two attributions of one text, aligned by its words."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError, MethodError
from ..leave_out.outcomes import Answer
from ..leave_out.removal import Tokens
from ..results.attribution import Attribution
from ..results.units.grouping import units_of
from ..results.units.spans import NamedSpan
from .result import AFTER, BEFORE, ModelDifference, Names


class Aligned(NamedTuple):
    """The attributions of two models for one text; what tokens of either share characters of is one word.

    Attributes:
        both: The attributions, before and after.
        words: The words, then two further units: the rest of the text, and the words of a completion. Their `tokens`
            are empty, as those of two models stand in `tokens_of`.
        tokens_of: The tokens of each of `words`, in the model before and in the model after.
    """

    both: tuple[Attribution, Attribution]
    words: list[NamedSpan]
    tokens_of: tuple[list[Tokens], list[Tokens]]

    @classmethod
    def of(cls, before: Attribution, after: Attribution) -> "Aligned":
        """Align two attributions.

        Raises:
            InputError: If they are not of one text, or their words cannot be told.
            MethodError: If their scores do not add up to the same quantity.
        """
        _check_comparable(before, after)
        words, tokens_of = _shared_words(before, after)
        for a, tokens_of_words in zip((before, after), tokens_of, strict=True):
            # The tokens of the two units that are not words, which are appended below.
            tokens_of_words += [_tokens_outside(a, tokens_of_words), tuple(a.answer_units)]
        whole = "text" if after.completion is None else "prompt"
        for name, kind in ((f"the rest of the {whole}", "rest"), ("the answer's earlier words", "answer")):
            words.append(NamedSpan(name, start=0, end=0, tokens=(), kind=kind, sequence=None))
        return cls((before, after), words, tokens_of)

    def tokens(self, words: Sequence[int], model: int) -> Tokens:
        """Return the tokens of some words.

        Args:
            words: The indices of the words.
            model: Whose tokens, `BEFORE` or `AFTER`.
        """
        return tuple(sorted(token for word in words for token in self.tokens_of[model][word]))

    def difference(self, models: Names, answers: tuple[Answer, Answer], difference: Answer) -> ModelDifference:
        """Return the result: the difference of the scores, with what was measured.

        Args:
            models: The names of the models.
            answers: The answers of the models to the whole text.
            difference: The difference of these answers, whose outcome is whether they differ.
        """
        before, after = self.both
        scores = np.array(list(map(_scores_of_words, self.both, self.tokens_of)))  # (2 models, U)
        sinks = {*_words_with_sinks(before, self.tokens_of[BEFORE]), *_words_with_sinks(after, self.tokens_of[AFTER])}
        constants = np.array(list(map(_bias_and_sink, self.both)), np.float64)  # (2 models, bias and sink)
        bias, sink = (constants[AFTER] - constants[BEFORE]).astype(np.float32)
        # `_check_comparable` has found text, method and quantity equal; one call made both, with one method's settings.
        shared_fields = ("method", "settings", "signed", "version", "text", "text_pair", "completion", "quantity")
        return ModelDifference(
            scores=(scores[AFTER] - scores[BEFORE]).astype(np.float32),
            bias=np.array(bias),
            sink=np.array(sink) if sinks else None,
            sinks=tuple(sorted(sinks)),
            scores_of_each=scores.astype(np.float32),
            constants_of_each=constants.astype(np.float32),
            units=units_of(self.words, [after.text or "", after.text_pair or ""]),
            # Where the answer is read is another token in each model.
            targets=(after.target._replace(position=None),),
            models=models,
            model=" → ".join(models),
            notes=(*(f"before: {note}" for note in before.notes), *(f"after: {note}" for note in after.notes)),
            changed=bool(difference.outcome),
            measured=(answers[BEFORE].value, answers[AFTER].value),
            answers=tuple(answer.prediction for answer in answers if answer.prediction is not None),
            predictions=() if difference.prediction is None else (difference.prediction,),
            **{name: getattr(after, name) for name in shared_fields},
        )


class _Word(NamedTuple):
    """A word of one of the two models, in the order of the text."""

    sequence: int  # in which text of a pair it is
    start: int
    end: int
    model: int  # `BEFORE` or `AFTER`
    tokens: Tokens


def _shared_words(before: Attribution, after: Attribution) -> tuple[list[NamedSpan], tuple[list[Tokens], list[Tokens]]]:
    """Return the words of a text as both models divide it, and the tokens of each word in either model.

    Words that share characters are one word.
    """
    words: list[NamedSpan] = []
    tokens_of: tuple[list[Tokens], list[Tokens]] = ([], [])
    for word in sorted([*_words_of(before, BEFORE), *_words_of(after, AFTER)]):
        last = words[-1] if words else None
        if last is not None and last.sequence == word.sequence and word.start < last.end:  # they share characters
            words[-1] = last._replace(end=max(word.end, last.end))
        else:
            words.append(NamedSpan("", word.start, word.end, tokens=(), kind="word", sequence=word.sequence))
            # Both models get an entry: one of them may have no token in the word.
            for tokens_of_words in tokens_of:
                tokens_of_words.append(())
        tokens_of[word.model][-1] += word.tokens  # of the last word
    return words, tokens_of


def _tokens_outside(a: Attribution, tokens_of_words: Sequence[Tokens]) -> Tokens:
    """Return the tokens of a text, or of a prompt, that are in none of the words, such as special tokens."""
    in_words = set().union(*tokens_of_words)
    return tuple(token for token in range(a.answer_units.start) if token not in in_words)


def _check_comparable(before: Attribution, after: Attribution) -> None:
    """Refuse attributions that are not of the words of one text, or do not add up to one quantity."""
    if (before.text, before.text_pair) != (after.text, after.text_pair):
        raise InputError("the models' chat templates write different texts: give a text that both read as it is")
    if before.media or after.media or not (before.has_words and after.has_words):
        raise InputError("models are compared by the words of a text, in which their tokens are found")
    is_same_quantity = (before.method, before.quantity) == (after.method, after.quantity)
    if not is_same_quantity or before.bias is None or after.bias is None:
        raise MethodError(
            f"models are compared by scores that add up, of one method: these are of {before.method} "
            f"({before.quantity}) and {after.method} ({after.quantity}); frozen-gradient adds up"
        )


def _words_of(a: Attribution, model: int) -> Iterator[_Word]:
    """Yield the words of a text, or of a prompt, by one of the models."""
    for word in a.words():
        if word.text.strip() and word.tokens[-1] < a.answer_units.start:
            yield _Word(word.sequence or 0, word.start, word.end, model, word.tokens)


def _scores_of_words(a: Attribution, tokens_of_words: Sequence[Tokens]) -> list[Any]:
    """Return the sum of the scores of each word's tokens."""
    return [a.scores[list(tokens)].sum(dtype=np.float64) for tokens in tokens_of_words]


def _words_with_sinks(a: Attribution, tokens_of_words: Sequence[Tokens]) -> list[int]:
    """Return the words of which a token is an attention sink."""
    return [word for word, tokens in enumerate(tokens_of_words) if not set(a.sinks).isdisjoint(tokens)]


def _bias_and_sink(a: Attribution) -> tuple[Any, Any]:
    """Return the bias, and what attention sinks contribute, 0 where the model has none."""
    return a.bias, 0.0 if a.sink is None else a.sink
