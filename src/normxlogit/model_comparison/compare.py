"""Where two models answer differently, and which words carry the difference."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

from ..copies.clone import unwrapped
from ..errors import InputError, TargetError, UnsupportedModelError
from ..explainer import Explainer
from ..inputs.encoding import Encoding
from ..inputs.texts import repeatable
from ..leave_out.outcomes import Answer, Outcomes, in_batches
from ..leave_out.picking import Verify, picked
from ..leave_out.removable import Removable, removable
from ..leave_out.removal import TextRemoval
from ..leave_out.search import run_searches
from ..leave_out.text_answers import TextAnswers
from ..methods import Method
from ..model.task_model import TaskModel
from ..pipeline.completions.completed import Completed
from ..pipeline.completions.completed_prompts import read_completion
from ..pipeline.completions.leave_out import log_probabilities
from ..pipeline.completions.sources import explain_sources
from ..pipeline.completions.whole_answers import comparable_quantity
from ..pipeline.options import Options, checked_verify
from ..pipeline.progress import VERIFYING
from ..results.attribution import Attribution
from ..results.collection import Attributions
from ..results.targets import Prediction
from ..tasks.base import generating_task
from ..tasks.targets import Choice, index_of
from ..text.same import word_key
from .aligned import Aligned
from .result import AFTER, BEFORE, ModelDifference, Names


class Pair(NamedTuple):
    """The indices of an output that both models have."""

    before: int  # in the model before
    after: int  # in the model after


class Explained(NamedTuple):
    """What one model makes of N texts.

    Attributes:
        attributions: Its attributions of the texts, (N,).
        answers_without: Returns its answers to texts without some of their tokens.
    """

    attributions: list[Attribution]
    answers_without: Callable[[Iterable[TextRemoval]], list[Answer]]


class Side(NamedTuple):
    """One of two compared models.

    Attributes:
        explainer: Its explainer, which may be that of the other model as well, see `active`.
        active: Returns a context in which the explainer's model is this one.
        name: The name of the model.
    """

    explainer: Explainer
    active: Callable[[], AbstractContextManager[Any]]
    name: str


Sides = tuple[Side, Side]
"""The models before and after, by the indices `BEFORE` and `AFTER`."""


def sides_of(before: Any, after: Explainer) -> Sides:
    """Return two models to compare.

    Args:
        before: The model before, see `explainer_or_context`.
        after: The explainer of the model after.

    Raises:
        InputError: If both are one model with one set of weights.
    """
    model = explainer_or_context(before)
    name = after.task_model.name
    if not isinstance(model, Explainer):
        context_name = getattr(model, "__name__", "in a context")
        return Side(after, model, f"{name}, {context_name}"), Side(after, nullcontext, name)
    if unwrapped(model.model) is unwrapped(after.model):
        raise InputError(
            "before and after are one model, which has one set of weights: compare with a copy (copy.deepcopy) made "
            "before it was changed, or give a function for the context in which it differs, such as "
            "peft_model.disable_adapter"
        )
    return Side(model, nullcontext, model.task_model.name), Side(after, nullcontext, name)


def explainer_or_context(before: Any) -> Any:
    """Return the explainer of the model before, or the function that a caller gives instead.

    Args:
        before: A model's name or folder, a model, a model and its tokenizer, or an explainer; or a function that
            returns a context in which the model after is the one before, such as `peft_model.disable_adapter`.
    """
    if inspect.isroutine(before) or isinstance(before, partial | Explainer):
        return before
    if before is None or isinstance(before, str | Path):
        return Explainer.from_pretrained(before)
    return Explainer(*before) if isinstance(before, tuple) else Explainer(before)


class SharedOutputs:
    """The outputs that two classifiers, or two regressions, share by their names.

    Attributes:
        pairs: The shared outputs.
        outcomes: Whether the labels exclude each other, see `TaskOutputs`; the same of both models.

    Raises:
        UnsupportedModelError: If the models answer in different ways.
        TargetError: If they share no label.
    """

    def __init__(self, before: TaskModel, after: TaskModel) -> None:
        _check_classifies(before)
        _check_classifies(after)
        outputs_before, outputs_after = before.task.outputs, after.task.outputs
        if (outputs_before.kind, outputs_before.outcomes) != (outputs_after.kind, outputs_after.outcomes):
            raise UnsupportedModelError(
                f"{before.name} and {after.name} answer in different ways: with values, with one of several labels or "
                "with several at once; compare models of one way"
            )
        labels_before, labels_after = outputs_before.labels, outputs_after.labels
        self.pairs = _pairs_of_labels(labels_before, labels_after)
        if outputs_after.kind == "value" and len(labels_before) == len(labels_after) == 1:
            self.pairs = [Pair(0, 0)]  # the only value of either, whatever it is called
        if not self.pairs:
            raise TargetError(
                f"no label of {before.name} ({', '.join(labels_before[:8])}) is one of {after.name} "
                f"({', '.join(labels_after[:8])}): name them alike with Explainer(..., labels=[...])"
            )
        self.outcomes = outputs_after.outcomes
        self._model_after = after
        self._are_binary = len(labels_before) == len(labels_after) == 2
        self._by_output_before = {pair.before: pair for pair in self.pairs}
        self._by_output_after = {pair.after: pair for pair in self.pairs}

    def pair_of(self, choice: Choice) -> Pair:
        """Return the output that a caller names, by its name or its index in the model after.

        Raises:
            TargetError: If the models do not share it.
        """
        model = self._model_after
        pair = self._by_output_after.get(index_of(model.task, choice, model.output_count))
        if pair is None:
            raise TargetError(f"{choice!r} is a label of {model.name} alone")
        return pair

    def compared(
        self, before: Prediction, after: Prediction, target: Choice | None = None, contrast: Choice | None = None
    ) -> tuple[Pair, Pair | None]:
        """Return which label of a text is compared, and which is subtracted: those that the caller names.

        Otherwise it is the answer after rather than the one before; of equal answers, and of labels that do not
        exclude each other, the label itself, against the other one where there are two.

        Args:
            before: The prediction of the model before.
            after: The prediction of the model after.
            target: The label that the caller names for comparison.
            contrast: The label that the caller subtracts.

        Raises:
            InputError: If no label is named, and neither answer is a label of both models.
        """
        subtracted = None if contrast is None else self.pair_of(contrast)
        if target is not None:
            return self.pair_of(target), subtracted
        answer_before = self._by_output_before.get(before.id)
        answer_after = self._by_output_after.get(after.id, answer_before)
        if answer_after is None:
            raise InputError(f"neither {before.label!r} nor {after.label!r} is a label of both models: give target=")
        if self.outcomes != "exclusive" or subtracted is not None:
            return answer_after, subtracted
        if answer_before not in (None, answer_after):
            return answer_after, answer_before
        if not self._are_binary:
            return answer_after, None
        return answer_after, next((pair for pair in self.pairs if pair != answer_after), None)


def _check_classifies(model: TaskModel) -> None:
    """Refuse models that do not answer a text with labels, or with a value."""
    model.task.check_explains_inputs(model)
    model.task.check_input(model, "one text")
    if not model.task.position.pooled:
        raise UnsupportedModelError(
            f"{model.name} is for {model.task.name}, and compared are models that classify a text or give it a "
            "value, and language models on a completion: compare_models(before, prompts, completion)"
        )


def _pairs_of_labels(before: Sequence[str], after: Sequence[str]) -> list[Pair]:
    """Return the labels that both models have by their names, whatever their case.

    Where two labels of one model differ by their case alone, names are compared as they are.
    """
    keys_before, keys_after = list(map(word_key, before)), list(map(word_key, after))
    if len(set(keys_before)) < len(before) or len(set(keys_after)) < len(after):
        keys_before, keys_after = list(before), list(after)
    return [
        Pair(index, keys_after.index(key))
        for index, key in enumerate(keys_before)
        if keys_before.count(key) == keys_after.count(key) == 1
    ]


def compare(
    before: Any,
    after: Explainer,
    texts: Any,
    completion: Any = None,
    *,
    target: Choice | None = None,
    contrast: Choice | None = None,
    method: str | Method | None = None,
    verify: Verify = None,
) -> Any:
    """Compare two models on texts.

    Args:
        before: The model before, see `explainer_or_context`.
        after: The explainer of the model after.
        texts: A text, or several; with a completion the prompts.
        completion: The completion of each prompt; None to compare answers of classifiers.
        target: The label that is compared; None for the answer after.
        contrast: The label that is subtracted; None for the answer before.
        method: The method; None for the default.
        verify: What is left out, to measure what both models answer without it.

    Returns:
        A `ModelDifference`, or several of them.

    Raises:
        InputError: If the models, the texts and the completions do not fit each other.
        UnsupportedModelError: If the models answer in different ways.
    """
    sides, verify = sides_of(before, after), checked_verify(verify)
    outputs: SharedOutputs | None = None
    if completion is None:
        outputs, explained, single = _explain_answers(sides, repeatable(texts), target, contrast, method)
    else:
        if target is not None or contrast is not None:
            raise InputError("target= and contrast= are for classifiers; a completion is compared whole")
        single = isinstance(completion, str)
        prompts, completions = ([texts], [completion]) if single else (list(texts), list(completion))
        explained = _explain_completions(sides, list(zip(prompts, completions, strict=True)), method)
    compared = Compared(sides, explained, outputs)
    differences = compared.differences()
    if verify is not None:
        removables = [_words_by_difference(d, verify) for d in differences]
        searched = run_searches(differences, removables, compared.differences_without)
        differences = cast(list[ModelDifference], searched)
    return differences[0] if single else Attributions(differences)


class Compared:
    """Texts that two models have explained.

    Args:
        sides: The models, before and after.
        explained: What each of them made of the texts, before and after.
        outputs: The labels that they share; None of completions.

    Attributes:
        aligned: The attributions of each text by both models, aligned by its words.
    """

    def __init__(self, sides: Sides, explained: Sequence[Explained], outputs: SharedOutputs | None) -> None:
        self._sides, self._explained, self._outputs = sides, explained, outputs
        attributions = zip(explained[BEFORE].attributions, explained[AFTER].attributions, strict=True)
        self.aligned = [Aligned.of(*attributions_of_text) for attributions_of_text in attributions]

    def answers_without(self, removals: Sequence[TextRemoval]) -> list[tuple[Answer, Answer]]:
        """Return the answers of both models without some words of texts.

        Args:
            removals: The words that are removed, by their indices in the aligned texts.
        """
        answers_by_model = []
        for model in (BEFORE, AFTER):
            token_removals = [TextRemoval(text, self.aligned[text].tokens(words, model)) for text, words in removals]
            with self._sides[model].active():
                answers_by_model.append(self._explained[model].answers_without(token_removals))
        return list(zip(*answers_by_model, strict=True))

    def differences_without(self, removals: Sequence[TextRemoval]) -> list[Answer]:
        """Return the differences of both models' answers without some words of texts, see `answers_without`."""
        return [_difference(*answers, self._outputs) for answers in self.answers_without(removals)]

    def differences(self) -> list[ModelDifference]:
        """Return the difference of the two models for each text."""
        names = (self._sides[BEFORE].name, self._sides[AFTER].name)
        answers_of_texts = self.answers_without([TextRemoval(text, ()) for text in range(len(self.aligned))])
        return [
            _model_difference(text, names, answers, _difference(*answers, self._outputs))
            for text, answers in zip(self.aligned, answers_of_texts, strict=True)
        ]


