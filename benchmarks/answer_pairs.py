"""What is explained of two answers to one prompt: sums of logits less their mean, or log-probabilities.

The truth is a plain loop: the log-probability of the one answer less that of the other, with all tokens of the prompt
and without each. Answers of the same number of tokens and of different numbers are counted apart.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from normxlogit.evaluation.report import markdown_table
from normxlogit.evaluation.runs import OnProgress, with_progress
from normxlogit.explainer import Explainer
from normxlogit.methods import method_named
from normxlogit.pipeline.completions.completed_prompts import read_completion
from normxlogit.pipeline.completions.sources import explain_sources
from normxlogit.pipeline.options import Options
from normxlogit.results.targets import OutputQuantity

Array = npt.NDArray[np.float64]

PAIRS = Path(__file__).with_name("answer_pairs.jsonl")
"""Prompts with two answers each, which were written before any score was seen."""

QUANTITIES: dict[OutputQuantity, str] = {"logit": "sum of logits less their mean", "log-probability": "log-probability"}
"""What is explained of each answer, with its name in the table."""


@dataclass(frozen=True)
class AnswerPair:
    """A prompt with two answers."""

    prompt: str
    answers: tuple[str, str]


@dataclass(frozen=True)
class ExplainedPair:
    """The scores of a prompt's T tokens for the first answer of a pair less those for the second.

    Attributes:
        same_length: Whether both answers have the same number of tokens.
        scores: By quantity, (T,).
        difference: The log-probability of the first answer less that of the second.
        losses: What the difference loses without each token, (T,).
    """

    same_length: bool
    scores: dict[OutputQuantity, Array]
    difference: float
    losses: Array


def load_pairs() -> list[AnswerPair]:
    """Read the prompts with their answers."""
    rows = map(json.loads, PAIRS.read_text(encoding="utf-8").splitlines())
    return [AnswerPair(row["prompt"], tuple(row["answers"])) for row in rows]


def explain_pairs(
    explainer: Explainer, pairs: Sequence[AnswerPair], on_progress: OnProgress | None = None
) -> list[ExplainedPair]:
    """Explain the pairs by both quantities, and leave out each token of their prompts."""
    return [_explained(explainer, pair) for _, pair in with_progress("pairs of answers", pairs, on_progress)]


def _explained(explainer: Explainer, pair: AnswerPair) -> ExplainedPair:
    """Explain one pair."""
    tokenizer = explainer.tokenizer
    prompt_ids = tokenizer(pair.prompt)["input_ids"]
    answer_ids = [tokenizer(answer, add_special_tokens=False)["input_ids"] for answer in pair.answers]
    scores = {}
    for quantity in QUANTITIES:
        first, second = (_prompt_scores(explainer, pair.prompt, ids, quantity) for ids in answer_ids)
        scores[quantity] = first - second
    without = [prompt_ids[:place] + prompt_ids[place + 1 :] for place in range(len(prompt_ids))]
    (difference,) = _differences(explainer, [prompt_ids], answer_ids)
    losses = difference - _differences(explainer, without, answer_ids)
    return ExplainedPair(len(answer_ids[0]) == len(answer_ids[1]), scores, float(difference), losses)


def _prompt_scores(explainer: Explainer, prompt: str, answer_ids: list[int], quantity: OutputQuantity) -> Array:
    """Return the scores of a prompt's tokens for one answer by the default method, (T,)."""
    model = explainer.language_model
    options = Options(method=method_named("frozen-gradient"), explained=quantity)
    completed = read_completion(model, prompt, answer_ids)
    result = explain_sources(model, completed, options, None)
    return result.scores[0, : completed.prompt_tokens].astype(np.float64)


def _differences(explainer: Explainer, prompts: Sequence[list[int]], answer_ids: Sequence[list[int]]) -> Array:
    """Return the log-probability of the first answer less that of the second, after each of N equally long prompts."""
    first, second = (_log_probabilities(explainer, prompts, ids) for ids in answer_ids)
    return first - second


def _log_probabilities(explainer: Explainer, prompts: Sequence[list[int]], answer_ids: list[int]) -> Array:
    """Return the log-probability of an answer after each of N prompts, (N,), by the model itself."""
    module: Any = explainer.model
    rows = torch.tensor([ids + answer_ids for ids in prompts])  # (N, T + G)
    with torch.inference_mode():
        logits = module(input_ids=rows).logits[:, len(prompts[0]) - 1 : -1]  # (N, G, V)
    ids = rows[:, len(prompts[0]) :, None]  # (N, G, 1)
    nats: Array = logits.double().log_softmax(-1).gather(2, ids).sum((1, 2)).numpy()
    return nats


def pairs_table(explained: Sequence[ExplainedPair]) -> str:
    """Return how well each quantity tells what the likelier answer loses without each token, by the answers' lengths.

    Columns: the correlation of scores and losses over the tokens of a prompt, whether the strongest token is that of
    the losses, and whether the scores' sum has the sign of the difference.
    """
    columns = ["answers", "explained", "pairs", "correlation, mean ↑", "median ↑", "strongest token found ↑"]
    columns += ["sign of the sum right ↑"]
    rows = []
    for same_length in (False, True):
        of_length = [pair for pair in explained if pair.same_length is same_length]
        name = "of one length" if same_length else "of different lengths"
        rows += [[name, QUANTITIES[quantity], *_cells(of_length, quantity)] for quantity in QUANTITIES if of_length]
    return markdown_table(columns, rows)


def _cells(pairs: Sequence[ExplainedPair], quantity: OutputQuantity) -> list[str]:
    """Return the cells of one row of the table."""
    correlations, found, signs = [], 0, 0
    for pair in pairs:
        scores = pair.scores[quantity]  # (T,)
        correlations.append(np.corrcoef(scores, pair.losses)[0, 1])
        found += bool(abs(scores).argmax() == abs(pair.losses).argmax())
        signs += bool(scores.sum() * pair.difference > 0)
    mean, median = np.mean(correlations), np.median(correlations)
    return [str(len(pairs)), f"{mean:.2f}", f"{median:.2f}", str(found), str(signs)]
