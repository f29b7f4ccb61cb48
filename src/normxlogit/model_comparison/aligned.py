"""Two attributions of one text, aligned by its words."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError, MethodError
from ..leave_out.removal import Tokens
from ..results.attribution import Attribution
from ..results.units.spans import NamedSpan, units_of
from .result import ModelDifference


class Aligned(NamedTuple):
    """The attributions of two models for one text; what tokens of either share characters of is one word.

    Attributes:
        both: The attributions, before and after.
        words: The words, then the rest of the text, and what of a completion was read before each of its tokens.
        tokens_of: The tokens of each of these in either model.
    """

    both: tuple[Attribution, Attribution]
    words: list[NamedSpan]
    tokens_of: tuple[list[Tokens], list[Tokens]]

    @classmethod
    def of(cls, before: Attribution, after: Attribution) -> "Aligned":
        """Align two attributions."""
        both = (before, after)
        if (before.text, before.text_pair) != (after.text, after.text_pair):
            raise InputError("the models' chat templates write different texts: give a text that both read as it is")
        if not all(a.has_words and not a.media for a in both):
            raise InputError("models are compared by the words of a text, in which their tokens are found")
        if (before.method, before.quantity) != (after.method, after.quantity) or any(a.bias is None for a in both):
            raise MethodError(
                f"models are compared by scores that add up, of one method: these are of {before.method} "
                f"({before.quantity}) and {after.method} ({after.quantity}); frozen-gradient adds up"
            )
        prompts = [len(a.units) if a.prompt_tokens is None else a.prompt_tokens for a in both]
        pieces = sorted(
            (word.sequence or 0, word.start, word.end, which, word.tokens)
            for which, a in enumerate(both)
            for word in a.words()
            if word.text.strip() and word.tokens[-1] < prompts[which]
        )
        words: list[NamedSpan] = []
        tokens_of: tuple[list[Tokens], list[Tokens]] = ([], [])
        for sequence, start, end, which, tokens in pieces:
            if words and words[-1].sequence == sequence and start < words[-1].end:
                words[-1] = words[-1]._replace(end=max(end, words[-1].end))
            else:
                words.append(NamedSpan("", start, end, (), "word", sequence))
                for tokens_of_words in tokens_of:
                    tokens_of_words.append(())
            tokens_of[which][-1] += tokens
        for a, prompt, tokens_of_words in zip(both, prompts, tokens_of, strict=True):
            in_words = {token for tokens in tokens_of_words for token in tokens}
            tokens_of_words.append(tuple(token for token in range(prompt) if token not in in_words))
            tokens_of_words.append(tuple(range(prompt, len(a.units))))
        rest = f"the rest of the {'text' if after.completion is None else 'prompt'}"
        words.append(NamedSpan(rest, 0, 0, (), "rest", None))
        words.append(NamedSpan("the answer's earlier words", 0, 0, (), "answer", None))
        return cls(both, words, tokens_of)

    def tokens(self, words: Sequence[int], which: int) -> Tokens:
        """Return the tokens of some words in one of the models."""
        return tuple(sorted(token for word in words for token in self.tokens_of[which][word]))

    def difference(self, models: tuple[str, str], **fields: Any) -> ModelDifference:
        """Return the difference of the two, with further fields of the result."""
        before, after = self.both
        rows, sinks = [], set[int]()
        for a, tokens_of_words in zip(self.both, self.tokens_of, strict=True):
            rows.append([a.scores[list(tokens)].sum(dtype=np.float64) for tokens in tokens_of_words])
            sinks |= {unit for unit, tokens in enumerate(tokens_of_words) if not set(a.sinks).isdisjoint(tokens)}
        scores = np.array(rows)  # (2, U)
        constants = np.array([[a.bias, 0.0 if a.sink is None else a.sink] for a in self.both], np.float64)  # (2, 2)
        bias, sink = (constants[1] - constants[0]).astype(np.float32)
        names = ("method", "settings", "signed", "version", "text", "text_pair", "completion", "quantity")
        return ModelDifference(
            scores=(scores[1] - scores[0]).astype(np.float32),
            bias=np.array(bias),
            sink=np.array(sink) if sinks else None,
            sinks=tuple(sorted(sinks)),
            scores_of_each=scores.astype(np.float32),
            constants_of_each=constants.astype(np.float32),
            units=units_of(self.words, [after.text or "", after.text_pair or ""]),
            targets=(after.target._replace(position=None),),
            models=models,
            model=" → ".join(models),
            notes=(*(f"before: {note}" for note in before.notes), *(f"after: {note}" for note in after.notes)),
            **{name: getattr(after, name) for name in names},
            **fields,
        )
