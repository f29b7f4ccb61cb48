"""Gold labels as a model has them, and whether it can be measured on them."""

from collections.abc import Sequence

from ..errors import DataError, InputError, UnsupportedModelError
from ..inputs.texts import is_column
from ..long_runs.gold.model_labels import ModelLabels
from ..long_runs.gold.reading import read_gold
from ..model.task_model import TaskModel
from .datasets import Example, GlueTask

Labels = Sequence[float] | Sequence[Sequence[float]]
"""The gold labels of texts; of models with several true labels a 1 or a 0 for each."""


def _classifies_texts(model: TaskModel) -> bool:
    """Return whether a model answers with labels, or values, of the whole input and not of its tokens."""
    return model.task.position.pooled and bool(model.task.outputs.labels)


def check_head(model: TaskModel, task: GlueTask) -> None:
    """Check that a model can answer a task.

    Args:
        model: The model.
        task: The task.

    Raises:
        UnsupportedModelError: If it classifies no texts, or has another number of labels.
    """
    model.task.check_input(model, "one text")
    if not _classifies_texts(model):
        needs = f"{task.name} needs a model that classifies texts"
        raise UnsupportedModelError(f"{needs}, and {model.name} is for {model.task.name}")
    is_value = model.task.outputs.kind == "value"
    answers = _counted_outputs(len(model.task.outputs.labels), "value" if is_value else "label")
    # A task without labels is a regression, of one value.
    needs = _counted_outputs(len(task.labels) or 1, "label" if task.labels else "value")
    if answers != needs:
        raise UnsupportedModelError(f"{model.name} answers with {answers}, and {task.name} needs {needs}")


def _counted_outputs(count: int, kind: str) -> str:
    """Return the number of a model's outputs with their kind, "label" or "value", in words."""
    return "one value" if (count, kind) == (1, "value") else f"{count} {kind}s"


def checked_labels(model: TaskModel, examples: Sequence[Example]) -> Labels:
    """Return the gold labels, if the model can answer them: indices or values, or a 0 or a 1 for each label.

    Args:
        model: The model.
        examples: The labelled texts.

    Raises:
        UnsupportedModelError: If faithfulness is not measured on such a model.
        DataError: If there are no examples, or the model knows no such labels.
        InputError: If something else than examples is given.
    """
    outputs = model.task.outputs
    _check_measurable(model, examples)
    if outputs.kind == "value":
        values = []
        for index, example in enumerate(examples):
            if not isinstance(example.label, int | float):
                raise DataError(f"example {index} has label {example.label}; the model answers with a value")
            values.append(float(example.label))
        return values
    marks = _class_marks(examples, list(outputs.labels))  # (N, C)
    if outputs.outcomes == "independent":  # several labels may be true
        return marks
    for index, (marks_of_text, example) in enumerate(zip(marks, examples, strict=True)):
        if sum(marks_of_text) != 1:
            raise DataError(f"example {index} has labels {example.label}; the model answers with one label")
    return [float(marks_of_text.index(1)) for marks_of_text in marks]


def _check_measurable(model: TaskModel, examples: Sequence[Example]) -> None:
    """Refuse models on which faithfulness is not measured, and what is not a list of examples.

    Raises:
        UnsupportedModelError: If the model does not classify texts, or answers with several values.
        DataError: If there are no examples.
        InputError: If one of them is something else.
    """
    outputs = model.task.outputs
    model.task.check_input(model, "one text")  # refuses, for example, models that choose among several texts
    if not _classifies_texts(model):
        advice = ": `normxlogit evaluate generation` measures its sources" if outputs.vocabulary else ""
        supported = "faithfulness is measured on classifiers and regression models"
        raise UnsupportedModelError(f"{supported}, not on {model.task.name}{advice}")
    if outputs.kind == "value" and len(outputs.labels) != 1:
        answers = f"{model.name} answers with {len(outputs.labels)}"
        raise UnsupportedModelError(f"faithfulness is measured on one value, and {answers}")
    if not examples:
        raise DataError("no examples to measure on")
    for index, example in enumerate(examples):
        if not isinstance(example, Example):
            wrapped = "Example(text, label), or load_examples(table) of rows with both"
            raise InputError(f"example {index} is a {type(example).__name__}: pass {wrapped}")


def _class_marks(examples: Sequence[Example], class_names: list[str]) -> list[list[float]]:
    """Return a 1 for each gold label and a 0 for each other label of the model, (N, C).

    Args:
        examples: The N labelled texts.
        class_names: The C labels of the model.
    """
    meanings = [example.meaning for example in examples]
    if meanings.count(meanings[0]) < len(meanings):
        raise DataError("the examples are of data whose labels have different meanings: measure on each by itself")
    try:
        labels = [example.label for example in examples]
        gold_labels = read_gold(labels, ModelLabels.in_order(class_names), meanings[0])
    except InputError as error:
        raise DataError(str(error)) from None
    for index, (gold, example) in enumerate(zip(gold_labels, examples, strict=True)):
        if not gold and not is_column(example.label):  # where several labels may be true, none may be
            raise DataError(f"example {index} has no label; the model knows {', '.join(class_names)}")
    return [[float(name in gold) for name in class_names] for gold in gold_labels]
