"""Tasks that compare the logits of several pairs of texts, such as multiple choice: which pair is chosen, and why."""

import operator
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..copies.clone import override_forward
from ..copies.memory import enough_memory
from ..copies.module_io import TensorInputs
from ..errors import InputError, TargetError, UnsupportedModelError
from ..inputs.batches import Batch
from ..inputs.encoding import Encoding
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


Questions = tuple[list[Alternatives], bool]
"""The pairs to compare for each input, and whether a single input was given."""


class Comparing(Task):
    """The base of tasks that compare several pairs of texts for one input.

    The model reads each pair by itself, and its head has one or several outputs for a pair, of which one is the logit
    of the pair.

    Attributes:
        independent: Whether each pair is right or wrong by itself; False if one of them is right.
        output: The index of the head's output that is a pair's logit.
        subtracted: The index of the output that is subtracted from it; None for none.
    """

    independent: bool = False
    output: int = 0
    subtracted: int | None = None

    def check_input(self, model: TaskModel, needed: Needed) -> None:
        """Refuse what needs one text for each answer; words can be left out of several texts as of one."""
        if needed != "words":
            raise UnsupportedModelError(
                f"this needs one text for each answer, and {model.name} compares several: call the explainer on it"
            )

    def alternatives(self, inputs: Any) -> Questions:
        """Return the pairs to compare for each input, and whether a single input was given."""
        raise NotImplementedError

    def pair_logits(self, outputs: Tensor) -> Tensor:
        """Return the logit of each pair, (C,), from the head's outputs for it, (C, outputs)."""
        logits = outputs[:, self.output].float()
        return logits if self.subtracted is None else logits - outputs[:, self.subtracted].float()

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
        runs = forward_passes(model, encodings, layers=options.layers is not None)  # C, of one pair each
        logits = self.pair_logits(torch.stack([run.logits[0] for run in runs]))  # (C,)
        index = _explained_pair(names, logits, options.target, options.contrast)
        # To the method, the head's outputs are the targets; to the caller, the pairs are. What the head says of single
        # tokens is no choice between pairs.
        options_of_pair = replace(options, target=self.output, contrast=self.subtracted, token_predictions=False)
        (result,) = attribute_pass(model, runs[index], options_of_pair)
        target = result.target._replace(kind="label", name=names[index], id=index, position=None)
        # `Any` for the type checker, as an `Answer` may have no prediction; this one has.
        prediction: Any = self._answer(names, logits, int(logits.argmax())).prediction
        result = replace(result, predictions=(prediction,), targets=(target,))
        if options.verify is None:
            return result
        progress = partial(progress_bar, show=options.progress, description="verifying")
        answers = self._answers_without(model, names, encodings, index, progress)
        (verified,) = run_searches([result], [removable_for_task(model, result, options.verify)], answers)
        return verified

    def _answer(self, names: Sequence[str], logits: Tensor, index: int) -> Answer:
        """Return the answer among all pairs, with the probability of one of them.

        Where pairs do not exclude each other, the answer is that of the one: whether its probability reaches a half.

        Args:
            names: The names of the C pairs.
            logits: Their logits, (C,).
            index: The explained pair.
        """
        if self.independent:
            probabilities = logits.sigmoid()  # (C,)
            answered = index  # whichever pair is the likeliest, the others are answers of their own
            outcome: Hashable = float(probabilities[index]) >= HOLDS
        else:
            probabilities = logits.softmax(-1)  # (C,)
            answered = outcome = int(logits.argmax())
        prediction = Prediction(names[answered], answered, float(logits[answered]), float(probabilities[answered]))
        return Answer(prediction, value=float(probabilities[index]), outcome=outcome)

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

        def head_outputs(inputs: list[Encoding], _: object) -> Iterable[Tensor]:
            """Return the head's outputs, (outputs,), for each of some shortened pairs; their removals do not count."""
            return model.run(model.batch(inputs)).logits

        without_tokens = tokens_removed(model, encodings, masked=False)
        # A table of the head's outputs by removal: each removal from a pair is read once.
        outputs_without = Outcomes(in_batches(model, without_tokens, head_outputs), progress)
        spans = [_spans_in_first(encoding) for encoding in encodings]

        def answers(removals: list[TextRemoval]) -> list[Answer]:
            """Return the answer after each of some removals from the explained pair."""
            removals_of_pairs = [_removals_of_pairs(spans, index, removal.tokens) for removal in removals]  # C each
            outputs_without(chain.from_iterable(removals_of_pairs))  # all in the same batches; now they are known
            outputs = [torch.stack(outputs_without(of_pairs)) for of_pairs in removals_of_pairs]  # (C, outputs) each
            return [self._answer(names, self.pair_logits(of_pairs), index) for of_pairs in outputs]

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

    Where a tokenizer gives no characters, the index of the token stands for them.
    """
    spans = encoding.offsets or [(token, token + 1) for token in range(len(encoding))]
    return [span if sequence == 0 else None for span, sequence in zip(spans, encoding.sequence_ids, strict=True)]


class MultipleChoice(Comparing):
    """Multiple choice: the model reads the prompt once with each choice."""

    name = MULTIPLE_CHOICE.name
    models = MULTIPLE_CHOICE.models

    outputs = Outputs(("choice",))  # the head has one, the logit of the pair

    def adapt(self, module: nn.Module) -> bool:
        """Make a copy read every row as a question with one choice.

        Returns:
            True: an adapted copy could answer otherwise, so it is compared with the caller's model.
        """
        override_forward(module, lambda original, **inputs: original(**_with_choice_axis(inputs)))
        super().adapt(module)  # may set a padding id
        return True

    def caller_inputs(self, inputs: TensorInputs, batch: Batch, device: torch.device) -> TensorInputs:
        """Return the inputs of one text as one choice, (B, 1, T)."""
        return _with_choice_axis(inputs)

    def alternatives(self, inputs: Any) -> Questions:
        """Return the pairs (prompt, choice) of one question, (prompt, choices), or of each of several."""
        # A text alone, or what is no collection, is no question either, and is refused below.
        single = isinstance(inputs, str | tuple) or not isinstance(inputs, Iterable)
        questions = [inputs] if single else inputs
        return [_question(question, number) for number, question in enumerate(questions)], single


def _question(question: Any, number: int) -> Alternatives:
    """Return the pairs of a prompt with its choices; `number` is that of the input, for errors."""
    if not _is_question(question):
        raise InputError(f"input {number} must be (prompt, [choices]) with two choices or more")
    prompt, choices = question
    return Alternatives(choices, [(prompt, choice) for choice in choices])


def _is_question(item: Any) -> bool:
    """Return whether an input is a tuple of a prompt and two choices or more."""
    if not isinstance(item, tuple) or len(item) != 2:
        return False
    prompt, choices = item
    is_list = isinstance(choices, Sequence) and not isinstance(choices, str)
    return isinstance(prompt, str) and is_list and len(choices) >= 2


def _with_choice_axis(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs of (B, T) as those of one choice each, (B, 1, T)."""
    return {
        name: value[:, None] if isinstance(value, Tensor) and value.ndim > 1 else value
        for name, value in inputs.items()
    }
