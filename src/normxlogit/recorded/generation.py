"""Explain a generation that the caller has run, after checks that it has these inputs."""

import inspect
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..copies.module_io import Inputs
from ..errors import HeadMismatchError, InputError, MethodError
from ..inputs.batches import Batch
from ..inputs.decoded_tokens import append_tokens, with_decoded_text
from ..model.forward_pass import ForwardPass
from ..model.generation import end_ids, until_end
from ..model.task_model import TaskModel
from ..parts.proofs import tolerance_for_given
from ..pipeline.completions.completed import Completed
from ..pipeline.completions.completion import CompletionRequest, completion_request, explain_run
from ..pipeline.options import Options
from ..results.attribution import Attribution
from ..results.collection import Attributions
from ..tasks.base import Generates
from .outputs import batch_of, check_layer_count, check_same_states, read_embedded

SETTINGS = "return_dict_in_generate=True, output_hidden_states=True, output_logits=True"
"""The settings of `generate` with which it returns what is read here."""


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
    model.refresh()  # copies the model anew if the caller has changed it since
    _check_options(model, options)
    generation = _checked_generation(model, inputs, outputs)
    requests = []
    # The prompts' tokens, and which of them are padding: all that an encoding of a prompt is made of here.
    prompt_inputs = {name: inputs[name] for name in ("input_ids", "attention_mask") if name in inputs}
    for prompt, ids in zip(model.encoder.from_batch(prompt_inputs, continued=True), generation.tokens, strict=True):
        prompt = with_decoded_text(model.tokenizer, prompt)  # token ids come without one
        sequence = append_tokens(model.tokenizer, prompt, ids)
        completed = Completed(sequence, prompt_tokens=len(prompt), prompt_characters=len(prompt.text or ""))
        requests.append(completion_request(model, completed.with_reasoning(model), options))
    batch = _read_tokens(model, inputs, generation.prompts, requests)
    with torch.inference_mode():
        run = _forward_pass(model, batch, generation.states, layers=options.layers is not None)
        prompt_length = generation.prompts.shape[1]
        hidden = run.hidden[:, prompt_length - 1 :]  # (B, G, H), each state generates the next token
        for row, ids in enumerate(generation.tokens):  # behind the end of a shorter text there is padding alone
            _check_logits(model, hidden[row, : len(ids)], generation.logits[row])
    return Attributions(explain_run(model, run, requests))


def _check_options(model: TaskModel, options: Options) -> None:
    """Refuse options, methods and models that do not explain the tokens of a generation that is over."""
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
    if not difference <= tolerance_for_given(logits):  # refuses NaN, too, which compares as False
        raise HeadMismatchError(
            f"the head on these hidden states gives logits that differ from these outputs' by {difference:.2g}"
        )


class _Generation(NamedTuple):
    """What a call of `generate` has read and returned, of B prompts with at most G generated tokens."""

    prompts: Tensor  # (B, P)
    states: list[Tensor]  # every layer's, (B, P + G - 1, H)
    logits: Tensor  # of the generated tokens, (B, G, V)
    tokens: list[list[int]]  # the generated tokens of each prompt, up to its end token, which is the last of them


