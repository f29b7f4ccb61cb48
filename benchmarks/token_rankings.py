"""Scores of a prompt's tokens for its answer by plain methods and by another package, for the tables of evidence."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from normxlogit import Explainer
from normxlogit.errors import DataError
from normxlogit.pipeline.completions.completed import Completed

from .hotpot import Array


class TokenRanking(NamedTuple):
    """A method that scores tokens.

    Attributes:
        name: Its name in the rows of a benchmark.
        score: Returns the score of each token of a prompt with its answer, (T,).
        passes: Its price in forward passes, a backward pass counted as two.
    """

    name: str
    score: Callable[[Explainer, Completed], Array]
    passes: float


def token_rankings() -> dict[str, TokenRanking]:
    """Return the methods by the names that `--methods` takes; FlashTrace where its package is installed."""
    rankings = {
        "gradient": TokenRanking("gradient x input", gradient_times_input, 3.0),
        "rollout": TokenRanking("attention rollout", attention_rollout, 1.0),
        "flashtrace": TokenRanking("FlashTrace", flashtrace_scores, 1.0),
    }
    return {name: ranking for name, ranking in rankings.items() if name != "flashtrace" or find_spec("flashtrace")}


def gradient_times_input(explainer: Explainer, completed: Completed) -> Array:
    """Return plain gradient times input embedding of each token for an answer's log-probability, (T,).

    Args:
        explainer: An explainer of a causal language model.
        completed: A prompt with its answer.
    """
    model: Any = explainer.model
    ids = torch.tensor([completed.encoding.ids], device=model.device)  # (1, T)
    count = len(completed.generated_ids)
    embeddings = model.get_input_embeddings()(ids).detach().requires_grad_()  # (1, T, H)
    with torch.enable_grad():
        logits = model(inputs_embeds=embeddings, use_cache=False, logits_to_keep=count + 1).logits[0, :-1]  # (G, V)
        nats = logits.float().log_softmax(-1).gather(1, ids[0, -count:, None]).sum()
        (gradient,) = torch.autograd.grad(nats, embeddings)
    scores: Array = (gradient * embeddings).sum(-1)[0].detach().double().cpu().numpy()
    return scores


def attention_rollout(explainer: Explainer, completed: Completed) -> Array:
    """Return the attention rollout (Abnar and Zuidema, 2020) from the tokens that predict an answer, (T,).

    Args:
        explainer: An explainer of a causal language model.
        completed: A prompt with its answer.
    """
    model: Any = explainer.model
    ids = torch.tensor([completed.encoding.ids[:-1]], device=model.device)
    with eager_attention(model), torch.inference_mode():
        attentions = model(ids, output_attentions=True, use_cache=False, logits_to_keep=1).attentions
        count = len(completed.generated_ids)
        flow = rollout([heads[0] for heads in attentions], range(-count, 0))
    return np.append(flow, 0.0)  # the last token predicts none


@contextmanager
def eager_attention(model: Any) -> Iterator[None]:
    """Let a model compute attention probabilities, which fused kernels do not return."""
    attention = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(attention)


def rollout(attentions: Sequence[Tensor], places: Sequence[int]) -> Array:
    """Return the attention rollout of some tokens, summed over them, (T,).

    Args:
        attentions: The attention probabilities of each layer, (heads, T, T).
        places: The tokens.
    """
    flow = torch.zeros(attentions[0].shape[-1])  # (T,)
    flow[list(places)] = 1.0
    for heads in reversed(attentions):
        flow = (flow + flow @ heads.float().mean(0)) / 2
    rolled: Array = flow.double().numpy()
    return rolled


def flashtrace_scores(explainer: Explainer, completed: Completed) -> Array:
    """Return the scores of the package FlashTrace, with one hop (Pan et al., 2026, arXiv 2602.01914), (T,).

    Args:
        explainer: An explainer of a causal language model.
        completed: A prompt with its answer.

    Raises:
        DataError: If the package cuts the prompt into other tokens.
    """
    from flashtrace import FlashTrace  # type: ignore[import-not-found]

    model: Any = explainer.model
    text, end = completed.encoding.text or "", completed.prompt_characters
    scores = np.zeros(len(completed.encoding))
    with eager_attention(model):
        traced = FlashTrace(model, explainer.tokenizer).trace(prompt=text[:end], target=text[end:])
    if len(traced.scores) != completed.prompt_tokens:
        raise DataError(f"flashtrace reads {len(traced.scores)} tokens, not {completed.prompt_tokens}")
    scores[: len(traced.scores)] = traced.scores
    return scores
