"""Completions of language models: read them, let the model write them, and explain each of their tokens."""

import copy
import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig

from .._version import __version__
from ..errors import InputError, TargetError, UnsupportedModelError
from ..inputs.chat import Prompt, ReadPrompt, read_prompt
from ..inputs.encoding import Encoding
from ..inputs.texts import counted
from ..inputs.token_ids import check_ids
from ..methods import Method, Request, check_finite, method_named, run_method
from ..models.append_tokens import append_tokens
from ..models.layers import layer_numbers
from ..models.seq2seq import Seq2SeqModel
from ..models.targets import Target, index_of, is_choice, name_of
from ..models.task_model import ForwardPass, TaskModel
from ..results.attribution import Prediction, TargetInfo
from ..results.base import FloatArray
from ..results.generation import GenerationAttribution
from .completed import Completed
from .options import Options

__all__ = ["default_method", "explain_completion", "generate", "read_completion"]

ROWS_AT_ONCE = 256
"""Places whose full vocabulary logits are held at once, to say what the model found most likely there."""


def default_method(model: TaskModel) -> Method:
    """Return the method that explains completions unless another is asked for.

    The frozen gradient finds the sources that an answer rests on where NormXLogit's sums do no better than a source's
    length (docs, "Results: sources of answers"). It does not work on encoder-decoder models.
    """
    return method_named("normxlogit" if isinstance(model, Seq2SeqModel) else "frozen-gradient")


def generate(model: TaskModel, prompt: Prompt, max_new_tokens: int, options: Mapping[str, Any]) -> Completed:
    """Let the model continue a prompt.

    Args:
        model: A causal language model.
        prompt: A text or chat messages.
        max_new_tokens: Most tokens to write; fewer where the model's length ends.
        options: Passed to the model's `generate`; without any it is greedy.

    Returns:
        Prompt and completion, and how much of it is the prompt.

    Raises:
        InputError: If the prompt is empty or leaves no room, or several sequences are asked for.
        UnsupportedModelError: If the model is no causal language model.
    """
    _check_task(model)
    if options.get("num_return_sequences", 1) != 1:
        raise InputError("num_return_sequences must be 1; call again for another completion")
    encoding, read = _read_prompt(model, prompt)
    count = len(encoding)
    limit = model.encoder.limit
    max_new_tokens = counted(max_new_tokens, "max_new_tokens")
    room = max_new_tokens if limit is None else min(max_new_tokens, limit - count)
    if room < 1:
        raise InputError(f"the prompt has {count} tokens and the model reads {limit}: there is no room to write")
    config, rest = _generation_config(model, options, room)
    with torch.inference_mode():
        written = model.write(encoding, config, rest)
    notes = (f"the model reads {limit} tokens, so it could write only {room}",) if room < max_new_tokens else ()
    found = replace(append_tokens(model.tokenizer, encoding, written), notes=(*encoding.notes, *notes))
    return Completed(found, count, len(read.text), read.contents)


def read_completion(model: TaskModel, prompt: Prompt, completion: str | Sequence[int]) -> Completed:
    """Encode a prompt and a given completion.

    Both are tokenised as one text; a token that holds the end of the one and the beginning of the other belongs to
    the completion.

    Args:
        model: A causal language model.
        prompt: A text or chat messages.
        completion: A text that follows the prompt as it is, or token ids.

    Returns:
        Prompt and completion, and how much of it is the prompt.

    Raises:
        InputError: If one of them is empty or both are longer than the model reads.
        UnsupportedModelError: If the model is no causal language model.
    """
    _check_task(model)
    before, read = _read_prompt(model, prompt)
    count, text = len(before), read.text
    if isinstance(completion, str) and isinstance(model, Seq2SeqModel):
        completion = model.target_ids(completion)
    if not isinstance(completion, str):
        encoding = append_tokens(model.tokenizer, before, _token_ids(model, completion))
    else:
        encoding = model.encoder.opening(text + completion, special=isinstance(prompt, str))
        if encoding.offsets is not None:
            within = (i for i, (_, end) in enumerate(encoding.offsets) if end > len(text))
            count = next(within, len(encoding))
        elif encoding.ids[:count] != before.ids:
            raise InputError("the tokenizer merges the end of the prompt with the completion; give it as token ids")
        encoding = replace(encoding, special=_special(model, encoding, read))
    if count == 0:
        raise InputError("nothing stands before the completion; give a prompt")
    if len(encoding) <= count:
        raise InputError("the completion is empty")
    limit = model.encoder.limit
    if limit is not None and len(encoding) > limit:
        raise InputError(f"prompt and completion have {len(encoding)} tokens and the model reads {limit}; shorten them")
    return Completed(encoding, count, len(text), read.contents)


