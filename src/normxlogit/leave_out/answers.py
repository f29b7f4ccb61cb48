"""The model's answers to texts, pictures and sounds without some of their tokens."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..inputs.encoding import Encoding
from ..inputs.windows import Places, windows
from ..model.forward_pass import ForwardPass, to_host
from ..model.task_model import TaskModel
from ..results.attribution import Attribution
from ..results.targets import Prediction
from .outcomes import Outcomes, Progress, in_batches, no_progress
from .removal import TextRemoval, Tokens, tokens_removed
from .units import ranked_scores

HOLDS = 0.5
"""The probability from which on a label holds, where labels do not exclude each other."""


class Answer(NamedTuple):
    """The model's answer to an input.

    Attributes:
        prediction: The prediction; None if there is none, as of a cosine.
        value: The measured quantity.
        outcome: What is compared to decide whether the prediction changed; None if predictions are values.
        logits: The logits, (C,), of a window of a text; None where the answer is not a mean over windows.
    """

    prediction: Prediction | None
    value: float
    outcome: Hashable
    logits: Tensor | None = None


class Window(NamedTuple):
    """A window of a text, or a whole text.

    Attributes:
        text: The place of the text.
        tokens: Its tokens, by their indices in the text.
        content: Those of them that are not read in every window; empty for a whole text.
    """

    text: int
    tokens: Places
    content: frozenset[int]


class TextAnswers:
    """A table of a model's answers to texts without some of their tokens; pictures and sounds have tokens, too.

    A text beyond the model's length is read in the windows that it was explained in. Each is a row of the table by
    itself, so only those that hold a removed token are read again. A window that loses all of its text is left out. The
    answer is that of the mean logits; of a head that answers at a token that of the window that holds it, and of an
    extractive one that of the window with the best answer.

    Args:
        model: The model.
        encodings: The encodings of the inputs.
        results: Their explanations, which say what is measured.
        masked: Whether tokens are masked; by default they are deleted.
        progress: Shows the progress.
    """

    def __init__(
        self,
        model: TaskModel,
        encodings: Sequence[Encoding],
        results: Sequence[Attribution],
        *,
        masked: bool = False,
        progress: Progress = no_progress,
    ) -> None:
        self.model, self._masked, self._encodings = model, masked, encodings
        self._results = [ranked_scores(a) for a in results]
        task = model.task
        self._windows: list[Window] = []
        self._windows_of_text: list[list[int]] = []
        inputs: list[Encoding] = []
        for text, (encoding, result) in enumerate(zip(encodings, self._results, strict=True)):
            all_tokens = windows(encoding, model.encoder.limit, task.known_position(encoding))
            position = result.target.position if task.answers_at_token and not task.left_to_right else None
            kept = [tokens for tokens in all_tokens if position is None or position in tokens]
            self._windows_of_text.append(list(range(len(inputs), len(inputs) + len(kept))))
            for tokens in kept:
                self._windows.append(Window(text, tokens, _content(encoding, tokens, all_tokens)))
                inputs.append(encoding if len(tokens) == len(encoding) else encoding.take(tokens))
                if position is not None:
                    inputs[-1] = replace(inputs[-1], position=tokens.index(position))
        without = tokens_removed(model, inputs, masked=masked)
        self._table: Outcomes[TextRemoval, Answer] = Outcomes(in_batches(model, without, self._read), progress)

    def __call__(self, removals: Iterable[TextRemoval]) -> list[Answer]:
        """Return the answers to texts, by their places, without some of their tokens."""
        removals = list(removals)
        keys = [self._keys(text, set(removed)) for text, removed in removals]
        self._table(key for keys_of_text in keys for key in keys_of_text)
        return [
            self._combined(text, set(removed), keys_of_text)
            for (text, removed), keys_of_text in zip(removals, keys, strict=True)
        ]

    def _keys(self, text: int, removed: set[int]) -> list[TextRemoval]:
        """Return the windows of a text, each with its removed tokens, without those that lose all their text."""
        keys = [
            (window, tuple(i for i, token in enumerate(self._windows[window].tokens) if token in removed))
            for window in self._windows_of_text[text]
        ]
        with_text = [key for key in keys if not (content := self._windows[key[0]].content) or not content <= removed]
        return with_text or keys[:1]

    def _combined(self, text: int, removed: set[int], keys: list[TextRemoval]) -> Answer:
        """Return the answer to a text from those of its windows."""
        answers, task = self._table(keys), self.model.task
        if len(self._windows_of_text[text]) == 1:
            return answers[0]
        if answers[0].logits is not None:
            logits = torch.stack([answer.logits for answer in answers if answer.logits is not None])
            return self._answers(logits.mean(0, keepdim=True), [text])[0]
        explained = self._explained_window(text)
        by_window = {window: (answer, tokens) for answer, (window, tokens) in zip(answers, keys, strict=True)}
        if not task.extractive:
            return by_window.get(explained, (answers[0],))[0]
        best = max(by_window, key=lambda window: (bool(by_window[window][0].outcome), _logit(by_window[window][0])))
        answer, tokens = by_window[best]
        numbers = {token: n for n, token in enumerate(i for i in range(len(self._encodings[text])) if i not in removed)}
        places = [numbers[token] for token in self._kept(best, tokens)]
        prediction = answer.prediction and task.in_whole_text(answer.prediction, places)
        return Answer(prediction, by_window[explained][0].value if explained in by_window else 0.0, answer.outcome)

    def _kept(self, window: int, removed: Tokens) -> list[int]:
        """Return the tokens that are read in a window, by their indices in the text, without some of the window's."""
        return [token for i, token in enumerate(self._windows[window].tokens) if i not in removed]

    def _explained_window(self, text: int) -> int:
        """Return the window that was explained, of a head that answers at a token: the one with this prediction."""
        places = self._windows_of_text[text]
        logit = self._results[text].predictions[0].value
        distances = [abs(_logit(answer) - logit) for answer in self._table((place, ()) for place in places)]
        return places[distances.index(min(distances))]

    def _read(self, encodings: list[Encoding], removals: list[TextRemoval]) -> Iterable[Answer]:
        """Run the model on texts or windows without some of their tokens."""
        task, texts = self.model.task, [self._windows[window].text for window, _ in removals]
        run = self.model.run(self.model.batch(encodings, list(range(len(encodings)))))
        if task.extractive:
            values = [self._position_probability(run, row, *key) for row, key in enumerate(removals)]
            return [Answer(p, value, p.label) for p, value in zip(task.answers(run), values, strict=True)]
        answers = self._answers(run.logits, texts)
        self.model.check_finite(np.array([answer.value for answer in answers]), run.batch)
        if task.per_token:
            return answers
        logits = run.logits.cpu()  # (B, C)
        return [
            answer._replace(logits=row) if len(self._windows_of_text[text]) > 1 else answer
            for answer, row, text in zip(answers, logits, texts, strict=True)
        ]

    def _answers(self, logits: Tensor, texts: Sequence[int]) -> list[Answer]:
        """Return the answers that logits, (B, C), give to texts."""
        task = self.model.task
        probabilities = task.probabilities(logits)  # (B, C)
        outputs = logits if probabilities is None else probabilities  # (B, C)
        targets = torch.tensor([[self._results[text].target.id] for text in texts], device=outputs.device)  # (B, 1)
        # Where labels do not exclude each other, the answer is read from the explained label's own output.
        top = task.top(logits, None if task.outcomes == "exclusive" else targets)  # (B, 3)
        top, measured = to_host(top, outputs.gather(1, targets))
        return [
            Answer(prediction, value, self._outcome(prediction))
            for prediction, value in zip(task.describe(top), measured[:, 0].tolist(), strict=True)
        ]

    def _outcome(self, prediction: Prediction) -> Hashable:
        """Return what is compared to decide whether a prediction changed; None if predictions are values.

        It is the label. Where labels do not exclude each other, it is whether the label's probability reaches `HOLDS`.
        """
        if self.model.task.outcomes is None:
            return None
        if self.model.task.outcomes == "exclusive":
            return prediction.id
        return prediction.probability is not None and prediction.probability >= HOLDS

    def _position_probability(self, run: ForwardPass, row: int, window: int, removed: Tokens) -> float:
        """Return the probability that the answer starts (or ends) at the explained token; 0 if it is not read."""
        target = self._results[self._windows[window].text].target
        kept = self._kept(window, removed)
        if run.logits_by_position is None or target.position not in kept:
            return 0.0
        read = self._windows[window].tokens if self._masked else kept
        probabilities = run.logits_by_position[row].float()[run.batch.mask[row]].softmax(0)  # (T, 2)
        return float(probabilities[read.index(target.position), target.id or 0])


def _content(encoding: Encoding, tokens: Places, all_windows: Sequence[Places]) -> frozenset[int]:
    """Return the text of a window, without special tokens and the shorter text of a pair; empty for a whole text."""
    if len(all_windows) == 1:
        return frozenset()
    cut = encoding.sequence_ids[next(token for token in all_windows[0] if token not in all_windows[-1])]
    return frozenset(i for i in tokens if encoding.sequence_ids[i] == cut and not encoding.special[i])


def _logit(answer: Answer) -> float:
    return -np.inf if answer.prediction is None else answer.prediction.value
