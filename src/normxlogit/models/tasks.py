"""Which question a model answers, and where in the text the answer stands."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from ..errors import InputError, TargetError, UnsupportedModelError
from ..inputs.batching import Batch
from .sentence_embedding import SentenceEmbedding
from .task_classes import NAMES, TaskName, declared_tasks, is_bare, no_head

__all__ = ["Task", "answering", "at", "check_answer", "label_names", "task_of"]

Kind = Literal["single-label", "multi-label", "regression", "token", "span", "choice", "vector"]

PLAIN: tuple[TaskName, ...] = (
    "sequence-classification",
    "token-classification",
    "question-answering",
    "masked-lm",
    "causal-lm",
)
"""Tasks of modules that are not of transformers: token ids in, logits out."""

OUTSIDE = "O"
"""The label of tokens outside every entity, by the convention of all tagging schemes."""

SHOWN = 100
"""Characters of a wrong setting that an error shows."""

LONGEST_ANSWER = 15
"""Most tokens of an extracted answer, the usual bound of SQuAD readers."""


@dataclass(frozen=True)
class Task:
    """What a model is for.

    Attributes:
        name: Its name in transformers' terms.
        kind: What its outputs are: one of several labels, several labels at once, a value, a token, the ends of a
            span, the worth of a choice, or a vector.
        labels: Label names by class index; empty for language models.
    """

    name: TaskName
    kind: Kind
    labels: tuple[str, ...]

    @property
    def purpose(self) -> str:
        """What the model is for, as errors say it."""
        zero_shot = self.kind == "choice" and self.name == "sequence-classification"
        return "zero-shot-classification" if zero_shot else self.name

    @property
    def vocabulary(self) -> bool:
        """Whether the head's outputs are the vocabulary."""
        return self.kind == "token"

    @property
    def signal(self) -> bool:
        """Whether the model reads pictures or sounds."""
        return self.name in ("image-classification", "audio-classification")

    @property
    def per_token(self) -> bool:
        """Whether the model answers at every token, (B, T, C), and not once for the text, (B, C)."""
        return self.vocabulary or self.name in ("token-classification", "question-answering")

    def positions(self, batch: Batch, tokenizer: PreTrainedTokenizerBase, logits: Tensor | None) -> Tensor | None:
        """Return the position whose prediction is explained.

        A position chosen by the caller comes first. Without one it is the last token (causal language models), the
        mask (masked ones), the first token with a label other than "O" (token classification), or the ends of the
        best answer (question answering).

        Args:
            batch: What was read.
            tokenizer: Knows the mask.
            logits: The model's answers at every token, (B, T, C); not needed for language models.

        Returns:
            (B,), for question answering (B, 2): start and end; None for whole-text heads.

        Raises:
            TargetError: If the text of a masked language model holds no mask, or several and none was chosen.
            InputError: If token ids were given to question answering that do not tell where the context begins.
        """
        if not self.per_token:
            return None
        if self.name in ("causal-lm", "seq2seq-lm"):
            places = torch.arange(batch.mask.shape[1], device=batch.mask.device)  # (T,)
            found: Tensor = (batch.mask * places).argmax(-1)  # (B,)
        elif self.name == "masked-lm":
            found = _masks(batch, tokenizer)  # (B,)
        elif logits is None:
            raise ValueError("the model's logits are needed to find the position")
        elif self.name == "question-answering":
            return _answers(batch, logits.float())  # (B, 2)
        else:
            found = self._first_entities(batch, logits)  # (B,)
        for row, encoding in enumerate(batch.encodings):
            if encoding.position is not None:
                found[row] = batch.mask[row].nonzero()[encoding.position, 0]
        return found

    def _first_entities(self, batch: Batch, logits: Tensor) -> Tensor:
        text = torch.zeros_like(batch.mask)  # (B, T)
        for row, encoding in enumerate(batch.encodings):
            text[row, batch.mask[row]] = ~torch.tensor(encoding.special, device=text.device)
        entity = text
        if OUTSIDE in self.labels:
            entity = text & (logits.argmax(-1) != self.labels.index(OUTSIDE))  # (B, T)
        entity = torch.where(entity.any(-1, keepdim=True), entity, text)  # (B, T)
        first: Tensor = entity.int().argmax(-1)  # (B,)
        return first


def at(logits: Tensor, positions: Tensor) -> Tensor:
    """Return the logits at the explained positions.

    Args:
        logits: (B, T, C).
        positions: (B,), or (B, C) with a position for each output.

    Returns:
        (B, C).
    """
    index = positions if positions.ndim == 2 else positions[:, None].expand(-1, logits.shape[-1])  # (B, C)
    return logits.gather(1, index[:, None].to(logits.device)).squeeze(1)


