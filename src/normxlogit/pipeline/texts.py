"""From inputs, or a forward pass over them, to results."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..copies.memory import enough_memory
from ..errors import InputError
from ..frozen.conservation import Balance
from ..frozen.frozen_model import FrozenModel
from ..inputs.batching import Batch
from ..inputs.encoding import Encoding
from ..inputs.texts import Text, repeatable
from ..methods.defaults import first_working
from ..model.given_outputs import read_outputs
from ..model.map_batches import map_batches
from ..model.task_model import TaskModel
from ..results.attribution import Attribution
from ..results.collection import Attributions
from ..tasks.targets import Choice, check_target, resolve
from .choices import explain_choices
from .explain import explain_batch
from .long_texts import explain_long
from .options import Options
from .progress import progress_bar
from .verification import with_verifications


def explain_by_default(model: TaskModel, inputs: Any, options: Options) -> Attribution | Attributions[Attribution]:
    """Explain inputs by the first default method that works on the model; results note why others did not."""
    inputs = repeatable(inputs)  # each method that is tried reads them
    results, notes = first_working(
        model.task.use, lambda method: explain_inputs(model, inputs, replace(options, method=method))
    )
    if not notes:
        return results
    if isinstance(results, Attribution):
        return replace(results, notes=(*results.notes, *notes))
    return Attributions(replace(result, notes=(*result.notes, *notes)) for result in results)


@torch.inference_mode(False)  # the caller's, in which nothing can be backpropagated
def explain_inputs(model: TaskModel, inputs: Any, options: Options) -> Attribution | Attributions[Attribution]:
    """Explain whatever the model's task reads.

    Returns:
        One result for a single input, otherwise a list in the order of the inputs.

    Raises:
        InputError: If an input cannot be read, or is too long.
    """
    model.task.check_explains_inputs(model)
    model.refresh()  # labels, limits and inputs are read before the first batch
    if model.task.compares:
        return explain_choices(model, inputs, options)
    encodings, single = model.task.encode(model, inputs, long_text=options.long_text)
    options.check_count(len(encodings))
    check_target(model, options.target, options.contrast, options.targets)
    encodings = model.task.locate(encodings, options.position)
    results = explain_encodings(model, encodings, options)
    if options.verify is not None:
        results = with_verifications(model, encodings, results, options.verify)
    return results[0] if single else Attributions(results)


def explain_encodings(model: TaskModel, encodings: Sequence[Encoding], options: Options) -> list[Attribution]:
    """Explain encodings in batches, those beyond the model's length in windows.

    Raises:
        InputError: If one is too long.
    """
    results: dict[int, Attribution] = {}
    limit = model.encoder.limit
    groups: dict[Any, list[int]] = {}  # signals of one shape are read together; texts are padded
    for index, encoding in enumerate(encodings):
        if limit is None or len(encoding) <= limit:
            groups.setdefault(encoding.signal and encoding.signal.shapes, []).append(index)
            continue
        if options.long_text != "window":
            raise InputError(
                f"input {index} has {len(encoding)} tokens and the model reads {limit}; long_text='window' reads "
                "encoded input in windows"
            )
        results[index] = explain_long(model, encoding, options.only(index))
    with progress_bar(sum(map(len, groups.values())), options.progress) as advance:
        for places in groups.values():

            def work(group: list[int], places: list[int] = places) -> list[Attribution]:
                batch = model.batch([encodings[places[i]] for i in group], [places[i] for i in group])
                explained = explain_batch(model, options.method.forward(model, batch, options.layers), options)
                advance(len(group))
                return explained

            explained = map_batches(model, [encodings[i] for i in places], work, options.method.memory)
            results.update(zip(places, explained, strict=True))
    return [results[i] for i in range(len(encodings))]


@torch.inference_mode(False)
def balance_of(model: TaskModel, text: Text, target: Choice | None) -> Balance:
    """Add up what a text and each module's constants contribute to an answer."""
    model.refresh()
    model.task.check_explains_inputs(model)
    if not model.task.reads_one_text:
        raise InputError(f"{model.task.purpose} has no report of a frozen network: it is of single texts")
    encodings = model.task.locate(model.encoder([text]), None)
    check_target(model, target, None, None)
    batch = model.batch(encodings, [0])
    model.prepare(batch)
    frozen = FrozenModel.of(model)
    run = frozen.run(batch, frozen.places(batch, 0))
    return frozen.balance(run, resolve(model, run, target, None, None))


@enough_memory("explain this forward pass")
def explain_outputs(
    model: TaskModel, inputs: Mapping[str, Any], outputs: Mapping[str, Any], options: Options
) -> Attributions[Attribution]:
    """Explain a forward pass that the caller has run."""
    model.refresh()
    model.task.check_explains_inputs(model)
    if not model.task.reads_tokens:
        raise InputError(
            f"{model.name} reads no tokens, whose states from_outputs explains: call the explainer on the input itself "
            f"or on what its processor returned, {{'{model.module.main_input_name}': values}}"
        )
    if model.task.compares:
        raise InputError(
            f"{model.task.purpose} compares several forward passes, and is explained from texts: call the explainer on "
            "them"
        )
    encodings = model.task.locate(model.encoder.from_batch(inputs), options.position)
    options.check_count(len(encodings))
    check_target(model, options.target, options.contrast, options.targets)
    names_read = {"attention_mask", *encodings[0].inputs}
    tensors_given = {name: value for name, value in inputs.items() if isinstance(value, Tensor) and name in names_read}
    tensors = {name: value[None] if value.ndim == 1 else value for name, value in tensors_given.items()}  # (B, T)
    ids = tensors.get("input_ids")
    if ids is None:
        raise InputError("inputs need 'input_ids' as a tensor, as the model was given them")
    mask = tensors.get("attention_mask", torch.ones_like(ids)).bool()  # (B, T)
    batch = Batch(tensors, mask, encodings, list(range(len(encodings))))
    with torch.inference_mode():
        run = read_outputs(model, batch, outputs, layers=options.layers is not None)
    return Attributions(explain_batch(model, run, options))
