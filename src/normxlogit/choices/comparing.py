"""Tasks that compare the logits of several pairs of texts, such as multiple choice: which pair is chosen, and why."""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..copies.clone import override_forward
from ..copies.memory import enough_memory
from ..errors import InputError, TargetError, UnsupportedModelError
from ..inputs.encoding import Batch, Encoding
from ..leave_out.outcomes import Answer, Outcomes, Progress, in_batches
from ..leave_out.picking import removable_for_task
from ..leave_out.removal import TextRemoval, Tokens, tokens_removed
from ..leave_out.search import run_searches
from ..model.batch_attempts import forward_passes
from ..model.task_model import TaskModel
from ..pipeline.attribute_pass import attribute_pass
from ..pipeline.options import Options, Results
from ..pipeline.progress import progress_bar
from ..results.attribution import Attribution
from ..results.collection import Attributions
from ..results.targets import Prediction
from ..tasks.base import Needed, Task
from ..tasks.targets import Choice, TargetSpec, is_choice
from ..tasks.task_outputs import HOLDS, Outputs
from ..text.characters import Span
from ..text.same import matching_names
from .extension import MULTIPLE_CHOICE


class Alternatives(NamedTuple):
    """One input: C pairs of texts with their names, of which the model chooses one."""

    names: Sequence[str]
    pairs: list[tuple[str, str]]


class Comparing(Task):
    """The base of tasks that compare several pairs of texts for one input.

    Attributes:
        independent: Whether each pair is right or wrong by itself, and not one of them right.
        output: The head's output that is a pair's logit.
        subtracted: The output that is subtracted from it; None for none.
    """

    independent: bool = False
    output: int = 0
    subtracted: int | None = None

    def check_input(self, model: TaskModel, needed: Needed) -> None:
        """Refuse what needs one text for each answer; words can be left out of several as of one."""
        if needed != "words":
            raise UnsupportedModelError(
                f"this needs one text for each answer, and {model.name} compares several: call the explainer on it"
            )

    def alternatives(self, inputs: Any) -> tuple[list[Alternatives], bool]:
        """Return the pairs to compare for each input, and whether a single input was given."""
        raise NotImplementedError

    def values(self, logits: Tensor) -> Tensor:
        """Return the logit of each pair, (C,), from the head's outputs, (C, outputs)."""
        values = logits[:, self.output].float()
        return values if self.subtracted is None else values - logits[:, self.subtracted].float()

    def explain(self, model: TaskModel, inputs: Any, options: Options) -> Results:
        """Explain which of several texts a model chooses."""
        self.position.locate([], options.position)  # refuses position=, as an input is compared whole
        if options.long_text == "window":
            raise InputError("choices are compared on the whole text each; long_text is 'truncate' or 'error' for them")
        questions, single = self.alternatives(inputs)
        options.check_count(len(questions))
        results = []
        with progress_bar(len(questions), options.progress) as advance:
            for index, question in enumerate(questions):
                results.append(self._explain_one(model, question, options.only(index)))
                advance(1)
        return results[0] if single else Attributions(results)

    @enough_memory("explain this input")
    def _explain_one(self, model: TaskModel, question: Alternatives, options: Options) -> Attribution:
        """Explain one pair of a question: the one that the caller names, or the one that the model chooses."""
        names = question.names
        encodings = model.encoder(list(question.pairs), long_text=options.long_text)
        runs = forward_passes(model, encodings, layers=options.layers is not None)
        values = self.values(torch.stack([run.logits[0] for run in runs]))  # (C,)
        index = _explained_pair(names, values, options.target, options.contrast)
        options_of_pair = replace(options, target=self.output, contrast=self.subtracted, token_predictions=False)
        (result,) = attribute_pass(model, runs[index], options_of_pair)
        prediction: Any = self._answer(names, values, int(values.argmax())).prediction
        target = result.target._replace(kind="label", name=names[index], id=index, position=None)
        result = replace(result, predictions=(prediction,), targets=(target,))
        if options.verify is None:
            return result
        progress = partial(progress_bar, show=options.progress, description="verifying")
        answers = self._answers_without(model, names, encodings, index, progress)
        (verified,) = run_searches([result], [removable_for_task(model, result, options.verify)], answers)
        return verified

    def _answer(self, names: Sequence[str], values: Tensor, index: int) -> Answer:
        """Return the answer among all pairs, with the probability of one of them.

        Where pairs do not exclude each other, the answer is that of the one: whether its probability reaches a half.

        Args:
            names: The names of the C pairs.
            values: Their logits, (C,).
            index: The explained pair.
        """
        probabilities = values.sigmoid() if self.independent else values.softmax(-1)  # (C,)
        probability = float(probabilities[index])
        answered = index if self.independent else int(values.argmax())
        outcome = probability >= HOLDS if self.independent else answered
        prediction = Prediction(names[answered], answered, float(values[answered]), float(probabilities[answered]))
        return Answer(prediction, probability, outcome)

    def _answers_without(
        self, model: TaskModel, names: Sequence[str], encodings: Sequence[Encoding], index: int, progress: Progress
    ) -> Callable[[list[TextRemoval]], list[Answer]]:
        """Return a function that compares the pairs without some tokens of the explained one.

        Words of the first text are left out of every pair, those of the choice itself of its own pair.

        Args:
            model: The model.
            names: The names of the C pairs.
            encodings: The pairs.
            index: The explained pair.
            progress: Shows how many pairs have been read.
        """

        def read(inputs: list[Encoding], _: object) -> Iterable[Tensor]:
            return model.run(model.batch(inputs)).logits

        without_tokens = tokens_removed(model, encodings, masked=False)
        logits_without = Outcomes(in_batches(model, without_tokens, read), progress)  # each removal is read once
        spans = [_spans_in_first(encoding) for encoding in encodings]

        def answers(removals: list[TextRemoval]) -> list[Answer]:
            from_pairs = [_removals_of_pairs(spans, index, removal.tokens) for removal in removals]
            logits_without(chain.from_iterable(from_pairs))  # reads all in the same batches
            logits = [torch.stack(logits_without(of_pairs)) for of_pairs in from_pairs]  # (C, outputs) each
            return [self._answer(names, self.values(logits_of_pairs), index) for logits_of_pairs in logits]

        return answers


