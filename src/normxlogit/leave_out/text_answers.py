"""The model's answers to texts, pictures and sounds without some of their tokens."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..inputs.encoding import Encoding
from ..inputs.windows import Indices, text_to_cut
from ..model.forward_pass import ForwardPass
from ..model.task_model import TaskModel
from ..model.transfer import to_host
from ..results.attribution import Attribution
from ..results.targets import Prediction
from .outcomes import Answer, Outcomes, Progress, in_batches, no_progress
from .removable import ranked_scores
from .removal import TextRemoval, tokens_removed


class _Window(NamedTuple):
    """A window of a text, or the whole of it."""

    text: int  # the index of the text
    tokens: Indices  # which of its tokens are in the window


class TextAnswers:
    """A table of a model's answers to texts without some of their tokens; pictures and sounds have tokens, too.

    A text beyond the model's length is read in the windows that it was explained in. Each is a row of the table by
    itself, so only those that hold a removed token are read again; the answer is that of their mean logits. A window
    that loses all of its text is left out.

    Args:
        results: The explanations of the inputs, which say what is measured.
        windows: The tokens of each window of each input; None if all are read whole.
        masked: Whether removed tokens are masked, not deleted.
        progress: Shows how many inputs are answered.
    """

    def __init__(
        self,
        model: TaskModel,
        encodings: Sequence[Encoding],
        results: Sequence[Attribution],
        *,
        windows: Sequence[Sequence[Indices]] | None = None,
        masked: bool = False,
        progress: Progress = no_progress,
    ) -> None:
        self.model, self._masked, self.encodings = model, masked, encodings
        self._results = [ranked_scores(a) for a in results]
        self._windows: list[_Window] = []  # of all texts
        self._windows_of_text: list[Sequence[int]] = []  # their indices, by text
        inputs: list[Encoding] = []
        task = model.task
        for text, (encoding, result) in enumerate(zip(encodings, self._results, strict=True)):
            tokens_of_windows = [list(range(len(encoding)))] if windows is None else windows[text]
            self._windows_of_text.append(range(len(inputs), len(inputs) + len(tokens_of_windows)))
            for tokens in tokens_of_windows:
                window = encoding if len(tokens) == len(encoding) else encoding.take(tokens)
                self._windows.append(_Window(text, tokens))
                inputs.append(task.position.of_window(window, tokens, result.target))
        without = tokens_removed(model, inputs, masked=masked)
        self._table: Outcomes[TextRemoval, Answer] = Outcomes(in_batches(model, without, self._read), progress)

    def __call__(self, removals: Iterable[TextRemoval]) -> list[Answer]:
        """Return the answers to texts, by their places, without some of their tokens."""
        removals = list(removals)
        by_window = [self._by_window(removal.text, set(removal.tokens)) for removal in removals]
        self._table(chain.from_iterable(by_window))  # all that are new in the same batches
        return [
            self._mean_over_windows(removal.text, self._table(removals_of_text))
            for removal, removals_of_text in zip(removals, by_window, strict=True)
        ]

    def _by_window(self, text: int, removed: set[int]) -> list[TextRemoval]:
        """Return what is removed from each window of a text, without the windows that lose all their text.

        Args:
            text: The index of the text.
            removed: The indices of the tokens in it that are removed.

        Returns:
            Removals of rows of the table: the index of a window, and indices of tokens in it.
        """
        windows, encoding = self._windows_of_text[text], self.encodings[text]
        if len(windows) > 1:
            remaining = {*text_to_cut(encoding)} - removed  # the other text of a pair is in all windows
            with_text = [number for number in windows if not remaining.isdisjoint(self._windows[number].tokens)]
            windows = with_text or windows[:1]  # a text that is removed whole is answered by its first window
        removals = []
        for number in windows:
            tokens = self._windows[number].tokens
            removed_here = tuple(index for index, token in enumerate(tokens) if token in removed)
            removals.append(TextRemoval(number, removed_here))
        return removals

    def _mean_over_windows(self, text: int, answers: list[Answer]) -> Answer:
        """Return the answer to a text: the only one, or for a text of several windows that of their mean logits.

        Several windows are read only if the model classifies a text as a whole, see `AnswerPosition.answering_window`.
        `_read` keeps the logits of such answers.

        Args:
            text: The index of the text.
            answers: The answers to those of its windows that keep some text, W of them; see `_by_window`.
        """
        if len(self._windows_of_text[text]) == 1:
            return answers[0]
        logits = torch.stack([answer.logits for answer in answers if answer.logits is not None])  # (W, C)
        (answer,) = self._answers(logits.mean(0, keepdim=True), [text])
        return answer

    def _read(self, encodings: list[Encoding], removals: list[TextRemoval]) -> Iterable[Answer]:
        """Run the model on texts or windows without some of their tokens."""
        task = self.model.task
        texts = [self._windows[removal.text].text for removal in removals]  # of which each is a window
        batch = self.model.batch(encodings)
        run = self.model.run(batch)
        if (spans := task.position.spans(run)) is not None:
            return [self._span(run, row, spans[row], removal) for row, removal in enumerate(removals)]
        answers = self._answers(run.logits, texts)
        self.model.check_finite(np.array([answer.value for answer in answers]), batch)
        # Only the mean over windows needs logits, and they are kept for it alone; see `_mean_over_windows`.
        if not task.position.pooled and all(len(self._windows_of_text[text]) == 1 for text in texts):
            return answers
        return [answer._replace(logits=row) for answer, row in zip(answers, run.logits.cpu(), strict=True)]  # (C,)

    def _span(self, run: ForwardPass, row: int, prediction: Prediction, removal: TextRemoval) -> Answer:
        """Return a span as an answer: its value is the probability that it starts (or ends) at the explained token.

        That is 0 where the token is removed.

        Args:
            run: The pass over a batch.
            row: The row of the window in it.
            prediction: The span that the model predicts there, among the tokens that are left.
            removal: The index of the window, and the indices of the tokens in it that are removed.
        """
        text, tokens = self._windows[removal.text]
        target = self._results[text].target
        absent = {tokens[index] for index in removal.tokens}
        tokens_read = [token for token in tokens if self._masked or token not in absent]  # a masked token is read
        value = 0.0
        # Where there are spans there are logits by position: that condition is for the type checker.
        if run.logits_by_position is not None and target.position in tokens_read and target.position not in absent:
            probabilities = run.logits_by_position[row].float()[run.batch.mask[row]].softmax(0)  # (T, 2)
            # The outputs are start, 0, and end, 1; `or 0` is for the type checker, as each target has an index.
            value = float(probabilities[tokens_read.index(target.position), target.id or 0])
        # A text from which all is deleted is read as one token, see `tokens_removed`: [0] is its place.
        return Answer(self.model.task.position.in_whole_text(prediction, tokens_read or [0]), value, prediction.label)

    def _answers(self, logits: Tensor, texts: Sequence[int]) -> list[Answer]:
        """Return the answers that logits, (B, C), give to texts."""
        task_outputs = self.model.task.outputs
        probabilities = task_outputs.probabilities(logits)  # (B, C)
        outputs = logits if probabilities is None else probabilities  # (B, C)
        targets = torch.tensor([[self._results[text].target.id] for text in texts], device=outputs.device)  # (B, 1)
        top, measured = to_host(task_outputs.answered(logits, targets), outputs.gather(1, targets))
        return [
            Answer(prediction, value, task_outputs.outcome(prediction))
            for prediction, value in zip(task_outputs.describe(top), measured[:, 0].tolist(), strict=True)
        ]