def _masks(batch: Batch, tokenizer: PreTrainedTokenizerBase) -> Tensor:
    if tokenizer.mask_token_id is None:
        raise TargetError("the tokenizer has no mask token, so there is no position to explain")
    masked = (batch.inputs["input_ids"] == tokenizer.mask_token_id) & batch.mask  # (B, T)
    counts = masked.sum(-1).tolist()
    for index, count, encoding in zip(batch.indices, counts, batch.encodings, strict=True):
        if count != 1 and encoding.position is None:
            amount = f"{count} times; choose one with position=" if count else "nowhere"
            raise TargetError(
                f"input {index} must hold the mask token {tokenizer.mask_token_id} once; it stands there {amount}"
            )
    place: Tensor = masked.int().argmax(-1)  # (B,)
    return place


def _answers(batch: Batch, logits: Tensor) -> Tensor:
    """Return the span with the largest sum of start and end logit among the context's tokens.

    The first token stands for "no answer" (SQuAD 2) where it is a special one and its own sum is larger.

    Args:
        batch: Questions with contexts.
        logits: Start and end logits, (B, T, 2).

    Returns:
        Start and end, (B, 2).

    Raises:
        InputError: If token ids were given that do not tell where the context begins.
    """
    spans = []
    for row, encoding in enumerate(batch.encodings):
        places = batch.mask[row].nonzero()[:, 0]  # (T,)
        context = 1 if 1 in encoding.sequence_ids else 0
        if not context and encoding.text is None and encoding.offsets is None:
            raise InputError(
                f"input {batch.indices[row]} is token ids that do not tell the question from the context, and the "
                "answer is looked for in the context; pass the texts as (question, context), what the tokenizer "
                "returned for them, or token_type_ids of 0 and 1"
            )
        outside = torch.tensor([s != context for s in encoding.sequence_ids], device=logits.device)  # (T,)
        own = logits[row, places]  # (T, 2)
        start, end = own.masked_fill(outside[:, None], -torch.inf).unbind(-1)  # (T,) each
        near = torch.ones(len(own), len(own), dtype=torch.bool, device=own.device).triu().tril(LONGEST_ANSWER - 1)
        sums = (start[:, None] + end).masked_fill(~near, -torch.inf)  # (T, T)
        best = divmod(int(sums.argmax()), len(own))
        if encoding.special[0] and own[0].sum() > sums.max():
            best = (0, 0)
        spans.append(places[list(best)])  # (2,)
    return torch.stack(spans)


def task_of(model: nn.Module, task: TaskName | None = None, labels: Sequence[str] | None = None) -> Task:
    """Tell the task of a loaded model.

    Args:
        model: The model.
        task: Its task, for modules whose class does not say.
        labels: Names for its outputs, in the place of those in its configuration.

    Raises:
        UnsupportedModelError: If the model has no head, or its task is not known.
        InputError: If there is no such task, the model's class is for another, or the labels are not as many as the
            outputs or the outputs have no labels.
    """
    if task is not None and task not in NAMES:
        raise InputError(f"task must be one of {', '.join(NAMES)}, not {task!r}")
    name = type(model).__name__
    if isinstance(model, SentenceEmbedding):
        return Task("embedding", "vector", ())
    if not isinstance(model, PreTrainedModel):
        return _plain_task(model, task, labels)
    config = model.config
    declared = declared_tasks(model)
    if task is None and not declared:
        raise UnsupportedModelError(f"{name} {no_head(name)}")
    # What a subclass of the user's answers with is seen when it answers.
    if task is not None and declared and task not in declared and type(model).__module__.startswith("transformers."):
        raise InputError(f"{name} is a model for {' and '.join(declared)}, not for {task}: leave out task=")
    task = task or declared[0]
    if (unlabelled := _without_labels(task, labels, name)) is not None:
        return unlabelled
    own = _labels(config)
    kind: Kind = "single-label"
    if task != "token-classification":
        if config.problem_type == "regression" or (config.problem_type is None and len(own) == 1):
            kind = "regression"
        elif config.problem_type == "multi_label_classification":
            kind = "multi-label"
    return Task(task, kind, _named(labels, len(own), name) or own)


def _plain_task(model: nn.Module, task: TaskName | None, labels: Sequence[str] | None) -> Task:
    """Return the task of a plain module; how many outputs it has is known only when it was called."""
    name = type(model).__name__
    if task is None:
        for where, part in model.named_children():  # a wrapper, as DataParallel is
            if isinstance(part, PreTrainedModel) and not is_bare(part):
                raise UnsupportedModelError(
                    f"{name} is not a transformers model, and holds one: pass its .{where}, {type(part).__name__}"
                )
        raise UnsupportedModelError(
            f"{name} is not a transformers model, so what it is for must be said: pass task= one of {', '.join(PLAIN)}"
        )
    if task not in PLAIN:
        raise UnsupportedModelError(f"a module that is not of transformers cannot be explained for {task}")
    return _without_labels(task, labels, name) or Task(task, "single-label", label_names(labels))