def _explained_pair(names: Sequence[str], pair_logits: Tensor, target: TargetSpec, contrast: Choice | None) -> int:
    """Return the index of the pair to explain: the one that the caller names, or the one with the highest logit.

    Args:
        names: The names of the pairs, C of them.
        pair_logits: The logit of each pair, (C,).
        target: The pair that the caller asks for, by its name or index; None for the one that the model chooses.
        contrast: What the caller asks to subtract, which must be None.

    Raises:
        TargetError: If there is no such pair, or several are asked for.
    """
    if contrast is not None or not (target is None or is_choice(target)):
        raise TargetError("each choice has tokens of its own: explain one at a time, without a contrast")
    if target is None:
        return int(pair_logits.argmax())
    if isinstance(target, str):
        matches = matching_names(target, names)
        if not matches:
            raise TargetError(f"no choice {target!r} among {', '.join(map(repr, names))}")
        return matches[0]  # two choices may be spelled alike
    index = operator.index(target)
    if not 0 <= index < len(names):
        raise TargetError(f"there is no choice {index}; they are counted from 0 to {len(names) - 1}")
    return index


def _removals_of_pairs(spans: Sequence[Sequence[Span | None]], index: int, tokens: Tokens) -> list[TextRemoval]:
    """Return the tokens that are removed from each pair where some are removed from the explained pair.

    The first text is the same in all pairs: its tokens are removed from every pair, found by their characters. Those of
    the second text are removed from the explained pair alone.

    Args:
        spans: The characters of each token of each pair, None for tokens of the second text, see `_spans_in_first`.
        index: The explained pair.
        tokens: The tokens that are removed from it.
    """
    removed_spans = {spans[index][token] for token in tokens} - {None}
    removals: list[TextRemoval] = []
    for pair, spans_of_pair in enumerate(spans):
        same_tokens = tuple(token for token, span in enumerate(spans_of_pair) if span in removed_spans)
        removals.append(TextRemoval(pair, tokens if pair == index else same_tokens))
    return removals


def _spans_in_first(encoding: Encoding) -> list[Span | None]:
    """Return the characters of each token of a pair in the first text; None for a token that is not of the first text.

    Where a tokenizer gives no characters, the place of the token stands for them.
    """
    spans = encoding.offsets or [(place, place + 1) for place in range(len(encoding))]
    return [span if text == 0 else None for span, text in zip(spans, encoding.sequence_ids, strict=True)]


class MultipleChoice(Comparing):
    """Multiple choice: the model reads the prompt once with each choice."""

    name = MULTIPLE_CHOICE.name
    models = MULTIPLE_CHOICE.models

    outputs = Outputs(("choice",))

    def adapt(self, module: nn.Module) -> bool:
        """Make a copy read every row as a question with one choice, which could change its answer."""
        override_forward(module, lambda original, **inputs: original(**_with_choice_axis(inputs)))
        super().adapt(module)
        return True

    def caller_inputs(self, inputs: dict[str, Tensor], batch: Batch, device: torch.device) -> dict[str, Tensor]:
        """Return the inputs of one text as one choice, (B, 1, T)."""
        return _with_choice_axis(inputs)

    def alternatives(self, inputs: Any) -> tuple[list[Alternatives], bool]:
        """Return the pairs (prompt, choice) of each question."""
        single = isinstance(inputs, str | tuple) or not isinstance(inputs, Iterable)
        questions = [inputs] if single else inputs
        return [_question(question, number) for number, question in enumerate(questions)], single


def _question(question: Any, number: int) -> Alternatives:
    """Return the pairs of a prompt with its choices; `number` is that of the input, for errors."""
    error = InputError(f"input {number} must be (prompt, [choices]) with two choices or more")
    if not isinstance(question, tuple) or len(question) != 2:
        raise error
    prompt, choices = question
    is_list = isinstance(choices, Sequence) and not isinstance(choices, str)
    if not isinstance(prompt, str) or not is_list or len(choices) < 2:
        raise error
    return Alternatives(choices, [(prompt, choice) for choice in choices])


def _with_choice_axis(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs of (B, T) as those of one choice each, (B, 1, T)."""
    return {
        name: value[:, None] if isinstance(value, Tensor) and value.ndim > 1 else value
        for name, value in inputs.items()
    }