def explain_completion(model: TaskModel, completed: Completed, options: Options) -> GenerationAttribution:
    """Explain every token of a completion, from one forward pass over the sequence.

    score[g, i] = s_i(y_g) for i < P + g and 0 elsewhere: s_i(y) is the method's score of token i for the vocabulary
    entry y, which for the paper's methods (NormXLogit, EMNLP 2025, section 3) is read off token i alone, so that one
    product of the T states with the G wanted rows of the head gives them all. Methods that read the text as a whole
    run once for each token, on what stood before it.

    Args:
        model: A causal language model.
        completed: What `generate` or `read_completion` returned.
        options: What is wanted; without a target each token explains itself.

    Raises:
        TargetError: If a token asked for does not exist.
        UnsupportedModelError: If the model reads ahead, so that later tokens are part of earlier representations.
    """
    sequence, start = completed.encoding, completed.prompt_tokens
    ids = sequence.ids[start:]
    wanted_ids, contrast = _targets(model, options, ids)
    context = sequence.take(range(len(sequence) - 1))
    run = options.method.forward(model, model.batch([context], [0]), options.layers, predict=False)
    with torch.inference_mode():
        prove_causal(model, run)
        layers = layer_numbers(options.layers, model)
        said, chances = _said(model, run, start, ids)
    request = Request(model, run, _target(model, wanted_ids, contrast, run), layers)
    diagnostics: dict[str, tuple[float, ...]] = {}
    if options.method.info.tokenwise:
        scores = _at_once(model, run, options, layers, wanted_ids, contrast)  # (G, L, T - 1)
    elif (each := options.method.score_each(request, torch.arange(start - 1, len(sequence) - 1))) is not None:
        scores = each.values[0].detach()  # (G, L, T - 1)
        diagnostics = {name: tuple(values[0].tolist()) for name, values in each.diagnostics.items()}
    else:
        scores = _one_by_one(model, completed, options, layers, wanted_ids, contrast)  # (G, L, T - 1)
    scores = scores.float().cpu()
    model.check_finite(scores.numpy(), run.batch)
    places = torch.arange(scores.shape[-1])  # (T - 1,)
    seen = places < start + torch.arange(len(ids))[:, None]  # (G, T - 1)
    scores = torch.nn.functional.pad(scores * seen[:, None], (0, 1))  # (G, L, T)
    table: FloatArray = (scores if layers else scores[:, 0]).contiguous().numpy()
    names = [name_of(model, i) for i in wanted_ids]
    other = None if contrast is None else name_of(model, contrast)
    text = sequence.text
    return GenerationAttribution(
        scores=table,
        tokens=sequence.tokens,
        token_ids=tuple(sequence.ids),
        offsets=sequence.offsets,
        special_tokens_mask=sequence.special,
        text=text,
        completion="".join(sequence.tokens[start:]) if text is None else text[completed.prompt_characters :],
        prompt_tokens=start,
        predictions=tuple(said),
        generated=tuple(chances),
        targets=tuple(
            TargetInfo("token", (name,), (index,), other, contrast, start + g - 1)
            for g, (name, index) in enumerate(zip(names, wanted_ids, strict=True))
        ),
        layers=layers or None,
        method=options.method.info.name,
        settings=options.method.settings,
        model=model.name,
        signed=options.method.signed_on(model.task),
        notes=sequence.notes,
        version=__version__,
        diagnostics=diagnostics,
        merge=options.method.word_merge,
        messages=completed.messages,
        named=completed.named,
    )


