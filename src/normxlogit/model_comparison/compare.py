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
from ..pipeline.completions.sources import explain_sources, explained_of
from ..pipeline.options import Options, checked_verify
from ..pipeline.progress import VERIFYING
from ..results.attribution import Attribution
from ..results.collection import Attributions
from ..results.targets import Prediction
from ..tasks.base import generating_task
from ..tasks.targets import Choice, index_of
from ..text.same import word_key
from .aligned import Aligned
from .result import ModelDifference, Names

Pair = tuple[int, int]
"""An output of the model before, and the same output of the model after."""

Explained = tuple[list[Attribution], Callable[[Iterable[TextRemoval]], list[Answer]]]
"""A model's attributions of texts, and a function of its answers to them without some of their tokens."""


class Side(NamedTuple):
    """One of two compared models."""

    explainer: Explainer
    active: Callable[[], AbstractContextManager[Any]]  # a context in which the explainer's model is this one
    name: str


Sides = tuple[Side, Side]
"""The models before and after."""


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
    is_function = inspect.isroutine(before) or isinstance(before, partial)
    if is_function or isinstance(before, Explainer):
        return before
    if before is None or isinstance(before, str | Path):
        return Explainer.from_pretrained(before)
    return Explainer(*before) if isinstance(before, tuple) else Explainer(before)


class SharedOutputs:
    """The outputs that two classifiers, or two regressions, share by their names."""

    def __init__(self, before: TaskModel, after: TaskModel) -> None:
        _check_classifies(before)
        _check_classifies(after)
        ours, theirs = before.task.outputs, after.task.outputs
        self.after, self.outcomes = after, ours.outcomes
        self.binary = len(ours.labels) == len(theirs.labels) == 2
        if (ours.kind, ours.outcomes) != (theirs.kind, theirs.outcomes):
            raise UnsupportedModelError(
                f"{before.name} and {after.name} answer in different ways: with values, with one of several labels or "
                "with several at once; compare models of one way"
            )
        self.pairs = _pairs_of_labels(ours.labels, theirs.labels)
        if ours.kind == "value" and len(ours.labels) == len(theirs.labels) == 1:
            self.pairs = [(0, 0)]
        if not self.pairs:
            raise TargetError(
                f"no label of {before.name} ({', '.join(ours.labels[:8])}) is one of {after.name} "
                f"({', '.join(theirs.labels[:8])}): name them alike with Explainer(..., labels=[...])"
            )
        self._by_output_before = {pair[0]: pair for pair in self.pairs}
        self._by_output_after = {pair[1]: pair for pair in self.pairs}

    def pair_of(self, choice: Choice) -> Pair:
        """Return the output that a caller names, by its name or its index in the model after."""
        pair = self._by_output_after.get(index_of(self.after.task, choice, self.after.output_count))
        if pair is None:
            raise TargetError(f"{choice!r} is a label of {self.after.name} alone")
        return pair

    def compared(
        self, before: Prediction, after: Prediction, target: Choice | None = None, contrast: Choice | None = None
    ) -> tuple[Pair, Pair | None]:
        """Return which label of a text is compared, and which is subtracted: those that the caller named.

        Otherwise it is the answer after rather than the one before; of equal answers, and of labels that do not
        exclude each other, the label itself, against the other one where there are two.
        """
        subtracted = None if contrast is None else self.pair_of(contrast)
        if target is not None:
            return self.pair_of(target), subtracted
        earlier = self._by_output_before.get(before.id)
        later = self._by_output_after.get(after.id, earlier)
        if later is None:
            raise InputError(f"neither {before.label!r} nor {after.label!r} is a label of both models: give target=")
        if self.outcomes != "exclusive" or subtracted is not None:
            return later, subtracted
        if earlier not in (None, later):
            return later, earlier
        others = (pair for pair in self.pairs if pair != later and self.binary)
        return later, next(others, None)


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
    """Return the labels that are of both models by their names; case and the like count where labels differ by it."""
    first, second = ([word_key(label) for label in labels] for labels in (before, after))
    if len(set(first)) < len(first) or len(set(second)) < len(second):
        first, second = list(before), list(after)
    return [(place, second.index(key)) for place, key in enumerate(first) if first.count(key) == second.count(key) == 1]


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
        explained: What each of them made of the texts.
        outputs: The labels that they share; None of completions.
    """

    def __init__(self, sides: Sides, explained: Sequence[Explained], outputs: SharedOutputs | None) -> None:
        self.sides, self.explained, self.outputs = sides, explained, outputs
        (before, _), (after, _) = explained
        self.aligned = [Aligned.of(*both) for both in zip(before, after, strict=True)]

    def answers_without(self, removals: Sequence[TextRemoval]) -> list[tuple[Answer, Answer]]:
        """Return the answers of both models without some words of texts."""
        answers = []
        for which, (side, (_, answers_of_side)) in enumerate(zip(self.sides, self.explained, strict=True)):
            of_tokens = [TextRemoval(place, self.aligned[place].tokens(words, which)) for place, words in removals]
            with side.active():
                answers.append(answers_of_side(of_tokens))
        return list(zip(*answers, strict=True))

    def differences_without(self, removals: Sequence[TextRemoval]) -> list[Answer]:
        """Return the differences of both models' answers without some words of texts."""
        return [_difference(*answers, self.outputs) for answers in self.answers_without(removals)]

    def differences(self) -> list[ModelDifference]:
        """Return the difference of the two models for each text."""
        names = (self.sides[0].name, self.sides[1].name)
        answers_of_texts = self.answers_without([TextRemoval(place, ()) for place in range(len(self.aligned))])
        return [
            _model_difference(text, names, answers, _difference(*answers, self.outputs))
            for text, answers in zip(self.aligned, answers_of_texts, strict=True)
        ]


