"""Texts, pairs and encoded inputs to results."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..inputs.batching import Batch
from ..inputs.encoding import Encoding
from ..models.given_outputs import read_outputs
from ..models.map_batches import map_batches
from ..models.positions import locate
from ..models.targets import check_target
from ..models.task_model import TaskModel
from ..results.attribution import Attribution
from ..results.collection import Attributions
from ..surgery.memory import enough_memory
from .explain import explain_batch
from .long_texts import explain_long
from .options import Options
from .progress import progress_bar

__all__ = ["explain_outputs", "explain_texts"]


@torch.inference_mode(False)  # the caller's, in which nothing can be gone back through
def explain_texts(model: TaskModel, inputs: Any, options: Options) -> Attribution | Attributions[Attribution]:
    """Explain texts, pairs or encoded inputs.

    Args:
        model: The model.
        inputs: A string, a pair, several of them, encodings, or a tokenizer's output.
        options: What is wanted.

    Returns:
        One result for a string or pair, otherwise a list in the order of the inputs.

    Raises:
        InputError: If an input cannot be read, or is too long.
    """
    model.refresh()  # labels, limits and inputs are read before the first batch
    encodings, single = model.encoder.read(inputs, long_text=options.long_text or "truncate")
    options.check_count(len(encodings))
    check_target(model, options.target, options.contrast, options.targets)
    results = explain_encodings(model, locate(encodings, options.position, model.task), options)
    return results[0] if single else Attributions(results)


def explain_encodings(model: TaskModel, encodings: Sequence[Encoding], options: Options) -> list[Attribution]:
    """Explain encodings in batches, those beyond the model's length in windows.

    Raises:
        InputError: If one is too long and windows are not asked for.
    """
    results: dict[int, Attribution] = {}
    limit = model.encoder.limit
    short = [i for i, e in enumerate(encodings) if limit is None or len(e) <= limit]
    for place in sorted(set(range(len(encodings))) - set(short)):
        if options.long_text != "window":
            raise InputError(
                f"input {place} has {len(encodings[place])} tokens and the model reads {limit}; long_text='window' "
                "reads encoded input in windows"
            )
        results[place] = explain_long(model, encodings[place], options.only(place))

    def work(group: list[int]) -> list[Attribution]:
        batch = model.batch([encodings[short[i]] for i in group], [short[i] for i in group])
        found = explain_batch(model, options.method.forward(model, batch, options.layers), options)
        advance(len(group))
        return found

    with progress_bar(len(short), options.progress) as advance:
        explained = map_batches(model, [encodings[i] for i in short], work, options.method.memory)
    results.update(zip(short, explained, strict=True))
    return [results[i] for i in range(len(encodings))]


@enough_memory("explain this forward pass")
def explain_outputs(
    model: TaskModel, inputs: Mapping[str, Any], outputs: Mapping[str, Any], options: Options
) -> Attributions[Attribution]:
    """Explain a forward pass that the caller has run.

    Args:
        model: The model.
        inputs: What it was given.
        outputs: What it returned, with hidden states.
        options: What is wanted.

    Raises:
        InputError: If the outputs are not those of these inputs, or lack something.
    """
    model.refresh()
    encodings = locate(model.encoder.from_batch(inputs), options.position, model.task)
    options.check_count(len(encodings))
    check_target(model, options.target, options.contrast, options.targets)
    read = {"attention_mask", *encodings[0].inputs}
    given = {name: value for name, value in inputs.items() if isinstance(value, Tensor) and name in read}
    tensors = {name: value[None] if value.ndim == 1 else value for name, value in given.items()}  # (B, T)
    ids = tensors.get("input_ids")
    if ids is None:
        raise InputError("inputs need 'input_ids' as a tensor, as the model was given them")
    mask = tensors.get("attention_mask", torch.ones_like(ids)).bool()  # (B, T)
    batch = Batch(tensors, mask, encodings, list(range(len(encodings))))
    with torch.inference_mode():
        run = read_outputs(model, batch, outputs, layers=options.layers is not None)
    return Attributions(explain_batch(model, run, options))
