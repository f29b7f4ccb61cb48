"""Explain completions from the hidden states of the caller's own `generate`, without another pass."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..errors import HeadMismatchError, InputError, MethodError
from ..inputs.alignment import append_tokens, with_decoded_text
from ..inputs.encoding import Batch
from ..model.forward_pass import ForwardPass
from ..model.generation import end_ids, until_end
from ..model.task_model import TaskModel
from ..parts.proofs import tolerance_for_given
from ..pipeline.completions.completed_prompts import Completed
from ..pipeline.completions.completion import CompletionRequest, completion_request, explain_run
from ..pipeline.options import Options
from ..results.attribution import Attribution
from ..results.collection import Attributions
from ..tasks.base import Generates
from .outputs import check_layer_count, check_same_states, read_embedded

WANTED = "return_dict_in_generate=True, output_hidden_states=True, output_logits=True"


def explain(
    model: TaskModel, inputs: Mapping[str, Any], outputs: Mapping[str, Any], options: Options
) -> Attributions[Attribution]:
    """Explain generated text from the hidden states of the caller's run; only the embedding layer runs again."""
    model.refresh()
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
    prompts, states, logits, generated = _checked_outputs(model, inputs, outputs)
    requests = []
    tokens = {name: inputs[name] for name in ("input_ids", "attention_mask") if name in inputs}
    for encoding, ids in zip(model.encoder.from_batch(tokens), generated, strict=True):
        encoding = with_decoded_text(model.tokenizer, encoding)
        sequence = append_tokens(model.tokenizer, encoding, ids)
        completed = Completed(sequence, len(encoding), len(encoding.text or "")).with_reasoning(model)
        requests.append(completion_request(model, completed, options))
    batch = _as_read(model, inputs, prompts, requests)
    with torch.inference_mode():
        run = _run(model, batch, states, layers=options.layers is not None)
        start = prompts.shape[1]
        hidden = run.hidden[:, start - 1 :]  # (B, G, H)
        for row, ids in enumerate(generated):
            computed = model.head.tokens(hidden[row, : len(ids)]).float()  # (G, V)
            returned = logits[row, : len(ids)].to(computed)  # (G, V)
            difference = (computed - returned).abs()[returned.isfinite()].max().item()
            if not difference <= tolerance_for_given(logits[row]):
                raise HeadMismatchError(
                    f"the head on these hidden states gives logits that differ from these outputs' by {difference:.2g}"
                )
    return Attributions(explain_run(model, run, requests))


def _checked_outputs(
    model: TaskModel, inputs: Mapping[str, Any], outputs: Mapping[str, Any]
) -> tuple[Tensor, list[Tensor], Tensor, list[list[int]]]:
    """Return prompts (B, P), every layer's states (B, P + G - 1, H), logits (B, G, V) and generated tokens."""
    sequences, steps, logits = (outputs.get(name) for name in ("sequences", "hidden_states", "logits"))
    if not isinstance(sequences, Tensor) or not steps or not logits:
        raise InputError(f"the outputs need sequences, hidden states and logits: call generate with {WANTED}")
    prompts = inputs.get("input_ids")
    if not isinstance(prompts, Tensor):
        raise InputError("inputs need 'input_ids' as a tensor, as generate was given them")
    if len(sequences) != len(prompts):
        raise InputError(
            f"there are {len(sequences)} sequences for {len(prompts)} inputs: pass each input as often as it has "
            "sequences, as in input_ids.repeat_interleave(n, 0); those of beams cannot be told apart"
        )
    generated_tokens = sequences.shape[1] - prompts.shape[1]
    if generated_tokens < 1 or not torch.equal(sequences[:, : prompts.shape[1]].cpu(), prompts.cpu()):
        raise InputError("the sequences do not begin with these inputs")
    states = [torch.cat([step[layer] for step in steps], 1) for layer in range(len(steps[0]))]
    if states[0].shape[:2] != (len(prompts), sequences.shape[1] - 1) or len(logits) != generated_tokens:
        raise InputError(
            f"the outputs hold states of {tuple(states[0].shape[:2])} tokens for sequences of "
            f"{tuple(sequences.shape)}; several beams or returned sequences cannot be told apart"
        )
    ends = end_ids(model.copy.unmodified.generation_config)
    generated = [until_end(row, ends) for row in sequences[:, prompts.shape[1] :].tolist()]
    return prompts, states, torch.stack(list(logits), 1), generated


def _as_read(
    model: TaskModel, inputs: Mapping[str, Any], prompts: Tensor, requests: Sequence[CompletionRequest]
) -> Batch:
    """Return the tokens that the model read: all but the last of each row."""
    rows = [torch.tensor(completion.completed.generated_ids[:-1], dtype=torch.long) for completion in requests]
    mask = inputs.get("attention_mask", torch.ones_like(prompts)).cpu()  # (B, P)
    ids = pad_sequence(rows, batch_first=True, padding_value=model.pad_id)  # (B, G - 1)
    after = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)  # (B, G - 1)
    attended = torch.cat([mask.long(), after], 1)  # (B, T)
    tokens = torch.cat([prompts.cpu(), ids], 1)  # (B, T)
    tensors = {"input_ids": tokens.to(model.device), "attention_mask": attended.to(model.device)}
    if not mask.all() and "position_ids" in inspect.signature(model.module.forward).parameters:
        tensors["position_ids"] = (attended.cumsum(-1) - 1).clamp(min=0).to(model.device)  # as generate counts
    return Batch(
        tensors,
        tensors["attention_mask"].bool(),
        [completion.context for completion in requests],
        list(range(len(requests))),
    )


def _run(model: TaskModel, batch: Batch, states: list[Tensor], *, layers: bool) -> ForwardPass:
    """Make a `ForwardPass` from the states of the caller's run."""
    model.prepare(batch)
    length = batch.mask.shape[1]
    states = [state[:, :length].to(model.device) for state in states]  # (B, T, H) each
    check_layer_count(tuple(states), model.parts)
    embedded = read_embedded(model, batch)  # (B, T, H)
    if model.parts.states_lack_embeddings:
        raise InputError(f"{type(model.module).__name__} leaves no states of its embeddings; use explain_completion")
    check_same_states(batch, states[0], embedded)
    return model.finish(batch, states[-1], embedded, tuple(states) if layers else None, None, False)
