"""Find the parts of a model by recording one small forward pass, and prove them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from ..copies.arithmetic import is_finite, non_finite_error
from ..copies.run import Form, Inputs, ModelPool, Site, States, embedded_of, states_of, tensor_of
from ..copies.trace import BATCH_FIRST, Axes, Call, axes_of, path_of
from ..errors import HeadMismatchError
from .embeddings import table_of
from .find_head import ProvedHead, find_head
from .headpiece import Headpiece, Parts
from .layer_outputs import LayerOutput, chained_outputs, embedding_output, layer_outputs
from .layer_to_head import chained_layers, find_early_exit, find_tail, first_layer_input
from .main_input import MainInput
from .model_proofs import FirstText, Traced, on_every_path, same_ids, trace_beside_another
from .trunk_candidates import is_time_first, plain_trunk_candidates, trunk_candidates


class _ShownStates(NamedTuple):
    """The states that a pass shows of a model's layers."""

    states: States | None = None  # the embedding layer's output and each layer's, (B, T, H)
    embedded: Tensor | None = None  # the embedding layer's output, (B, T, H)
    lack_embeddings: bool = False  # whether the states that the model returned begin with the first layer's output


def find_parts(
    pool: ModelPool, text: Inputs, main_input: MainInput, further: tuple[str, ...] = ()
) -> tuple[Parts, FirstText]:
    """Record a copy's pass over a text beside another, and find and prove the parts of the model.

    Args:
        pool: Copies of the model.
        text: The inputs of a text, (1, T).
        main_input: The input that holds what is explained.
        further: The names of inputs beside the text, which the head may read, too.

    Returns:
        The parts, with a head or with the reason why none was proved; and what the model answered to the text.

    Raises:
        UnsupportedModelError: If the model answers with NaN or infinity.
        HeadMismatchError: If it returns no logits.
    """
    model = pool.model
    traced, unverified = trace_beside_another(model, text, main_input)
    calls, ids = traced.calls, traced.inputs["input_ids"]
    if not is_finite(traced.logits):
        raise non_finite_error(model, traced.inputs, calls)
    layers: list[Call] = []  # of a plain module, whose trunk has no name
    if not isinstance(model, PreTrainedModel):
        layers = chained_layers(calls)
    shown = _shown_states(model, traced, layers)
    pads_inside = _model_pads_inside(calls, ids)
    parts = Parts(states_lack_embeddings=shown.lack_embeddings)
    skipped = {call.path: Form.of(call.returned) for call in layers}
    piece = Headpiece("", Form(None), main_input, skipped=skipped, further=further)
    # The head and what depends on it. Without a head, the parts before it are still found.
    try:
        proved = find_head(pool, _trunk_candidates(model, traced, layers, shown), traced, piece)
        _check_states_of_tokens(model, proved, None if pads_inside else ids.shape[1])
    except HeadMismatchError as error:
        parts = replace(parts, head_error=str(error))
        if shown.embedded is not None and shown.embedded.shape[1] != ids.shape[1] and not pads_inside:
            shown = _ShownStates()  # latents, which belong to no token
    else:
        parts = _with_head(parts, pool, proved, traced, shown)
    outputs, embedding = _layer_outputs(pool, parts, layers, shown, traced, main_input)
    if outputs and parts.layers not in (None, len(outputs)):
        outputs = None  # they are of all layers that are read, or none
    site, axes = _embedding_site(model, calls, shown.embedded, ids)
    parts = replace(
        parts,
        embedding_site=site,
        embedding_axes=axes,
        outputs=outputs,
        embedding_output=embedding,
        tables=_lookup_tables(model, calls, ids),
        unverified=() if unverified is None else (unverified,),
    )
    return parts, FirstText.of(dict(text), traced, batched=not pads_inside)


def _shown_states(model: nn.Module, traced: Traced, layers: list[Call]) -> _ShownStates:
    """Return the states that a model returns; of a plain module, what its first layer reads."""
    states = states_of(traced.output)
    layer_input = first_layer_input(traced.calls, states) if states else None
    if states and layer_input is not None:
        return _ShownStates((layer_input, *states[:-1]), layer_input, lack_embeddings=True)
    if isinstance(model, PreTrainedModel):
        return _ShownStates(states, embedded_of(traced.output))
    embedded = layers[0].main_input if layers else None
    if embedded is not None and is_time_first(model, embedded, traced.inputs["input_ids"].shape):
        embedded = embedded.transpose(0, 1)  # (B, T, H)
    return _ShownStates(states, embedded)


def _trunk_candidates(model: Any, traced: Traced, layers: list[Call], shown: _ShownStates) -> Iterator[Call]:
    """Return the calls that could be the trunk's, likely ones first."""
    if isinstance(model, PreTrainedModel):
        return trunk_candidates(model, traced.calls, shown.states)
    return plain_trunk_candidates(model, traced.calls, layers, traced.logits, traced.inputs["input_ids"].shape)


def _layer_outputs(
    pool: ModelPool, parts: Parts, layers: list[Call], shown: _ShownStates, traced: Traced, main_input: MainInput
) -> tuple[tuple[LayerOutput, ...] | None, LayerOutput | None]:
    """Return where the outputs of the layers are returned, None if not all are, and that of the embedding layer."""
    states, embedded, _ = shown
    token_count = traced.inputs["input_ids"].shape[1]
    is_squeezed = embedded is not None and embedded.shape[1] < token_count  # a state is of several tokens
    if is_squeezed:
        embedded = None
    if not isinstance(pool.model, PreTrainedModel) and states is None:
        return _outputs_by_structure(pool, layers, embedded, traced, main_input)
    outputs = None
    if states and len(states) > 1 and not is_squeezed:
        outputs = layer_outputs(traced.calls, parts.trunk, states)
    return outputs, embedding_output(traced.calls, embedded)


