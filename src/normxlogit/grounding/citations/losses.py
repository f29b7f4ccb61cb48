"""What an answer loses without sources: some that are named, or the first ones until no other can come first."""

from typing import cast

import numpy as np

from ...copies.memory import enough_memory
from ...leave_out.search import run_searches
from ...leave_out.units import Verify, picked
from ...model.task_model import TaskModel
from ...pipeline.completions.completed_prompts import Completed
from ...pipeline.completions.leave_out import Ablations, Array, answers_without, removable_sources
from ...pipeline.completions.sources import part_weights
from ...results.units.spans import answer_parts
from ...results.verification import Verification
from ..result import Citations
from .reading import SentencesAfterPrompt

MARGIN = 2.0
"""Upper bound of a source's loss in nats, as a multiple of the loss that its score predicts."""

VERIFIED_AT_ONCE = 2
"""Sources that are removed in one batch of a verification."""


@enough_memory("measure what the answer loses without a source")
def tested(
    model: TaskModel, completed: Completed, cited: Citations, verify: Verify, read: SentencesAfterPrompt
) -> Verification:
    """Measure the loss of each sentence without some sources, and without all.

    Args:
        completed: The prompt and the answer.
        cited: The answer with the scores of its sources.
        verify: What is left out, as in `Explainer.cite`.
        read: Its sentences, read with all sources and with none.
    """
    evidence, parts = cited.evidence, answer_parts(completed.sequenced(), "sentence")
    weights, whole = part_weights(completed, parts), evidence.whole()  # (K, G)
    units, sources = removable_sources(whole, completed, completed.named_sources)
    known = {(True,) * len(sources): read.answer_nats, (False,) * len(sources): read.answer_nats_without}
    ablations = Ablations(model, completed, list(sources.values()), known=known)
    if verify == "auto":
        first = list(verified(ablations, weights.sum(0), np.array([part.score for part in units.parts])))
        first += evidence.scores[:, cited.sources].argmax(1).tolist()  # all that a sentence rests on may be one source
        chosen = [units.parts[i] for i in first]
    else:  # the messages of a conversation, or documents, are what sources are called by
        units = picked(whole, units, list(dict.fromkeys(cited.documents)) if verify == "message" else verify)
        chosen = units.parts[: units.singles]
    removed = {sources.get(part.tokens) for part in chosen} - {None}
    chosen += [part for part in units.parts if sources.get(part.tokens) in removed]  # of the same words
    singles = {part.tokens: part for part in chosen}
    others = [part for part in units.parts if part.tokens not in singles]
    units = units._replace(parts=[*singles.values(), *others], singles=len(singles), target="the answer")
    units = units._replace(all_together=units.one_by_one)
    (result,) = run_searches([evidence], [units], answers_without(ablations, sources, weights))
    return cast(Verification, result.verified)


def leave_one_out(ablations: Ablations, weights: Array) -> Array:
    """Return the loss of each part of the answer without each source, in nats: (K, S).

    d_j = log p(y | all sources) - log p(y | all but source j); a pass for each source and one for all. The weights say
    which tokens are of which part, (K, G).
    """
    count = len(ablations.sources)
    values = ablations(np.vstack([np.ones((1, count), bool), ~np.eye(count, dtype=bool)])) @ weights.T  # (S + 1, K)
    losses: Array = (values[:1] - values[1:]).T
    return losses


def verified(ablations: Ablations, weights: Array, scores: Array) -> dict[int, float]:
    """Measure an answer's loss without its first sources, in nats by place, until no other source can rank first.

    The sources are left out one at a time in the order of their scores, two in a batch. A source that was not measured
    yet is taken to be worth at most `MARGIN` times its score in nats, by the largest number of nats for a unit of score
    that was measured, none if all were negative; where that is less than the most that was measured, no other is.

    Args:
        ablations: Measures the answer.
        weights: Which tokens of the answer count, (G,).
        scores: The scores that rank the sources, (S,).
    """
    order, lost = np.argsort(-scores, kind="stable").tolist(), dict[int, float]()
    present, without = np.ones((1, len(order)), bool), ~np.eye(len(order), dtype=bool)  # (1, S), (S, S)
    while len(lost) < len(order):
        part = order[len(lost) : len(lost) + VERIFIED_AT_ONCE]
        whole, *nats = (ablations(np.vstack([present, without[part]])) @ weights).tolist()
        lost |= {source: whole - left for source, left in zip(part, nats, strict=True)}
        rates = [max(nats, 0.0) / scores[source] for source, nats in lost.items() if scores[source] > 0]
        following = float(scores[order[len(lost)]]) if len(lost) < len(order) else 0.0
        if MARGIN * max(rates, default=0.0) * max(following, 0.0) <= max(lost.values()):
            break
    return lost
