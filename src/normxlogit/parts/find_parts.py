"""Find the parts of a model by recording one small forward pass, and prove them."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

from ..copies.arithmetic import is_finite, non_finite_error
from ..copies.memory import reraise_out_of_memory
from ..copies.run import Form, Pool, Site, embedded_of, states_of, tensor_of
from ..copies.trace import BATCH_FIRST, Axes, Call, axes_of, path_of
from ..errors import HeadMismatchError, reason_of
from .embeddings import table_of
from .headpiece import Head, Headpiece, Parts, output_embedding_path
from .layer_outputs import LayerOutput, chained_outputs, embedding_output, layer_outputs
from .layer_to_head import chained_layers, find_early_exit, find_tail, first_layer_input
from .model_proofs import (
    FirstText,
    Traced,
    on_every_path,
    rows_are_of_the_vocabulary,
    same_ids,
    spread_rows,
    trace_beside_another,
)
from .proofs import (
    batch_tolerance,
    beyond_rounding,
    head_reads_tokens_alone,
    largest_difference,
    proof,
    quantises_by_batch,
)


def find_parts(
    pool: Pool[PreTrainedModel], text: Mapping[str, Any], filler: int, further: tuple[str, ...] = ()
) -> tuple[Parts, FirstText]:
    """Record a copy's pass over a text beside another; return the parts, head or not, and what the model answered."""
    model = pool.model
    is_plain_module = not isinstance(model, PreTrainedModel)  # whose trunk has no name
    traced, unverified = trace_beside_another(model, text, filler)
    calls, inputs, output, logits = traced.calls, traced.inputs, traced.output, traced.logits
    ids = inputs["input_ids"]
    token_count = ids.shape[1]
    if not is_finite(logits):
        raise non_finite_error(model, inputs, calls)
    layers = chained_layers(calls) if is_plain_module else []
    layer_forms = {call.path: Form.of(call.returned) for call in layers}
    states, embedded = states_of(output), embedded_of(output)
    layer_input = first_layer_input(calls, states) if states else None
    if states and layer_input is not None:  # the model's states begin after the first layer
        states, embedded = (layer_input, *states[:-1]), layer_input
    elif is_plain_module:
        embedded = layers[0].main_input if layers else None
        if embedded is not None and _time_first(model, embedded, ids.shape):
            embedded = embedded.transpose(0, 1)  # (B, T, H)
    if is_plain_module:
        candidates = _plain_trunk_candidates(model, calls, layers, logits, ids.shape)
    else:
        candidates = _trunk_candidates(model, calls, states)
    pads_inside = _model_pads_inside(calls, ids)
    parts = Parts(states_lack_embeddings=layer_input is not None)
    piece = Headpiece("", Form(None), filler, skipped=layer_forms, further=further)
    # The head and what depends on it. Without a head, the parts before it are still found.
    try:
        head, trunk, tokenwise = _find_head(pool, candidates, inputs, logits, piece)
        _check_states_of_tokens(model, head, trunk, None if pads_inside else token_count)
    except HeadMismatchError as error:
        parts = replace(parts, head_error=str(error))
        if embedded is not None and embedded.shape[1] != token_count and not pads_inside:
            states, embedded = None, None  # latents, which belong to no token
    else:
        parts = replace(
            _with_layer_access(parts, pool, trunk, calls, inputs, states),
            headpiece=head.piece,
            tokenwise=tokenwise,
            trunk=trunk.path,
            trunk_gives_states=states_of(trunk.returned) is not None,
        )
    site, axes = _embedding_site(model, calls, embedded, ids)
    squeezed = embedded is not None and embedded.shape[1] < token_count  # a state of several tokens is not one token's
    if is_plain_module and states is None:
        outputs, embedding = _outputs_by_structure(pool, layers, None if squeezed else embedded, traced, filler)
    else:
        outputs = layer_outputs(calls, parts.trunk, states) if states and len(states) > 1 and not squeezed else None
        embedding = None if squeezed else embedding_output(calls, embedded)
    parts = replace(
        parts,
        embedding_site=site,
        embedding_axes=axes,
        outputs=None if outputs and parts.layers not in (None, len(outputs)) else outputs,  # of all layers read
        embedding_output=embedding,
        tables=_lookup_tables(model, calls, ids),
        unverified=() if unverified is None else (unverified,),
    )
    return parts, FirstText.of(dict(text), traced, batched=not pads_inside)