def _checked_generation(model: TaskModel, inputs: Inputs, outputs: Inputs) -> _Generation:
    """Return what `generate` has read and returned, after checking that these outputs are of these inputs."""
    sequences = outputs.get("sequences")  # (B, P + G)
    steps = outputs.get("hidden_states")  # of each step a tuple of every layer's states, of the tokens that it read
    logits = outputs.get("logits")  # of each step, (B, V)
    if not isinstance(sequences, Tensor) or not steps or not logits:
        raise InputError(f"the outputs need sequences, hidden states and logits: call generate with {SETTINGS}")
    prompts = inputs.get("input_ids")
    if not isinstance(prompts, Tensor):
        raise InputError("inputs need 'input_ids' as a tensor, as generate was given them")
    first_tokens, generated_tokens = sequences.tensor_split([prompts.shape[1]], 1)  # (B, P), (B, G)
    if not generated_tokens.shape[1] or not torch.equal(first_tokens.cpu(), prompts.cpu()):
        raise InputError(
            "the sequences do not begin with these inputs, each given as often as it has sequences, as in "
            "input_ids.repeat_interleave(n, 0)"
        )
    # The first step reads the prompt, each other one the token that the step before has generated.
    states = [torch.cat(states_of_layer, 1) for states_of_layer in zip(*steps, strict=True)]
    read_shape = tuple(states[0].shape[:2])
    # Texts and tokens read, and logits: of each sequence the last token is not read, and each generated one has logits.
    expected = (len(prompts), sequences.shape[1] - 1, generated_tokens.shape[1])
    if (*read_shape, len(logits)) != expected:
        raise InputError(
            f"the outputs hold states of {read_shape} tokens for sequences of "
            f"{tuple(sequences.shape)}; several beams or returned sequences cannot be told apart"
        )
    # `generate` fills shorter texts of the batch with padding behind their end tokens.
    ends = end_ids(model.copy.unmodified.generation_config)
    generated = [until_end(row, ends) for row in generated_tokens.tolist()]
    return _Generation(prompts, states, logits=torch.stack(list(logits), 1), tokens=generated)


def _read_tokens(model: TaskModel, inputs: Inputs, prompts: Tensor, requests: Sequence[CompletionRequest]) -> Batch:
    """Return the tokens that the model has read in all steps as a batch: all but the last of each row.

    Args:
        model: A causal language model.
        inputs: What `generate` was given.
        prompts: The token ids of B prompts, (B, P).
        requests: What is explained of each, with its G generated tokens or fewer.
    """
    # The last token was generated and not read. A single one leaves an empty row, which has no type of its own.
    rows = [torch.tensor(request.completed.generated_ids[:-1], dtype=torch.long) for request in requests]
    prompt_mask = inputs.get("attention_mask", torch.ones_like(prompts)).cpu()  # (B, P)
    generated_ids = pad_sequence(rows, batch_first=True, padding_value=model.pad_id)  # (B, G - 1)
    generated_mask = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)  # (B, G - 1)
    attended = torch.cat([prompt_mask.long(), generated_mask], 1)  # (B, T)
    tokens = torch.cat([prompts.cpu(), generated_ids], 1)  # (B, T)
    tensors = {"input_ids": tokens.to(model.device), "attention_mask": attended.to(model.device)}
    if not prompt_mask.all() and "position_ids" in inspect.signature(model.module.forward).parameters:
        # `generate` counts positions from the first token that is not padding.
        tensors["position_ids"] = (attended.cumsum(-1) - 1).clamp(min=0).to(model.device)
    return batch_of(tensors, [request.context for request in requests])


def _forward_pass(model: TaskModel, batch: Batch, states: list[Tensor], *, layers: bool) -> ForwardPass:
    """Return the states of the caller's run as a forward pass over the tokens that it has read.

    Args:
        model: A causal language model.
        batch: The tokens that it read of B texts.
        states: Every layer's states, (B, P + G - 1, H) each.
        layers: Whether the outputs of all layers are explained.

    Raises:
        InputError: If the states are not of these tokens, or lack those of the embeddings.
    """
    model.prepare(batch)  # finds the parts, if this is the first batch of the model
    length = batch.mask.shape[1]  # T, less than P + G - 1 where every text ends before the last step
    states = [state[:, :length].to(model.device) for state in states]  # (B, T, H) each
    check_layer_count(tuple(states), model.parts)
    embedded = read_embedded(model, batch)  # (B, T, H)
    if model.parts.states_lack_embeddings:  # then only a whole pass would show that the states are of these tokens
        raise InputError(f"{model.class_name} leaves no states of its embeddings; use explain_completion")
    check_same_states(batch, states[0], embedded)
    states_of_layers = tuple(states) if layers else None
    # The head reads the states of all generated tokens later, each for its own token.
    return model.finish(batch, states[-1], embedded, states_of_layers, logits=None, predict=False)