def _outputs_by_structure(
    pool: ModelPool, layers: list[Call], embedded: Tensor | None, traced: Traced, main_input: MainInput
) -> tuple[tuple[LayerOutput, ...] | None, LayerOutput | None]:
    """Return the outputs of a plain module's layers, None if they are not proved, and of its embeddings.

    Args:
        pool: Copies of the module.
        layers: The calls of its layers, see `chained_layers`; such a module returns no states.
        embedded: What the first of them reads.
        traced: A pass over a text.
        main_input: The input of which another text has another one.
    """
    embedding = embedding_output(traced.calls, embedded)
    outputs = chained_outputs(layers, traced.inputs["input_ids"].shape)
    if not outputs or not on_every_path(pool, outputs, traced, main_input):
        return None, embedding
    bypassed = embedding is None or not on_every_path(pool, [embedding], traced, main_input)
    return outputs, None if bypassed else embedding


def _lookup_tables(model: nn.Module, calls: list[Call], ids: Tensor) -> tuple[str, ...]:
    """Return the paths of the tables that looked up token ids; an adapter's path instead of the table it wraps."""
    tables = {
        path
        for path, module in model.named_modules()
        if isinstance(module, nn.Embedding) or isinstance(getattr(module, "base_layer", None), nn.Embedding)
    }
    paths = (call.path for call in calls if call.path in tables and _looked_ids_up(call, ids))
    return tuple(dict.fromkeys(path for path in paths if path.rpartition(".")[0] not in tables))


def _looked_ids_up(call: Call, ids: Tensor) -> bool:
    """Return whether a table was called with token ids, (B, T), and returned a vector for each."""
    vectors = tensor_of(call.returned)
    if not same_ids(call.main_input, ids) or vectors is None or vectors.shape[:2] != ids.shape:
        return False
    # A table of positions may be called with the token ids, for their number: its vectors are those of any text.
    return len(ids) == 1 or not torch.equal(vectors[0], vectors[1])


def _first_lookup(model: nn.Module, calls: list[Call], ids: Tensor) -> str | None:
    """Return the path of the first module without children of a plain module that returns a vector for each id."""
    if isinstance(model, PreTrainedModel):
        return None
    for call in calls:
        output, is_leaf = tensor_of(call.returned), not any(model.get_submodule(call.path).children())
        # The model may have put the axis of tokens first.
        read_ids = same_ids(call.main_input, ids) or same_ids(call.main_input, ids.T)
        if is_leaf and read_ids and output is not None and output.is_floating_point() and output.ndim == 3:
            return call.path
    return None


def _with_head(parts: Parts, pool: ModelPool, proved: ProvedHead, traced: Traced, shown: _ShownStates) -> Parts:
    """Return the parts with a proved head, and with the way by which layers' outputs reach it."""
    trunk = proved.trunk
    parts = replace(
        parts,
        headpiece=proved.head.piece,
        tokenwise=proved.tokenwise,
        trunk=trunk.path,
        trunk_gives_states=states_of(trunk.returned) is not None,
    )
    if shown.states and len(shown.states) > 1:
        try:
            tail = find_tail(pool, traced.inputs, traced.calls, trunk, shown.states)
            return replace(parts, tail=tail, layers=len(shown.states) - 1)
        except LookupError:  # the layers are skipped instead, a pass for each
            pass
    early_exit = find_early_exit(pool, trunk, traced.calls, traced.inputs)
    if early_exit is None:
        return parts
    return replace(parts, early_exit=early_exit.layers, layers=early_exit.call_count)


def _model_pads_inside(calls: list[Call], ids: Tensor) -> bool:
    """Return whether the model itself pads texts, as BigBird does to fill its last block."""
    main_inputs = (call.main_input for call in calls if call.main_input is not None)
    longer = (values for values in main_inputs if values.ndim == 2 and values.shape[1] > ids.shape[1])
    return any(values.dtype == ids.dtype and torch.equal(values[:, : ids.shape[1]], ids) for values in longer)


def _check_states_of_tokens(model: nn.Module, proved: ProvedHead, token_count: int | None) -> None:
    """Refuse a trunk that returns another number of states than of tokens, as pooling ones do; None for any number."""
    hidden = proved.trunk.hidden
    if hidden is None or token_count is None:
        return
    count = proved.head.piece.swap_if_time_first(hidden).shape[1]
    if count != token_count:
        raise HeadMismatchError(
            f"the trunk of {type(model).__name__} gives {count} states for {token_count} tokens, so a token has no "
            "state of its own that the head could read"
        )


def _embedding_site(
    model: PreTrainedModel, calls: list[Call], embedded: Tensor | None, ids: Tensor
) -> tuple[Site | None, Axes]:
    """Find a module whose input or output is the embedding layer's output; return the order of its axes, too."""
    if embedded is None:  # several streams from the start, made from the word embeddings
        table = table_of(model)
        path = _first_lookup(model, calls, ids) if table is None else path_of(model, table)
        return None if path is None else Site(path), BATCH_FIRST
    first_calls = [call for call in calls if call.number == 1]  # which is recorded
    for call in first_calls:
        if call.main_input is embedded:
            return Site(call.path, is_input=True), BATCH_FIRST
    for call in first_calls:
        for is_input, tensor in ((True, call.main_input), (False, tensor_of(call.returned))):
            axes = axes_of(tensor, embedded)
            if axes is not None:
                return Site(call.path, is_input=is_input), axes
    return None, BATCH_FIRST