def _outputs_by_structure(
    pool: Pool[PreTrainedModel], layers: list[Call], embedded: Tensor | None, traced: Traced, filler: int
) -> tuple[tuple[LayerOutput, ...] | None, LayerOutput | None]:
    """Return the outputs of a plain module's layers, None if they are not proved, and of its embeddings.

    Args:
        pool: Copies of the module.
        layers: The calls of its layers, see `chained_layers`; such a module returns no states.
        embedded: What the first of them reads.
        traced: A pass over a text.
        filler: A token of which another text can consist.
    """
    embedding = embedding_output(traced.calls, embedded)
    outputs = chained_outputs(layers, traced.inputs["input_ids"].shape)
    if not outputs or not on_every_path(pool, outputs, traced, filler):
        return None, embedding
    bypassed = embedding is None or not on_every_path(pool, [embedding], traced, filler)
    return outputs, None if bypassed else embedding


def _lookup_tables(model: nn.Module, calls: list[Call], ids: Tensor) -> tuple[str, ...]:
    """Return the paths of the tables that looked up token ids; an adapter's path instead of the table it wraps."""
    tables = {
        path
        for path, module in model.named_modules()
        if isinstance(module, nn.Embedding) or isinstance(getattr(module, "base_layer", None), nn.Embedding)
    }
    looked_up = (call for call in calls if call.path in tables and same_ids(call.main_input, ids))
    # A table of positions may be called with the token ids, for their number.
    lookup_paths = (call.path for call in looked_up if getattr(tensor_of(call.returned), "shape", ())[:2] == ids.shape)
    return tuple(dict.fromkeys(path for path in lookup_paths if path.rpartition(".")[0] not in tables))


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


def _with_layer_access(
    parts: Parts,
    pool: Pool[PreTrainedModel],
    trunk: Call,
    calls: list[Call],
    inputs: Mapping[str, Any],
    states: tuple[Tensor, ...] | None,
) -> Parts:
    """Return the parts with the way by which layers' outputs reach the head: in one pass, or by skipping layers."""
    if states and len(states) > 1:
        try:
            return replace(parts, tail=find_tail(pool, inputs, calls, trunk, states), layers=len(states) - 1)
        except LookupError:
            pass
    early_exit, count = find_early_exit(pool, trunk, calls, inputs)
    return replace(parts, early_exit=early_exit, layers=count)


def _model_pads_inside(calls: list[Call], ids: Tensor) -> bool:
    """Return whether the model itself pads texts, as BigBird does to fill its last block."""
    main_inputs = (call.main_input for call in calls if call.main_input is not None)
    longer = (values for values in main_inputs if values.ndim == 2 and values.shape[1] > ids.shape[1])
    return any(values.dtype == ids.dtype and torch.equal(values[:, : ids.shape[1]], ids) for values in longer)


def _check_states_of_tokens(model: nn.Module, head: Head, trunk: Call, token_count: int | None) -> None:
    """Refuse a trunk that returns another number of states than of tokens, as pooling ones do; None for any number."""
    count = token_count if trunk.hidden is None else head.piece.swap_if_time_first(trunk.hidden).shape[1]
    if token_count is not None and count != token_count:
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


def _trunk_candidates(model: PreTrainedModel, calls: list[Call], states: tuple[Tensor, ...] | None) -> Iterator[Call]:
    """Yield the calls after the last layer whose output could be the head's input, likely ones first."""
    # The proof would succeed with any earlier module too, even with the embeddings.
    last_layer_input = states[-2] if states and len(states) > 1 else None
    last_layer_calls = [call for call in calls if last_layer_input is not None and call.main_input is last_layer_input]
    last_layer_end = max((call.end for call in last_layer_calls), default=-1)
    called = {call.path: call for call in calls if call.path and call.hidden is not None and call.end >= last_layer_end}
    order = [
        path_of(model, model.base_model) or None,
        *(path for path, call in called.items() if isinstance(call.returned, ModelOutput)),
    ]
    order += [path for path in called if path.count(".") <= 1]
    for path in dict.fromkeys(order):
        if path in called:
            yield called[path]


def _plain_trunk_candidates(
    model: nn.Module, calls: list[Call], layers: list[Call], logits: Tensor, shape: torch.Size
) -> Iterator[Call]:
    """Yield calls of a plain module that could be the trunk, the last first; after them those that give the answer."""
    start = layers[-1].end if layers else -1
    with_hidden = ((call, call.hidden) for call in sorted(calls, key=lambda call: call.end, reverse=True))
    candidates: list[tuple[Call, Tensor]] = []
    for call, hidden in with_hidden:
        if hidden is None or not call.path or call.end < start:
            continue
        hidden = hidden.transpose(0, 1) if _time_first(model, hidden, shape) else hidden  # (B, T, H)
        if hidden.shape[:2] == shape and hidden.is_floating_point():
            candidates.append((call, hidden))
    base_model_paths = {path for path, module in model.named_modules() if module is getattr(model, "base_model", None)}
    candidates.sort(key=lambda pair: (pair[1].shape == logits.shape, pair[0].path not in base_model_paths))
    yield from (call for call, _ in candidates)


