"""Explain a forward pass or a generation that the caller has run, after checks that it has these inputs."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..copies.memory import enough_memory
from ..copies.run import Inputs, embedded_of, states_of
from ..errors import HeadMismatchError, InputError, MethodError, UnsupportedModelError
from ..inputs.decoded_tokens import append_tokens, with_decoded_text
from ..inputs.encoding import Batch
from ..model.forward_pass import ForwardPass
from ..model.generation import end_ids, until_end
from ..model.task_model import TaskModel
from ..parts.headpiece import answer_of
from ..parts.model_parts import Parts
from ..parts.proofs import outputs_beyond_rounding, tolerance_for_given
from ..pipeline.completions.completed import Completed
from ..pipeline.completions.completion import CompletionRequest, completion_request, explain_run
from ..pipeline.options import Options
from ..pipeline.texts import attribute_pass
from ..results.attribution import Attribution
from ..results.collection import Attributions
from ..tasks.base import Generates
from ..tasks.task_outputs import logits_at

WANTED = "return_dict_in_generate=True, output_hidden_states=True, output_logits=True"


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
    options.check_count(len(encodings))
    options.check_target(model)
    tensors = {  # of what a pass without pictures and sounds reads
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
    return Attributions(attribute_pass(model, run, options))


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
    parts = model.parts
    check_layer_count(states, parts)
    embedded = read_embedded(model, batch)  # (B, T, H)
    hidden = states[-1]  # (B, T, H)
    if parts.states_lack_embeddings:  # then nothing shows that the states are of these inputs but a whole pass
        check_same_states(batch, hidden, model.states(batch))
    elif (theirs := embedded_of(outputs)) is not None:
        check_same_states(batch, theirs, embedded)
    states_of_layers = model.with_embeddings(states, embedded) if layers else None
    run = model.finish(batch, hidden, embedded, states_of_layers, logits=None)
    logits_read = logits if run.positions is None else logits_at(logits, run.positions)
    # Logits may be infinite where the head gives the same ones, which is checked below.
    if logits_read.isnan().any() or not batch.real(hidden).isfinite().all():
        raise InputError("the outputs hold NaN or infinite numbers, which cannot be explained")
    if logits_read.shape != run.logits.shape:
        raise InputError(f"the outputs hold logits of shape {tuple(logits_read.shape)}, not {tuple(run.logits.shape)}")
    difference = outputs_beyond_rounding(model.copy.form.returned(run.logits), logits_read)
    if difference is not None:
        raise HeadMismatchError(
            f"the head on these hidden states gives logits that differ from these outputs' by {difference:.2g}; "
            "are they of the same inputs, and was the model in evaluation mode?"
        )
    return replace(run, outputs=outputs)


def read_embedded(model: TaskModel, batch: Batch) -> Tensor:
    """Return the embedding layer's output, (B, T, H), from a pass that ends there if it can.

    Args:
        model: The model.
        batch: B texts.

    Raises:
        UnsupportedModelError: If the model does not give it.
    """
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
    expected_of_logits = batch.mask.shape if per_token else batch.mask.shape[:1]
    for value, expected in ((states[-1], batch.mask.shape), (logits, expected_of_logits)):
        if value.shape[: len(expected)] != expected:
            raise InputError(f"the outputs are of shape {tuple(value.shape)}, the input {tuple(batch.mask.shape)}")
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
    expected = parts.layers + 1
    if len(states) != expected:
        raise InputError(
            f"the outputs hold {len(states)} hidden states, and the model gives {expected}: the embedding layer's "
            "output and every layer's"
        )


def check_same_states(batch: Batch, theirs: Tensor, ours: Tensor) -> None:
    """Refuse a hidden state of the caller's outputs that differs from the same one computed from the inputs.

    Args:
        batch: B texts.
        theirs: The state in the outputs, (B, T, H).
        ours: The same one, computed anew, (B, T, H).

    Raises:
        InputError: If they differ by more than rounding.
    """
    if outputs_beyond_rounding(batch.real(theirs), batch.real(ours)) is not None:
        raise InputError(
            "the hidden states of these outputs do not come from these inputs; are they of the same inputs, in the "
            "same order, and was the model in evaluation mode?"
        )


def explain_generation(
    model: TaskModel, inputs: Inputs, outputs: Inputs, options: Options
) -> Attributions[Attribution]:
    """Explain generated text from the hidden states of the caller's run; only the embedding layer runs again.

    Args:
        model: A causal language model.
        inputs: What `generate` was given: B prompts as token ids.
        outputs: What it returned, with `output_hidden_states` and `output_logits`.
        options: The options of the call, with a method that scores each token by itself.

    Raises:
        InputError: If inputs or outputs lack something, or do not belong together.
        MethodError: If the method needs a pass of its own.
    """
    model.refresh()
    _check_generation(model, options)
    generation = _checked_generation(model, inputs, outputs)
    requests = []
    prompt_inputs = {name: inputs[name] for name in ("input_ids", "attention_mask") if name in inputs}
    for prompt, ids in zip(model.encoder.from_batch(prompt_inputs, continued=True), generation.tokens, strict=True):
        prompt = with_decoded_text(model.tokenizer, prompt)
        sequence = append_tokens(model.tokenizer, prompt, ids)
        completed = Completed(sequence, len(prompt), len(prompt.text or "")).with_reasoning(model)
        requests.append(completion_request(model, completed, options))
    batch = _as_read(model, inputs, generation.prompts, requests)
    with torch.inference_mode():
        run = _run(model, batch, generation.states, layers=options.layers is not None)
        prompt_length = generation.prompts.shape[1]
        hidden = run.hidden[:, prompt_length - 1 :]  # (B, G, H), each state generates the next token
        for row, ids in enumerate(generation.tokens):
            _check_logits(model, hidden[row, : len(ids)], generation.logits[row])
    return Attributions(explain_run(model, run, requests))


def _check_generation(model: TaskModel, options: Options) -> None:
    """Refuse what cannot be explained of a generation that is over."""
    for name in ("targets", "position", "token_predictions"):
        if getattr(options, name) is not None:
            raise InputError(f"{name}= is for a forward pass; of generated tokens pass target= and contrast=")
    if not options.method.info.tokenwise:
        raise MethodError(
            f"{options.method.info.name} needs a pass of its own; normxlogit, logat and input-norm read the states of "
            "a run that is over, and explain_completion takes any method"
        )
    if not (isinstance(model.task, Generates) and model.task.position.left_to_right):
        raise InputError("states of a generation are read for causal language models")


def _check_logits(model: TaskModel, hidden: Tensor, logits: Tensor) -> None:
    """Refuse states from which the head gives other logits than the outputs have.

    Args:
        model: The model.
        hidden: The states from which G tokens are generated, (G, H).
        logits: Those of the outputs, of G or more tokens, (G', V): -inf where a setting of `generate` excludes a token.

    Raises:
        HeadMismatchError: If they differ by more than rounding.
    """
    computed = model.head.tokens(hidden).float()  # (G, V)
    returned = logits[: len(hidden)].to(computed)  # (G, V)
    difference = (computed - returned).abs()[returned.isfinite()].max().item()
    if not difference <= tolerance_for_given(logits):
        raise HeadMismatchError(
            f"the head on these hidden states gives logits that differ from these outputs' by {difference:.2g}"
        )


class _Generation(NamedTuple):
    """What a call of `generate` has read and returned, of B prompts with at most G generated tokens."""

    prompts: Tensor  # (B, P)
    states: list[Tensor]  # every layer's, (B, P + G - 1, H)
    logits: Tensor  # of the generated tokens, (B, G, V)
    tokens: list[list[int]]  # the generated tokens of each prompt, up to its end


def _checked_generation(model: TaskModel, inputs: Inputs, outputs: Inputs) -> _Generation:
    """Return what `generate` has read and returned, after checking that these outputs are of these inputs."""
    sequences, steps, logits = map(
        outputs.get, ("sequences", "hidden_states", "logits")
    )  # `steps`: a token, its layers
    if not isinstance(sequences, Tensor) or not steps or not logits:
        raise InputError(f"the outputs need sequences, hidden states and logits: call generate with {WANTED}")
    prompts = inputs.get("input_ids")
    if not isinstance(prompts, Tensor):
        raise InputError("inputs need 'input_ids' as a tensor, as generate was given them")
    first_tokens, generated_tokens = sequences.tensor_split([prompts.shape[1]], 1)  # (B, P), (B, G)
    if not generated_tokens.shape[1] or not torch.equal(first_tokens.cpu(), prompts.cpu()):
        raise InputError(
            "the sequences do not begin with these inputs, each given as often as it has sequences, as in "
            "input_ids.repeat_interleave(n, 0)"
        )
    states = [torch.cat(states_of_layer, 1) for states_of_layer in zip(*steps, strict=True)]
    expected = (len(prompts), sequences.shape[1] - 1, generated_tokens.shape[1])  # the last token is not read
    if (*states[0].shape[:2], len(logits)) != expected:
        raise InputError(
            f"the outputs hold states of {tuple(states[0].shape[:2])} tokens for sequences of "
            f"{tuple(sequences.shape)}; several beams or returned sequences cannot be told apart"
        )
    ends = end_ids(model.copy.unmodified.generation_config)
    generated = [until_end(row, ends) for row in generated_tokens.tolist()]
    return _Generation(prompts, states, torch.stack(list(logits), 1), generated)


def _as_read(model: TaskModel, inputs: Inputs, prompts: Tensor, requests: Sequence[CompletionRequest]) -> Batch:
    """Return the tokens that the model read: all but the last of each row.

    Args:
        model: A causal language model.
        inputs: What `generate` was given.
        prompts: The token ids of B prompts, (B, P).
        requests: What is explained of each, with its G generated tokens or fewer.
    """
    rows = [torch.tensor(completion.completed.generated_ids[:-1], dtype=torch.long) for completion in requests]
    prompt_mask = inputs.get("attention_mask", torch.ones_like(prompts)).cpu()  # (B, P)
    generated_ids = pad_sequence(rows, batch_first=True, padding_value=model.pad_id)  # (B, G - 1)
    generated_mask = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)  # (B, G - 1)
    attended = torch.cat([prompt_mask.long(), generated_mask], 1)  # (B, T)
    tokens = torch.cat([prompts.cpu(), generated_ids], 1)  # (B, T)
    tensors = {"input_ids": tokens.to(model.device), "attention_mask": attended.to(model.device)}
    if not prompt_mask.all() and "position_ids" in inspect.signature(model.module.forward).parameters:
        tensors["position_ids"] = (attended.cumsum(-1) - 1).clamp(min=0).to(model.device)  # as generate counts
    return Batch(
        tensors,
        tensors["attention_mask"].bool(),
        [completion.context for completion in requests],
        list(range(len(requests))),
    )


def _run(model: TaskModel, batch: Batch, states: list[Tensor], *, layers: bool) -> ForwardPass:
    """Make a `ForwardPass` from the states of the caller's run.

    Args:
        model: A causal language model.
        batch: The tokens that it read of B texts.
        states: Every layer's states, (B, P + G - 1, H) each.
        layers: Whether the outputs of all layers are explained.

    Raises:
        InputError: If the states are not of these tokens, or lack those of the embeddings.
    """
    model.prepare(batch)
    length = batch.mask.shape[1]
    states = [state[:, :length].to(model.device) for state in states]  # (B, T, H) each
    check_layer_count(tuple(states), model.parts)
    embedded = read_embedded(model, batch)  # (B, T, H)
    if model.parts.states_lack_embeddings:
        raise InputError(f"{type(model.module).__name__} leaves no states of its embeddings; use explain_completion")
    check_same_states(batch, states[0], embedded)
    kept_states = tuple(states) if layers else None
    return model.finish(batch, states[-1], embedded, kept_states, logits=None, predict=False)
