"""Explain a forward pass that the caller has run, after checks that it has these inputs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..copies.memory import enough_memory
from ..copies.module_io import Inputs, embedded_of, states_of
from ..errors import HeadMismatchError, InputError, UnsupportedModelError
from ..inputs.batches import Batch
from ..inputs.encoding import Encoding
from ..model.forward_pass import ForwardPass
from ..model.task_model import TaskModel
from ..parts.headpiece import answer_of
from ..parts.model_parts import Parts
from ..parts.proofs import outputs_beyond_rounding
from ..pipeline.attribute_pass import attribute_pass
from ..pipeline.options import Options
from ..results.attribution import Attribution
from ..results.collection import Attributions
from ..tasks.task_outputs import logits_at


@enough_memory("explain this forward pass")
def explain(model: TaskModel, inputs: Inputs, outputs: Inputs, options: Options) -> Attributions[Attribution]:
    """Explain a forward pass that the caller has run.

    Args:
        model: The model.
        inputs: What it read, of B texts, by name.
        outputs: What it returned, with logits and the hidden states of all layers.
        options: The options of the call.

    Raises:
        InputError: If inputs or outputs lack something, or do not belong together.
        HeadMismatchError: If the head gives other logits than the outputs hold.
    """
    model.refresh()
    model.task.check_explains_inputs(model)
    model.task.check_input(model, "one text")
    # `continued` leaves out the note that without padding the answer may be another: this pass keeps its padding.
    encodings = model.task.position.locate(model.encoder.from_batch(inputs, continued=True), options.position)
    options.check_count(len(encodings))  # there is one target for each text, if the caller gave several
    options.check_target(model)
    tensors = {
        name: torch.atleast_2d(value)  # (B, T), also of one text without the batch axis
        for name, value in inputs.items()
        # Others, such as a cache, are no inputs along the tokens.
        if isinstance(value, Tensor) and name in {"attention_mask", *encodings[0].inputs}  # the same of all texts
    }
    if "input_ids" not in tensors:
        raise InputError("inputs need 'input_ids' as a tensor, as the model was given them")
    batch = batch_of({"attention_mask": torch.ones_like(tensors["input_ids"]), **tensors}, encodings)
    with torch.inference_mode():
        run = read_outputs(model, batch, outputs, layers=options.layers is not None)
    return Attributions(attribute_pass(model, run, options))


def batch_of(tensors: dict[str, Tensor], encodings: Sequence[Encoding]) -> Batch:
    """Return what the model has read of B texts, padded on either side, as a batch.

    Args:
        tensors: Its inputs by name, (B, T) each, with an "attention_mask" of 0 at padding.
        encodings: The texts without padding.
    """
    indices = list(range(len(encodings)))
    return Batch(inputs=tensors, mask=tensors["attention_mask"].bool(), encodings=encodings, indices=indices)


def read_outputs(model: TaskModel, batch: Batch, outputs: Inputs, *, layers: bool) -> ForwardPass:
    """Return the forward pass that the caller has run with `output_hidden_states=True`, checked against the inputs.

    Args:
        model: The model.
        batch: B texts.
        outputs: What the model returned for them.
        layers: Whether the outputs of all layers are explained.

    Raises:
        InputError: If the outputs do not come from these inputs, or hold numbers that cannot be explained.
        HeadMismatchError: If the head gives other logits than they hold.
    """
    states, logits = checked_states_and_logits(outputs, batch, per_token=not model.task.position.pooled)
    model.prepare(batch)  # finds the parts, if this is the first batch of the model
    check_layer_count(states, model.parts)
    embedded = read_embedded(model, batch)  # (B, T, H)
    hidden = states[-1]  # (B, T, H), what the head reads
    if model.parts.states_lack_embeddings:
        # The embeddings are not among the states, so only a whole pass shows that these are of the inputs.
        check_same_states(batch, hidden, model.states(batch))
    elif (first_states := embedded_of(outputs)) is not None:  # None where layers pass on what is not (B, T, H)
        check_same_states(batch, first_states, embedded)
    states_of_layers = model.with_embeddings(states, embedded) if layers else None
    run = model.finish(batch, hidden, embedded, states_of_layers, logits=None)  # the head computes the logits anew
    returned = logits if run.positions is None else logits_at(logits, run.positions)  # (B, C)
    # Logits may be infinite where the head gives the same ones, which is checked below.
    if returned.isnan().any() or not batch.real(hidden).isfinite().all():
        raise InputError("the outputs hold NaN or infinite numbers, which cannot be explained")
    if returned.shape != run.logits.shape:
        raise InputError(f"the outputs hold logits of shape {tuple(returned.shape)}, not {tuple(run.logits.shape)}")
    # Some models return probabilities: they are compared in the form that the model returns.
    difference = outputs_beyond_rounding(model.copy.form.returned(run.logits), returned)
    if difference is not None:
        raise HeadMismatchError(
            f"the head on these hidden states gives logits that differ from these outputs' by {difference:.2g}; "
            "are they of the same inputs, and was the model in evaluation mode?"
        )
    return replace(run, outputs=outputs)  # by which methods with a pass of their own know that the caller ran this one


def read_embedded(model: TaskModel, batch: Batch) -> Tensor:
    """Return the embedding layer's output, (B, T, H), from a pass that ends there if it can.

    Args:
        model: The model.
        batch: B texts.

    Raises:
        UnsupportedModelError: If the model does not give it.
    """
    site = model.parts.embedding_site
    if site is None:  # no module has this output, and a whole pass returns it among its states
        return model.run(batch).embedded
    recorded = model.copy.run(batch.inputs, stop=site).last(site)
    embedded = model.parts.embedded(recorded, batch.mask.shape[1])
    if isinstance(embedded, Tensor):
        return embedded
    # In the place of a tensor is the error that says why there is none, or None if that is not known.
    raise embedded or UnsupportedModelError(f"{model.class_name} does not give its embedding layer's output")


def checked_states_and_logits(outputs: Any, batch: Batch, *, per_token: bool) -> tuple[tuple[Tensor, ...], Tensor]:
    """Return the hidden states and logits of outputs, after checking their shapes.

    Args:
        outputs: What the model returned.
        batch: B texts of T tokens.
        per_token: Whether the head answers at every token.

    Returns:
        The embedding layer's output and each layer's, (B, T, H); and the logits, (B, C) or (B, T, C).

    Raises:
        InputError: If they are missing, or of other shapes.
    """
    states = states_of(outputs)
    logits = answer_of(outputs) if isinstance(outputs, Mapping) else None
    are_tensors = isinstance(states, tuple | list) and all(isinstance(state, Tensor) for state in states)
    if not states or not are_tensors or logits is None:
        raise InputError("the outputs need logits and hidden states: call the model with output_hidden_states=True")
    tokens_shape = batch.mask.shape  # (B, T)
    axes_before_outputs = tokens_shape if per_token else tokens_shape[:1]  # of the logits, (B, T) or (B,)
    for tensor, first_axes in ((states[-1], tokens_shape), (logits, axes_before_outputs)):
        if tensor.shape[: len(first_axes)] != first_axes:
            raise InputError(f"the outputs are of shape {tuple(tensor.shape)}, the input {tuple(tokens_shape)}")
    return states, logits


def check_layer_count(states: tuple[Tensor, ...], parts: Parts) -> None:
    """Refuse hidden states that are not those of all layers.

    Where the trunk is left early to get a layer's output, the states in the outputs are not read layer by layer, and
    their number need not be that of the layers.

    Args:
        states: The hidden states of the caller's outputs.
        parts: The parts of the model, which know how many layers there are, unless its states are not those of layers.

    Raises:
        InputError: If there are more states, or fewer.
    """
    if parts.layers is None or parts.early_exit is not None:
        return
    expected = parts.layers + 1  # with the embedding layer's output
    if len(states) != expected:
        raise InputError(
            f"the outputs hold {len(states)} hidden states, and the model gives {expected}: the embedding layer's "
            "output and every layer's"
        )


def check_same_states(batch: Batch, given: Tensor, computed: Tensor) -> None:
    """Refuse hidden states of the caller's outputs that differ from the same ones computed from the inputs.

    Args:
        batch: B texts; states at padding are not compared.
        given: The states in the outputs, (B, T, H).
        computed: The same ones, computed anew, (B, T, H).

    Raises:
        InputError: If they differ by more than rounding.
    """
    if outputs_beyond_rounding(batch.real(given), batch.real(computed)) is not None:
        raise InputError(
            "the hidden states of these outputs do not come from these inputs; are they of the same inputs, in the "
            "same order, and was the model in evaluation mode?"
        )