def _time_first(model: nn.Module, states: Tensor, shape: torch.Size) -> bool:
    """Return whether a plain module's states are (T, B, H), for token ids of (B, T)."""
    return not isinstance(model, PreTrainedModel) and states.shape[:2] == shape[::-1] != shape


def _find_head(
    pool: Pool[PreTrainedModel], candidates: Iterator[Call], inputs: Mapping[str, Any], logits: Tensor, piece: Headpiece
) -> tuple[Head, Call, bool]:
    """Return the head behind the first candidate with which it is proved, its trunk, and whether it reads tokens."""
    failures = []
    for trunk in candidates:
        try:
            with torch.inference_mode():
                head, tokenwise = prove_head(pool, trunk, inputs, logits, piece)
        except Exception as error:  # noqa: PERF203  # a wrong guess may fail in any way; the next one is tried
            reraise_out_of_memory(error)
            kind = "" if isinstance(error, HeadMismatchError) else f"{type(error).__name__}: "
            failures.append(f"{trunk.path}: {kind}{reason_of(error)}")
        else:
            return head, trunk, tokenwise
    raise HeadMismatchError(
        f"the head of {type(pool.model).__name__} could not be applied by itself: no trunk was found with which it "
        f"reproduces the model's logits. Tried {'; '.join(failures) or 'nothing: no module returns hidden states'}"
    )


@proof(
    compares="the head on the trunk's states of two whole texts, in another order, and the model's logits; the head on "
    "a token alone and beside others",
    tolerance="rounding",
    why="the trunk is where it was guessed, and the head reads nothing else, such as a state kept from a pass before",
    when="first call, for each candidate; the head alone",
)
def prove_head(
    pool: Pool[PreTrainedModel], trunk: Call, inputs: Mapping[str, Any], logits: Tensor, piece: Headpiece
) -> tuple[Head, bool]:
    """Prove the head that reads a module's output; return the head, and whether it answers at single tokens."""
    model, hidden = pool.model, trunk.hidden
    if hidden is None:
        raise HeadMismatchError("no hidden states")
    time_first = "input_ids" in inputs and _time_first(model, hidden, inputs["input_ids"].shape)
    outside_forms = {path: form for path, form in piece.skipped.items() if not f"{path}.".startswith(f"{trunk.path}.")}
    form = Form.of(trunk.returned)
    head = Head(pool, replace(piece, trunk=trunk.path, form=form, time_first=time_first, skipped=outside_forms))
    hidden = head.piece.swap_if_time_first(hidden)  # (B, T, H)
    # The texts in another order: a head that reads a state kept from the pass before would answer in the first one.
    count = len(logits)
    turned = {name: value.roll(len(value) // count, 0) for name, value in inputs.items() if isinstance(value, Tensor)}
    turned_logits = head.texts(hidden.roll(1, 0), {**inputs, **turned})
    if (difference := beyond_rounding(turned_logits, logits.roll(1, 0))) is not None:
        raise HeadMismatchError(f"logits differ by {difference:.2g}")
    path, tokenwise, rows = output_embedding_path(model) if logits.ndim > 2 else None, True, None
    of_rows = Head(pool, replace(head.piece, output_embedding=path))
    if path is not None and rows_are_of_the_vocabulary(of_rows, path, hidden.flatten(0, 1), logits.flatten(0, 1)):
        head, rows = of_rows, spread_rows(logits)  # (R,)
        first_tokens = head.first_tokens(hidden[0], inputs, rows)  # (T, R)
    else:
        try:
            first_tokens = head.first_tokens(hidden[0], inputs)  # (T, C)
        except Exception as error:  # some heads search the ids, as Longformer's does for three separators
            reraise_out_of_memory(error)
            head = Head(pool, replace(head.piece, takes_ids=False))
            first_tokens = head.first_tokens(hidden[0], inputs)  # (T, C)
        tokenwise = logits.ndim == 2 or head_reads_tokens_alone(first_tokens, logits[0])
    if not tokenwise and isinstance(model, PreTrainedModel) and model.get_output_embeddings() is not None:
        raise HeadMismatchError("the vocabulary's logits at a token depend on other tokens")
    if tokenwise and not quantises_by_batch(model):
        difference = largest_difference(head.first_tokens(hidden[0, :1], inputs, rows), first_tokens[:1])
        if difference > batch_tolerance(first_tokens):  # NaN where the head reads two places of a token's text
            raise HeadMismatchError(f"the logits at a token differ beside others by {difference:.2g}")
    return head, tokenwise