def _targets(model: TaskModel, options: Options, ids: list[int]) -> tuple[list[int], int | None]:
    """Return the vocabulary entry that each row explains, and the one subtracted from all."""
    width = model.vocabulary_size
    contrast = None if options.contrast is None else index_of(model, options.contrast, width)
    if options.targets is not None:
        if len(options.targets) != len(ids):
            raise TargetError(
                f"{len(options.targets)} targets for {len(ids)} generated tokens; targets= takes one each"
            )
        return [index_of(model, choice, width) for choice in options.targets], contrast
    if options.target is None:
        return ids, contrast
    if not is_choice(options.target):
        raise TargetError("target= is one token for all places; targets= takes one for each generated token")
    return [index_of(model, options.target, width)] * len(ids), contrast


def _target(model: TaskModel, ids: list[int], contrast: int | None, run: ForwardPass) -> Target:
    device = run.hidden.device
    other = None if contrast is None else torch.tensor([contrast], device=device)
    return Target(torch.tensor([ids], device=device), other, run.positions, True, model.task)


def _at_once(
    model: TaskModel, run: ForwardPass, options: Options, layers: tuple[int, ...], ids: list[int], contrast: int | None
) -> Tensor:
    """Score all tokens for every wanted entry, (G, L, T - 1): the method runs once, on the distinct entries."""
    distinct = list(dict.fromkeys(ids))
    target = _target(model, distinct, contrast, run)
    request = Request(model, run, target, layers)
    scores = run_method(options.method, request).values[0].detach().float().cpu()  # (R, L, T - 1)
    check_finite(options.method, request, scores.numpy())
    return scores[[distinct.index(i) for i in ids]]


def _one_by_one(
    model: TaskModel,
    completed: Completed,
    options: Options,
    layers: tuple[int, ...],
    ids: list[int],
    contrast: int | None,
) -> Tensor:
    """Score by a method that reads texts as a whole, each generated token explained on what stood before it."""
    sequence, start = completed.encoding, completed.prompt_tokens
    rows = []
    for g, index in enumerate(ids):
        batch = model.batch([sequence.take(range(start + g))], [g])
        with torch.inference_mode():
            run = model.run(batch, layers=bool(layers))
        target = _target(model, [index], contrast, run)
        request = Request(model, run, target, layers)
        scores = run_method(options.method, request).values[0].detach().float().cpu()  # (1, L, P + g)
        check_finite(options.method, request, scores.numpy())
        rows.append(torch.nn.functional.pad(scores[0], (0, len(sequence) - 1 - start - g)))
    return torch.stack(rows)


def _said(model: TaskModel, run: ForwardPass, start: int, ids: list[int]) -> tuple[list[Prediction], list[Prediction]]:
    """Return the top prediction at each generated token, and the token itself as a prediction."""
    best: list[Prediction] = []
    own: list[Prediction] = []
    states = run.hidden[0, start - 1 :]  # (G, H)
    for part, chosen in zip(states.split(ROWS_AT_ONCE), torch.tensor(ids).split(ROWS_AT_ONCE), strict=True):
        logits = model.parts.head.tokens(part).float()  # (G', V)
        top = logits.max(-1)
        there = logits.gather(1, chosen[:, None].to(logits.device))[:, 0]  # (G',)
        total = logits.sub_(top.values[:, None]).exp_().sum(-1)  # (G',), in place: the array is as wide as it is ours
        for said, values, indices in ((best, top.values, top.indices), (own, there, chosen)):
            chances = (values - top.values).exp() / total  # (G',)
            for index, value, chance in zip(indices.tolist(), values.tolist(), chances.tolist(), strict=True):
                said.append(Prediction(name_of(model, index), index, value, chance))
    return best, own


