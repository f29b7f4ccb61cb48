"""Which of the ways to take a model apart is the right one for it."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from transformers.models.auto import modeling_auto as auto

from ..errors import InputError, UnsupportedModelError
from ..surgery.clone import unwrapped
from .embedding_model import EmbeddingModel
from .sentence_embedding import Pooling, SentenceEmbedding, is_sentence_transformer
from .seq2seq import Seq2SeqModel
from .signals import SignalModel
from .task_classes import TaskName
from .task_model import TaskModel
from .tasks import task_of
from .wrappers import unpacked
from .zero_shot import Hypotheses, ZeroShotModel

__all__ = ["as_language_model", "check_answers", "model_summary", "module_and_reader", "task_model"]

SHOWN_LABELS = 6
"""Most labels that a summary lists."""


def task_model(
    model: nn.Module,
    reader: Any,
    name: str | None,
    batch_tokens: int,
    task: TaskName | None = None,
    labels: Sequence[str] | None = None,
    pooling: Pooling | None = None,
    hypotheses: Hypotheses | None = None,
) -> TaskModel:
    """Take a model apart by the way of its task.

    Args:
        model: The user's model.
        reader: Its tokenizer, image processor or feature extractor.
        name: What to call it in results.
        batch_tokens: Most tokens in one forward pass.
        task: Its task; a module that is not of transformers does not say.
        labels: Names for its outputs, in the place of those in its configuration.
        pooling: How an embedding model pools, in the place of what its files say.
        hypotheses: What a zero-shot pipeline asks the model.

    Raises:
        UnsupportedModelError: If it is no task model of a supported kind.
        InputError: If there is no such task, or the labels are not as many as the outputs.
    """
    embeds = is_sentence_transformer(model) or isinstance(model, SentenceEmbedding)
    if task == "embedding" or (task is None and embeds):
        if labels is not None:
            raise InputError("labels= names the outputs of a classifier, and an embedding model has none: leave it out")
        return EmbeddingModel(model, reader, name, pooling=pooling, batch_tokens=batch_tokens)
    if pooling is not None:
        raise InputError("pooling= is for embedding models; give task='embedding' with it")
    if hypotheses is not None:
        task_of(unwrapped(model), task)
        return ZeroShotModel(model, reader, name, hypotheses=hypotheses, batch_tokens=batch_tokens)
    found = task_of(unwrapped(model), task, labels)
    kind = SignalModel if found.signal else Seq2SeqModel if found.name == "seq2seq-lm" else TaskModel
    return kind(model, reader, name, batch_tokens=batch_tokens, task=task, labels=labels)


def as_language_model(model: TaskModel) -> TaskModel:
    """Return the way to take a model apart that explains what it writes.

    BART and its kin are masked language models and encoder-decoder models in one class.
    """
    both = type(model.module).__name__ in auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES.values()
    if not both or isinstance(model, Seq2SeqModel):
        return model
    return Seq2SeqModel(model.given, model.tokenizer, model.name, batch_tokens=model.budget.most)


def check_answers(model: TaskModel) -> None:
    """Refuse models that give a text no answer of its own: encoder-decoder language models and embedding models.

    Raises:
        UnsupportedModelError: If the model is one.
    """
    if isinstance(model, EmbeddingModel):
        raise UnsupportedModelError(
            f"{model.name} answers a text with a vector, of which nothing is to be explained by itself; "
            "similarity(a, b) explains the cosine of two texts"
        )
    if isinstance(model, Seq2SeqModel):
        raise UnsupportedModelError(
            f"{type(model.module).__name__} reads its source with an encoder whose states never reach the head, so the "
            "head has no logit for a source token; generate and explain_completion explain what the decoder writes, by "
            "the source too"
        )


def module_and_reader(model: Any, tokenizer: Any) -> tuple[nn.Module, Any]:
    """Return the module and what reads its inputs, also of a pipeline, a `CrossEncoder` or a `SetFitModel`.

    Raises:
        InputError: If there is no module, or nothing that reads its inputs.
        UnsupportedModelError: If its parts cannot be seen.
    """
    if (inner := unpacked(model)) is not None:
        model, tokenizer = inner[0], tokenizer or inner[1]
    module = model
    if isinstance(model, torch.jit.ScriptModule):
        raise UnsupportedModelError(
            "a traced or scripted module does not show its parts; pass the module that it was made of"
        )
    if not isinstance(model, nn.Module):
        module = getattr(model, "model", None)
        readers = ("tokenizer", "image_processor", "feature_extractor")
        tokenizer = tokenizer or next((r for r in (getattr(model, name, None) for name in readers) if r), None)
    elif is_sentence_transformer(module):
        tokenizer = tokenizer or module.tokenizer
    if not isinstance(module, nn.Module):
        raise InputError(
            f"an Explainer takes a model or a pipeline, not {type(model).__name__}; "
            "Explainer.from_pretrained takes a name or folder"
        )
    if tokenizer is None:
        raise InputError("the model needs its tokenizer: Explainer(model, tokenizer)")
    if isinstance(tokenizer, type) or not callable(tokenizer):
        raise InputError(
            f"the tokenizer must be one that was loaded, not {_described(tokenizer)}; "
            "Explainer.from_pretrained loads both by a name or folder"
        )
    return module, tokenizer


def _described(given: Any) -> str:
    return f"the class {given.__name__}" if isinstance(given, type) else f"a {type(given).__name__}"


def model_summary(model: TaskModel) -> str:
    """Say in a line what a model is: its name, task, labels and layers."""
    labels = model.hypotheses.labels if isinstance(model, ZeroShotModel) else model.task.labels
    found = [repr(model.name), f"task={model.task.purpose!r}"]
    if labels:
        more = [f"... {len(labels) - SHOWN_LABELS} more"] if len(labels) > SHOWN_LABELS else []
        found.append(f"labels=[{', '.join([*map(repr, labels[:SHOWN_LABELS]), *more])}]")
    layers = getattr(model.config.get_text_config(), "num_hidden_layers", None)
    return ", ".join(found + ([] if layers is None else [f"layers={layers}"]))
