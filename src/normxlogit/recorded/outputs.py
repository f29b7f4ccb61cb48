"""Explain a forward pass that the caller has run, after checks that it is complete and has these inputs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..copies.memory import enough_memory
from ..copies.run import embedded_of, states_of
from ..errors import HeadMismatchError, InputError, UnsupportedModelError
from ..inputs.encoding import Batch
from ..model.forward_pass import ForwardPass
from ..model.task_model import TaskModel
from ..parts.headpiece import answer_of
from ..parts.parts import Parts
from ..parts.proofs import outputs_beyond_rounding
from ..pipeline.options import Options
from ..pipeline.texts import explain_batch
from ..results.attribution import Attribution
from ..results.collection import Attributions
from ..tasks.answers import logits_at
from ..tasks.targets import check_target


@enough_memory("explain this forward pass")
def explain(
    model: TaskModel, inputs: Mapping[str, Any], outputs: Mapping[str, Any], options: Options
) -> Attributions[Attribution]:
    """Explain a forward pass that the caller has run."""
    model.refresh()
    model.task.check_explains_inputs(model)
    if model.task.reads != "text":
        raise InputError(
            f"from_outputs explains the tokens of one text each, and {model.name} reads something else: call the "
            f"explainer on the input itself, or on what its processor returned for it"
        )
    encodings = model.task.position.locate(model.encoder.from_batch(inputs), options.position)
    options.check_count(len(encodings))
    check_target(model.task, model.output_count, options.target, options.contrast, options.targets)
    tensors = {
        name: torch.atleast_2d(value)  # (B, T)
        for name, value in inputs.items()
        if isinstance(value, Tensor) and name in {"attention_mask", *encodings[0].inputs}
    }
    if "input_ids" not in tensors:
        raise InputError("inputs need 'input_ids' as a tensor, as the model was given them")
    tensors = {"attention_mask": torch.ones_like(tensors["input_ids"]), **tensors}
    batch = Batch(tensors, tensors["attention_mask"].bool(), encodings, list(range(len(encodings))))
    with torch.inference_mode():
        run = read_outputs(model, batch, outputs, layers=options.layers is not None)
    return Attributions(explain_batch(model, run, options))


def read_outputs(model: TaskModel, batch: Batch, outputs: Mapping[str, Any], *, layers: bool = False) -> ForwardPass:
    """Return the forward pass that the caller has run with `output_hidden_states=True`, checked against the inputs."""
    states, logits = checked_states_and_logits(outputs, batch, per_token=model.task.position.at != "text")
    model.prepare(batch)
    parts = model.parts
    check_layer_count(states, parts)
    embedded, hidden = read_embedded(model, batch), states[-1]  # (B, T, H) each
    if parts.states_lack_embeddings:
        check_same_states(batch, hidden, model.states(batch))
        states = (embedded, *states[:-1])
    elif (theirs := embedded_of(outputs)) is not None:
        check_same_states(batch, theirs, embedded)
    run = model.finish(batch, hidden, embedded, states if layers else None, None)
    given_logits = logits if run.positions is None else logits_at(logits, run.positions)
    if given_logits.isnan().any() or not batch.real(hidden).isfinite().all():
        raise InputError("the outputs hold NaN or infinite numbers, which cannot be explained")
    if given_logits.shape != run.logits.shape:
        raise InputError(f"the outputs hold logits of shape {tuple(given_logits.shape)}, not {tuple(run.logits.shape)}")
    difference = outputs_beyond_rounding(model.copy.form.returned(run.logits), given_logits)
    if difference is not None:
        raise HeadMismatchError(
            f"the head on these hidden states gives logits that differ from these outputs' by {difference:.2g}; "
            "are they of the same inputs, and was the model in evaluation mode?"
        )
    return replace(run, outputs=outputs)


def read_embedded(model: TaskModel, batch: Batch) -> Tensor:
    """Return the embedding layer's output alone, (B, T, H): the layers do not run."""
    site = model.parts.embedding_site
    if site is None:
        return model.run(batch).embedded
    recorded = model.copy.run(batch.inputs, stop=site).last(site)
    embedded = model.parts.embedded(recorded, batch.mask.shape[1])
    if isinstance(embedded, Tensor):
        return embedded
    module = type(model.module).__name__
    raise embedded or UnsupportedModelError(f"{module} does not give its embedding layer's output")


def checked_states_and_logits(outputs: Any, batch: Batch, *, per_token: bool) -> tuple[tuple[Tensor, ...], Tensor]:
    """Return the hidden states and logits of outputs, after checking their shapes."""
    states = states_of(outputs)
    logits = answer_of(outputs) if isinstance(outputs, Mapping) else None
    are_tensors = isinstance(states, tuple | list) and all(isinstance(state, Tensor) for state in states)
    if not states or not are_tensors or logits is None:
        raise InputError("the outputs need logits and hidden states: call the model with output_hidden_states=True")
    expected_of_logits = batch.mask.shape if per_token else batch.mask.shape[:1]
    for value, expected in ((states[-1], batch.mask.shape), (logits, expected_of_logits)):
        if value.shape[: len(expected)] != expected:
            raise InputError(f"the outputs are of shape {tuple(value.shape)}, the input {tuple(batch.mask.shape)}")
    return states, logits


def check_layer_count(states: tuple[Tensor, ...], parts: Parts) -> None:
    """Refuse hidden states that are not those of all layers."""
    counted = parts.early_exit is None and parts.layers is not None
    if counted and len(states) - 1 != parts.layers:
        raise InputError(
            f"the outputs hold {len(states)} hidden states, and the model gives {(parts.layers or 0) + 1}: the "
            "embedding layer's output and every layer's"
        )


def check_same_states(batch: Batch, theirs: Tensor, ours: Tensor) -> None:
    """Refuse a hidden state of the caller's outputs, (B, T, H), that is not the same one computed from the inputs."""
    if outputs_beyond_rounding(batch.real(theirs), batch.real(ours)) is not None:
        raise InputError(
            "the hidden states of these outputs do not come from these inputs; are they of the same inputs, in the "
            "same order, and was the model in evaluation mode?"
        )