def _model_difference(
    text: Aligned, names: Names, answers: tuple[Answer, Answer], difference: Answer
) -> ModelDifference:
    """Return the result of one text.

    Args:
        text: The attributions of both models.
        names: The names of the models.
        answers: The answers of the models to the whole text.
        difference: The difference of these answers.
    """
    return text.difference(
        names,
        changed=bool(difference.outcome),
        measured=(answers[BEFORE].value, answers[AFTER].value),
        answers=tuple(answer.prediction for answer in answers if answer.prediction is not None),
        predictions=() if difference.prediction is None else (difference.prediction,),
    )


def _explain_answers(
    sides: Sides, texts: Any, target: Choice | None, contrast: Choice | None, method: str | Method | None
) -> tuple[SharedOutputs, list[Explained], bool]:
    """Explain both models' answers to texts; also return the labels that they share, and whether it is one text."""
    task_models = [side.explainer.task_model for side in sides]
    outputs = SharedOutputs(*task_models)
    encodings_by_model, predictions_by_model = [], []
    single = False
    for side, task_model in zip(sides, task_models, strict=True):
        with side.active():
            task_model.refresh()
            encodings, single = task_model.task.encode(task_model, texts, long_text="truncate")
            encodings_by_model.append(encodings)
            predictions_by_model.append([a.prediction for a in side.explainer(encodings, method="random")])
    predictions = zip(*predictions_by_model, strict=True)
    compared = [outputs.compared(before, after, target, contrast) for before, after in predictions]
    explained: list[Explained] = []
    for model, encodings in enumerate(encodings_by_model):
        labels = [(label[model], subtracted and subtracted[model]) for label, subtracted in compared]
        with sides[model].active():
            attributions = _explain_labels(sides[model].explainer, encodings, labels, method)
            answers_without = TextAnswers(task_models[model], encodings, attributions, progress=VERIFYING)
        explained.append(Explained(attributions, answers_without))
    return outputs, explained, single


