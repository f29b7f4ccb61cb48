"""Extractive question answering: the span of a context that answers a question."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..errors import InputError
from ..extending import ModelClasses
from ..inputs.batches import Batch
from ..inputs.encoding import Encoding
from ..results.targets import Prediction
from .base import Task
from .task_outputs import AnswerPosition, Outputs

if TYPE_CHECKING:
    from ..model.forward_pass import ForwardPass

LONGEST_ANSWER = 15
"""Most tokens of an extracted answer, the usual bound of SQuAD readers."""

CONTEXT = 1
"""The sequence id of the context's tokens: the question comes first."""


class AtSpan(AnswerPosition):
    """The start and the end of the span of the context that answers the question."""

    pooled = False
    token_per_output = True

    def locate(self, encodings: list[Encoding], position: Any) -> list[Encoding]:
        """Return the encodings after checking that each has a context; only a perturbation may remove it later."""
        for index, encoding in enumerate(encodings):
            if CONTEXT in encoding.sequence_ids:
                continue
            if encoding.text_pair is not None:
                raise InputError(f"the context of input {index} is empty, and an answer is looked for in it")
            raise InputError(
                f"input {index} does not tell question from context, in which the answer is looked for; pass a tuple "
                "(question, context), as QUESTION --pair CONTEXT on the command line, or token ids with token_type_ids "
                "of 0 and 1"
            )
        return super().locate(encodings, position)

    def of_batch(self, batch: Batch, logits: Tensor | None) -> Tensor | None:
        """Return the positions of the start and the end of each text's answer, (B, 2).

        Args:
            batch: B texts.
            logits: The logits of start and end at every token, (B, T, 2).
        """
        if logits is None:  # for the type checker alone: only a vocabulary's head has not run yet
            raise ValueError("the model's logits are needed to find the position")
        spans = []
        for row, encoding in enumerate(batch.encodings):
            positions = batch.mask[row].nonzero()[:, 0]  # (T,), without padding
            spans.append(positions[_best_span(encoding, logits[row, positions].float())])  # (2,)
        return torch.stack(spans)

    def spans(self, run: "ForwardPass") -> list[Prediction]:
        """Return the spans that the model extracts.

        The label is the answer as it stands in the text (its tokens where there is no text), empty for none; the id the
        index of its first token; the value the sum of start and end logit; the probability the product of the two.
        """
        predictions = []
        for row, encoding in enumerate(run.batch.encodings):
            # For the type checker alone: a pass of this task has both.
            if run.logits_by_position is None or run.positions is None:
                raise ValueError("not the forward pass of a question-answering model")
            mask = run.batch.mask[row]  # (T,)
            # A position counts padding, an index among the text's own tokens does not.
            start, end = (int(mask[:position].sum()) for position in run.positions[row].tolist())
            probabilities = run.logits_by_position[row].float()[mask].softmax(0)  # (T, 2)
            label = ""
            if encoding.sequence_ids[start] == CONTEXT:  # otherwise it is the first token, which stands for no answer
                label = "".join(encoding.tokens[start : end + 1])
                if encoding.text_pair is not None and encoding.offsets is not None:
                    label = encoding.text_pair[encoding.offsets[start][0] : encoding.offsets[end][1]]
            probability = float(probabilities[start, 0] * probabilities[end, 1])
            predictions.append(Prediction(label.strip(), start, float(run.logits[row].sum()), probability))
        return predictions

    def answering_window(self, runs: Sequence["ForwardPass"]) -> int:
        """Return the window with the best answer; one without an answer only if no window has any."""
        answer_logits = [float(run.logits.sum()) for run in runs]  # of start and end
        windows_with_answer = [index for index, run in enumerate(runs) if self.spans(run)[0].label]
        return max(windows_with_answer or range(len(runs)), key=answer_logits.__getitem__)

    def in_whole_text(self, prediction: Prediction, places: Sequence[int]) -> Prediction:
        """Return the answer with its first token counted in the whole text."""
        return prediction._replace(id=places[prediction.id])


def _best_span(encoding: Encoding, token_logits: Tensor) -> list[int]:
    """Return the first and the last token of the answer: the span of the context with the largest sum of logits.

    The first token stands for "no answer" (SQuAD 2) where it is a special one and its own sum is larger, and where
    all of the context was removed.

    Args:
        encoding: The question and the context.
        token_logits: The logits of start and end at each token, (T, 2).
    """
    is_context = [sequence_id == CONTEXT for sequence_id in encoding.sequence_ids]
    outside_context = ~torch.tensor(is_context, device=token_logits.device)  # (T,)
    start, end = token_logits.masked_fill(outside_context[:, None], -torch.inf).unbind(-1)  # (T,) each
    sums = start[:, None] + end  # (T, T), starts by ends
    # From the diagonal, where start is end, to the longest answer above it.
    is_answer_span = torch.ones_like(sums, dtype=torch.bool).triu().tril(LONGEST_ANSWER - 1)
    sums = sums.masked_fill(~is_answer_span, -torch.inf)
    if encoding.special[0] and token_logits[0].sum() > sums.max():
        return [0, 0]
    return list(divmod(int(sums.argmax()), len(sums)))


class QuestionAnswering(Task):
    """Logits of start and end at every token; by default the start is explained."""

    name = "question-answering"
    models = ModelClasses(
        mapping="MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES",
        auto_class="AutoModelForQuestionAnswering",
        peft_type="QUESTION_ANS",
        plain=True,
    )
    outputs = Outputs(("start", "end"), outcomes=None)
    position = AtSpan()
