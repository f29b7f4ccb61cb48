"""What each of two models makes of texts: attributions, and answers without some of their tokens."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ..errors import InputError, UnsupportedModelError
from ..explainer import Explainer
from ..inputs.encoding import Encoding
from ..leave_out.outcomes import Answer, Outcomes, in_batches
from ..leave_out.removal import TextRemoval
from ..leave_out.text_answers import TextAnswers
from ..methods import Method
from ..model.task_model import TaskModel
from ..pipeline.completions.completed import Completed
from ..pipeline.completions.completed_prompts import read_completion
from ..pipeline.completions.leave_out import log_probabilities
from ..pipeline.completions.sources import explain_sources
from ..pipeline.completions.whole_answers import comparable_quantity
from ..pipeline.options import Options
from ..pipeline.progress import VERIFYING
from ..results.attribution import Attribution
from ..tasks.base import generating_task
from ..tasks.targets import Choice
from .shared_outputs import ComparedLabel, SharedOutputs
from .sides import Sides


class Explained(NamedTuple):
    """What one model makes of N texts.

    Attributes:
        attributions: Its attributions of the texts, (N,).
        answers_without: Returns its answers to texts without some of their tokens.
    """

    attributions: list[Attribution]
    answers_without: Callable[[Iterable[TextRemoval]], list[Answer]]


class ExplainedTexts(NamedTuple):
    """What two models make of N texts."""

    by_model: list[Explained]  # by `BEFORE` and `AFTER`
    outputs: SharedOutputs | None  # the labels that the models share; None of completions
    single: bool  # whether the caller gave one text, and not several


def explain_answers(
    sides: Sides, texts: Any, target: Choice | None, contrast: Choice | None, method: str | Method | None
) -> ExplainedTexts:
    """Explain both models' answers to texts: of each text one label that they share, as both answer.

    Args:
        sides: The models, before and after.
        texts: A text, or several.
        target: As in `compare`.
        contrast: As in `compare`.
        method: As in `compare`.

    Raises:
        InputError: If a text cannot be read, or no label is named, and no answer is a label of both models.
        UnsupportedModelError: If the models answer in different ways.
        TargetError: If they do not share a label, or the one that is named.
    """
    task_models = [side.explainer.task_model for side in sides]
    outputs = SharedOutputs(*task_models)
    encodings_by_model = []
    predictions_by_model = []
    single = False
    for side, task_model in zip(sides, task_models, strict=True):
        with side.active():
            task_model.refresh()  # the context may have changed the model, as an adapter that is switched off
            encodings, single = task_model.task.encode(task_model, texts, long_text="truncate")
            encodings_by_model.append(encodings)
            # Of these results only the predictions count: the cheapest method gives them.
            predictions_by_model.append([a.prediction for a in side.explainer(encodings, method="random")])
    compared_labels = [
        outputs.compared(before, after, target, contrast) for before, after in zip(*predictions_by_model, strict=True)
    ]
    explained: list[Explained] = []
    for model, encodings in enumerate(encodings_by_model):
        with sides[model].active():
            attributions = _explain_labels(sides[model].explainer, model, encodings, compared_labels, method)
            answers_without = TextAnswers(task_models[model], encodings, attributions, progress=VERIFYING)
        explained.append(Explained(attributions, answers_without))
    return ExplainedTexts(explained, outputs, single)


def _explain_labels(
    explainer: Explainer,
    model: int,
    encodings: Sequence[Encoding],
    labels: Sequence[ComparedLabel],
    method: str | Method | None,
) -> list[Attribution]:
    """Explain one label of each text, less the one that is subtracted from it.

    Args:
        explainer: The explainer of one model.
        model: Which one it is, `BEFORE` or `AFTER`.
        encodings: The texts.
        labels: What is explained of each text.
        method: The method; None for the default.
    """
    attributions: dict[int, Attribution] = {}  # by the index of the text
    for subtracted in dict.fromkeys(label.subtracted for label in labels):  # a call takes one contrast
        targets = {text: label.label[model] for text, label in enumerate(labels) if label.subtracted == subtracted}
        contrast = None if subtracted is None else subtracted[model]
        encodings_of_call = [encodings[text] for text in targets]
        results = explainer(encodings_of_call, targets=list(targets.values()), contrast=contrast, method=method)
        attributions.update(zip(targets, results, strict=True))
    return [attributions[text] for text in range(len(encodings))]


def explain_completions(sides: Sides, prompts: Any, completion: Any, method: str | Method | None) -> ExplainedTexts:
    """Explain completions of prompts by both models, each as a whole.

    A completion's logits are explained, or its log-probability where the models' tokenizers make different numbers of
    tokens of it: a sum of logits grows with their number.

    Args:
        sides: The models, before and after.
        prompts: A prompt, or several.
        completion: The completion of a single prompt, a string, or one for each of several.
        method: As in `compare`.

    Raises:
        UnsupportedModelError: If one of them is not a causal language model.
    """
    single = isinstance(completion, str)
    completed_prompts = [(prompts, completion)] if single else list(zip(prompts, completion, strict=True))
    completed_by_model: list[list[Completed]] = []
    for side in sides:
        with side.active():
            model = side.explainer.language_model
            generating_task(model).check_prompts(model)
            completed_by_model.append([read_completion(model, *prompt) for prompt in completed_prompts])
    quantities = [comparable_quantity(completed_by_both) for completed_by_both in zip(*completed_by_model, strict=True)]
    options = [Options.of_completions({"method": method, "explained": quantity}) for quantity in quantities]
    explained = []
    for side, completed in zip(sides, completed_by_model, strict=True):
        with side.active():
            explained.append(_explained_by(side.explainer.language_model, completed, options))
    return ExplainedTexts(explained, outputs=None, single=single)


def _explained_by(model: TaskModel, completed: Sequence[Completed], options: Sequence[Options]) -> Explained:
    """Explain completions by one model, each as a whole, by the tokens of its prompt.

    Args:
        model: A causal language model.
        completed: The prompts with their completions.
        options: The options of each.

    Returns:
        The attribution of each completion, and the function that measures its log-probability without some tokens.
    """
    if any(text.encoding.source is not None for text in completed):  # of encoder-decoders, that of the encoder
        raise UnsupportedModelError("completions are compared of causal language models")
    results = [
        explain_sources(model, text, options_of_text, sources=None, parts="all")
        for text, options_of_text in zip(completed, options, strict=True)
    ]

    def without(removal: TextRemoval) -> Encoding:
        """Return a prompt and its completion without some tokens of the prompt."""
        answer = completed[removal.text]
        if len(removal.tokens) == answer.prompt_tokens:
            raise InputError("nothing of the prompt would be left")
        return answer.without(removal.tokens)

    def measure(encodings: list[Encoding], removals: list[TextRemoval]) -> list[Answer]:
        """Return the log-probability of what is completed by each encoding."""
        completion_lengths = [len(completed[removal.text].generated_ids) for removal in removals]
        nats = log_probabilities(model, encodings, completion_lengths)  # (G,) each
        return [Answer(prediction=None, value=float(of_tokens.sum()), outcome=None) for of_tokens in nats]

    return Explained([a.whole() for a in results], Outcomes(in_batches(model, without, measure), VERIFYING))