def _explain_labels(
    explainer: Explainer,
    encodings: Sequence[Encoding],
    labels: Sequence[tuple[int, int | None]],
    method: str | Method | None,
) -> list[Attribution]:
    """Explain one label of each text, less the one that is subtracted from it.

    Args:
        explainer: The model.
        encodings: The texts.
        labels: The label of each text, and the one that is subtracted; None for none.
        method: The method; None for the default.
    """
    attributions: dict[int, Attribution] = {}  # by the index of the text
    for contrast in dict.fromkeys(subtracted for _, subtracted in labels):  # a call takes one contrast
        targets = {text: label for text, (label, subtracted) in enumerate(labels) if subtracted == contrast}
        encodings_of_call = [encodings[text] for text in targets]
        results = explainer(encodings_of_call, targets=list(targets.values()), contrast=contrast, method=method)
        attributions.update(zip(targets, results, strict=True))
    return [attributions[text] for text in range(len(encodings))]


def _explain_completions(
    sides: Sides, texts: Sequence[tuple[Any, str]], method: str | Method | None
) -> list[Explained]:
    """Explain completions of prompts by both models, each as a whole.

    A completion's logits are explained, or its log-probability where the models' tokenizers make different numbers of
    tokens of it: a sum of logits grows with their number.

    Args:
        sides: The models, before and after.
        texts: Each prompt with its completion.
        method: The method; None for the default.

    Returns:
        What each model makes of the completions, before and after.
    """
    completed_by_model: list[list[Completed]] = []
    for side in sides:
        with side.active():
            model = side.explainer.language_model
            generating_task(model).check_prompts(model)
            completed_by_model.append([read_completion(model, prompt, completion) for prompt, completion in texts])
    quantities = [comparable_quantity(completed_by_both) for completed_by_both in zip(*completed_by_model, strict=True)]
    explained = []
    for side, completed in zip(sides, completed_by_model, strict=True):
        options = [Options.of_completions({"method": method, "explained": quantity}) for quantity in quantities]
        with side.active():
            explained.append(_explained_by(side.explainer.language_model, completed, options))
    return explained