def _without_labels(task: TaskName, labels: Sequence[str] | None, name: str) -> Task | None:
    """Return the task of a model whose outputs are not classes with names of their own; None for classifiers.

    Raises:
        InputError: If names were given for its outputs.
    """
    found = None
    if task in ("masked-lm", "causal-lm", "seq2seq-lm"):
        found = Task(task, "token", ())
    elif task == "question-answering":
        found = Task(task, "span", ("start", "end"))
    elif task == "multiple-choice":
        found = Task(task, "choice", ("choice",))
    if found is not None and labels is not None:
        outputs = {"token": "the tokens of the vocabulary", "span": "the start and the end of an answer"}
        raise InputError(
            f"labels= names the outputs of a classifier, and those of {name} ({task}) are "
            f"{outputs.get(found.kind, 'the choices of each input')}: leave out labels="
        )
    return found


def answering(task: Task, logits: Tensor, name: str) -> Task:
    """Complete the task of a plain module when its answer was seen.

    Args:
        task: What `task_of` said.
        logits: Its answer to one text.
        name: What to call it in errors.

    Raises:
        UnsupportedModelError: If this is no answer for that task.
        InputError: If the labels are not as many as the outputs.
    """
    _check_shape(task, logits, name)
    if task.kind != "single-label":
        return task
    count = logits.shape[-1]
    kind: Kind = "regression" if count == 1 and task.name == "sequence-classification" else "single-label"
    return Task(task.name, kind, _named(task.labels, count, name) or tuple(f"LABEL_{i}" for i in range(count)))


def _check_shape(task: Task, logits: Tensor, name: str) -> None:
    if (logits.ndim == 3) != task.per_token:
        wanted = "every token" if task.per_token else "the whole text"
        raise UnsupportedModelError(
            f"{name} answers with logits of shape {tuple(logits.shape)}, and {task.name} needs logits for {wanted}"
        )


def check_answer(task: Task, logits: Tensor, name: str, tokens: int = 0) -> None:
    """Refuse the answer of a head that cannot have the task, such as one of two classes for a language model.

    A head that was replaced may also answer with more or fewer numbers than it has labels.

    Args:
        task: The model's task.
        logits: What the head answers, (B, C), or at every token, (B, T, C).
        name: What to call the model in errors.
        tokens: How many tokens its tokenizer knows; of language models only.

    Raises:
        UnsupportedModelError: If it is not an answer for this task.
    """
    count = logits.shape[-1]
    if task.vocabulary:
        # Some vocabularies are larger than the head, by tokens that are only read.
        if count < tokens / 2:
            raise UnsupportedModelError(
                f"the head of {name} answers with {count} numbers and the tokenizer knows {tokens} tokens: it is not "
                f"the head of a {task.name} model"
            )
        return
    _check_shape(task, logits, name)
    if task.kind == "span" and count != 2:
        raise UnsupportedModelError(
            f"the head of {name} answers with {count} numbers at each token, and question-answering needs two: the "
            "logits of start and end"
        )
    named = task.kind in ("single-label", "multi-label", "regression")
    if named and count != len(task.labels):
        raise UnsupportedModelError(
            f"the head of {name} answers with {count} numbers and its configuration names {len(task.labels)} labels; "
            "set config.id2label to the names of all of them"
        )


def _named(labels: Sequence[str] | None, count: int, name: str) -> tuple[str, ...]:
    names = label_names(labels)
    if names and len(names) != count:
        raise InputError(f"{name} has {count} outputs and {len(names)} labels were given; give one for each")
    return names


def label_names(labels: Iterable[str] | None) -> tuple[str, ...]:
    """Return the names that a caller gave, in any container that has an order.

    Raises:
        InputError: If they are not several strings.
    """
    # The names in a set have no order, and a mapping may count them in another.
    ordered = isinstance(labels, Iterable | None) and not isinstance(labels, str | Set | Mapping)
    names = () if labels is None or not ordered else tuple(labels)
    if not ordered or not all(isinstance(name, str) for name in names):
        raise InputError("labels are a list of names, such as labels=['no', 'yes']")
    return tuple(map(str, names))


def _labels(config: PretrainedConfig) -> tuple[str, ...]:
    """Return the label names in the order of the outputs.

    Raises:
        UnsupportedModelError: If the configuration does not name the outputs from 0 up.
    """
    try:
        names = {int(index): label for index, label in dict(config.id2label or {}).items()}
    except (TypeError, ValueError):
        names = {}
    if not names or sorted(names) != list(range(len(names))) or None in names.values():
        shown = str(config.id2label)
        raise UnsupportedModelError(
            f"id2label of the model's configuration must name the outputs from 0 up, as in {{0: 'no', 1: 'yes'}}, and "
            f"is {shown if len(shown) <= SHOWN else shown[:SHOWN] + '...'}; set config.id2label"
        )
    return tuple(str(names[i]) for i in range(len(names)))