def _model_difference(
    text: Aligned, names: Names, answers: tuple[Answer, Answer], difference: Answer
) -> ModelDifference:
    """Return the result of one text, of both models' answers and their difference."""
    return text.difference(
        names,
        changed=bool(difference.outcome),
        measured=(answers[0].value, answers[1].value),
        answers=tuple(answer.prediction for answer in answers if answer.prediction is not None),
        predictions=() if difference.prediction is None else (difference.prediction,),
    )


def _explain_answers(
    sides: Sides, texts: Any, target: Choice | None, contrast: Choice | None, method: str | Method | None
) -> tuple[SharedOutputs, list[Explained], bool]:
    """Explain both models' answers to texts; also return the labels that they share, and whether it is one text."""
    models = [side.explainer.task_model for side in sides]
    outputs, encodings_of_sides, predictions, single = SharedOutputs(*models), [], [], False
    for side, model in zip(sides, models, strict=True):
        with side.active():
            model.refresh()
            encodings, single = model.task.encode(model, texts, long_text="truncate")
            encodings_of_sides.append(encodings)
            predictions.append([a.prediction for a in side.explainer(encodings, method="random")])
    compared = [outputs.compared(before, after, target, contrast) for before, after in zip(*predictions, strict=True)]
    explained: list[Explained] = []
    for which, encodings in enumerate(encodings_of_sides):
        labels = [(label[which], subtracted and subtracted[which]) for label, subtracted in compared]
        with sides[which].active():
            results = _explain_labels(sides[which].explainer, encodings, labels, method)
            explained.append((results, TextAnswers(models[which], encodings, results, progress=VERIFYING)))
    return outputs, explained, single


def _explain_labels(
    explainer: Explainer,
    encodings: Sequence[Encoding],
    labels: Sequence[tuple[int, int | None]],
    method: str | Method | None,
) -> list[Attribution]:
    """Explain for each text one label, and the one that is subtracted from it; texts of one contrast in one call."""
    results: dict[int, Attribution] = {}
    for contrast in dict.fromkeys(subtracted for _, subtracted in labels):
        places = [place for place, (_, subtracted) in enumerate(labels) if subtracted == contrast]
        targets = [labels[place][0] for place in places]
        some = [encodings[place] for place in places]
        attributions = explainer(some, targets=targets, contrast=contrast, method=method)
        results.update(zip(places, attributions, strict=True))
    return [results[place] for place in range(len(encodings))]


def _explain_completions(
    sides: Sides, texts: Sequence[tuple[Any, str]], method: str | Method | None
) -> list[Explained]:
    """Explain completions of prompts by both models, each as a whole.

    Where the models' tokenizers make a completion of different numbers of tokens, its log-probability is explained.
    """
    of_sides: list[list[Completed]] = []
    for side in sides:
        with side.active():
            model = side.explainer.language_model
            generating_task(model).check_prompts(model)
            of_sides.append([read_completion(model, prompt, completion) for prompt, completion in texts])
    quantities = [explained_of(answers) for answers in zip(*of_sides, strict=True)]
    explained = []
    for side, completed in zip(sides, of_sides, strict=True):
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
        whole = completed[removal.text]
        if len(removal.tokens) == whole.prompt_tokens:
            raise InputError("nothing of the prompt would be left")
        return whole.without(removal.tokens)

    def measure(encodings: list[Encoding], removals: list[TextRemoval]) -> list[Answer]:
        """Return the log-probability of what is completed by each encoding."""
        nats = log_probabilities(model, encodings, [counts[removal.text] for removal in removals])
        return [Answer(None, float(of_tokens.sum()), None) for of_tokens in nats]

    return [a.whole() for a in results], Outcomes(in_batches(model, without, measure), VERIFYING)


def _difference(before: Answer, after: Answer, outputs: SharedOutputs | None) -> Answer:
    """Return the difference of two answers as an answer, whose outcome is whether they differ."""
    value = after.value - before.value
    first, second = before.prediction, after.prediction
    if first is None or second is None or outputs is None:
        return Answer(None, value, None)
    label = second.label
    differ: bool | None = None  # of values, which are not told apart
    if outputs.outcomes == "exclusive":
        differ = (first.id, second.id) not in outputs.pairs
        label = f"{first.label} → {second.label}" if differ else second.label
    elif outputs.outcomes is not None:
        differ = before.outcome != after.outcome
    return Answer(Prediction(label, second.id, value, None), value, differ)


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