def _explained_by(model: TaskModel, completed: Sequence[Completed], options: Sequence[Options]) -> Explained:
    """Explain completions by one model, each as a whole, by the tokens of its prompt.

    Args:
        model: A causal language model.
        completed: The prompts with their completions.
        options: The options of each.

    Returns:
        The attribution of each completion, and the function that measures its log-probability without some tokens.
    """
    if any(text.encoding.source is not None for text in completed):
        raise UnsupportedModelError("completions are compared of causal language models")
    results = [
        explain_sources(model, text, options_of_text, sources=None, parts="all")
        for text, options_of_text in zip(completed, options, strict=True)
    ]
    counts = [len(text.generated_ids) for text in completed]

    def without(removal: TextRemoval) -> Encoding:
        """Return a prompt and its completion without some tokens of the prompt."""
        answer = completed[removal.text]
        if len(removal.tokens) == answer.prompt_tokens:
            raise InputError("nothing of the prompt would be left")
        return answer.without(removal.tokens)

    def measure(encodings: list[Encoding], removals: list[TextRemoval]) -> list[Answer]:
        """Return the log-probability of what is completed by each encoding."""
        nats = log_probabilities(model, encodings, [counts[removal.text] for removal in removals])
        return [Answer(None, float(of_tokens.sum()), None) for of_tokens in nats]

    return Explained([a.whole() for a in results], Outcomes(in_batches(model, without, measure), VERIFYING))


def _difference(before: Answer, after: Answer, outputs: SharedOutputs | None) -> Answer:
    """Return the difference of two answers as an answer, whose outcome is whether they differ.

    Args:
        before: The answer of the model before.
        after: The answer of the model after.
        outputs: The labels that the models share; None of completions, which have no prediction.
    """
    value = after.value - before.value
    prediction_before, prediction_after = before.prediction, after.prediction
    if prediction_before is None or prediction_after is None or outputs is None:
        return Answer(None, value, None)
    label = prediction_after.label
    differ: bool | None = None  # of values, which are not told apart
    if outputs.outcomes == "exclusive":
        differ = (prediction_before.id, prediction_after.id) not in outputs.pairs
        label = f"{prediction_before.label} → {label}" if differ else label
    elif outputs.outcomes is not None:
        differ = before.outcome != after.outcome
    return Answer(Prediction(label, prediction_after.id, value, None), value, differ)


def _words_by_difference(d: ModelDifference, verify: Verify) -> Removable:
    """Return the words of a text that can be left out, first those that carry the difference.

    Args:
        d: The difference of the models on the text.
        verify: What the caller asked for.
    """
    words = removable(d)
    before, after = d.measured
    sign = -1.0 if after < before else 1.0  # a difference below zero is carried by the negative scores
    words = words._replace(
        parts=[word._replace(score=sign * word.score) for word in words.parts],
        target=d.target.name,
        quantity="difference",
        may_be_empty=d.completion is None,
    )
    return picked(d, words, verify)