def prove_causal(model: TaskModel, run: ForwardPass) -> None:
    """Read the first half again by itself, once for each model: a causal trunk gives the same states.

    Raises:
        UnsupportedModelError: If it does not.
    """
    count = min(run.hidden.shape[1] // 2, 64)
    if model.proved_causal or count < 1:
        return
    half = model.batch([run.batch.encodings[0].take(range(count))], [0])
    again = model.run(half, predict=False).hidden[0].float()  # (C, H)
    first = run.hidden[0, :count].float()  # (C, H)
    rounding = 1e-3 if run.hidden.dtype in (torch.float32, torch.float64) else 0.05
    if (again - first).norm() > rounding * first.norm():
        raise UnsupportedModelError(
            f"{type(model.module).__name__} reads ahead: what it writes at a place depends on later tokens, so one "
            "pass cannot explain each token by those before it"
        )
    model.proved_causal = True


def _generation_config(
    model: TaskModel, options: Mapping[str, Any], room: int
) -> tuple[GenerationConfig, dict[str, Any]]:
    """Return the generation settings, greedy unless sampling is asked for, and the options that are no settings."""
    given = dict(options)
    config = copy.deepcopy(given.pop("generation_config", None) or model.module.generation_config)
    config = config or GenerationConfig()
    if not isinstance(config, GenerationConfig):
        raise InputError(f"generation_config must be a GenerationConfig of transformers, not {type(config).__name__}")
    if not given.get("do_sample", "generation_config" in options and config.do_sample):
        given |= {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
    if config.pad_token_id is None:
        config.pad_token_id = model.pad_id
    config.max_length = None
    rest = config.update(**given | {"max_new_tokens": room})
    return config, rest


def _token_ids(model: TaskModel, completion: Sequence[int]) -> list[int]:
    """Return the token ids of a completion as plain numbers.

    Raises:
        InputError: If they are none, or the model does not know one.
    """
    try:
        if isinstance(completion, bytes | Mapping):
            raise TypeError
        ids = [operator.index(number) for number in completion]
    except (TypeError, RuntimeError, ValueError):  # also a tensor of several rows, or of floats
        kind = type(completion).__name__
        raise InputError(f"a completion is a text or a row of token ids, and no such {kind}") from None
    check_ids(ids, model.encoder.vocabulary, "the completion")
    return ids


def _check_task(model: TaskModel) -> None:
    if model.task.name not in ("causal-lm", "seq2seq-lm"):
        raise UnsupportedModelError(
            f"{type(model.module).__name__} is a model for {model.task.name}; only language models write text"
        )


def _read_prompt(model: TaskModel, prompt: Prompt) -> tuple[Encoding, ReadPrompt]:
    read = read_prompt(model.tokenizer, prompt)
    if isinstance(model, Seq2SeqModel):
        return model.begin(read.text), ReadPrompt("", None)
    encoding = model.encoder.opening(read.text, special=isinstance(prompt, str))
    return replace(encoding, special=_special(model, encoding, read)), read


def _special(model: TaskModel, encoding: Encoding, read: ReadPrompt) -> tuple[bool, ...]:
    """Return which tokens are special, whoever wrote them, or were written by a chat template around the messages."""
    known = set(model.tokenizer.all_special_ids)
    special = [s or i in known for s, i in zip(encoding.special, encoding.ids, strict=True)]
    if read.contents is not None and encoding.offsets is not None:
        for token, (start, end) in enumerate(encoding.offsets):
            inside = any(m.start < end and start < m.end for m in read.contents)
            special[token] |= not inside and start < len(read.text)
    return tuple(special)
