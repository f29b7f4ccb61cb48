"""What an answer loses without some of its sources."""

from collections.abc import Collection, Sequence
from typing import cast

import numpy as np

from ...copies.memory import enough_memory
from ...leave_out.outcomes import Progress, no_progress
from ...leave_out.picking import Verify, picked
from ...leave_out.removable import Removable
from ...leave_out.search import run_searches
from ...pipeline.completions.leave_out import Ablations, Array, answers_without
from ...pipeline.completions.verification import removable_sources
from ...results.attribution import Attribution
from ...results.units.spans import NamedSpan
from ...results.units.units import UnitScore
from ...results.verification import Verification
from .cached import CachedAblations
from .reading import AnswerReading

MARGIN = 2.0
"""Upper bound of a source's loss in nats, as a multiple of the loss that its score predicts."""

VERIFIED_AT_ONCE = 2
"""Sources that are left out before it is decided whether others could come first."""

MOST_OF_AUTO = 8
"""Most sources that are left out one at a time where the caller does not say which: each costs a prompt at most."""


@enough_memory("measure what the answer loses without a source")
def tested(
    reading: AnswerReading, evidence: Attribution, documents: Sequence[str], verify: Verify, progress: Progress
) -> Verification:
    """Measure what each sentence loses without some sources, one at a time, and without all.

    Args:
        reading: The answer, without its reasoning.
        evidence: The scores of the sources for each sentence.
        documents: The document or message of each source.
        verify: Which sources are left out, see `Explainer.cite`.
        progress: Shows how many texts are read.
    """
    whole_answer = evidence.whole()
    units, sources = removable_sources(whole_answer, reading.completed, reading.completed.named_sources)
    ablations = _ablations(reading, list(sources.values()), progress)
    if verify == "auto":
        tested_units = [units.parts[source] for source in first_sources(ablations, reading.weights, evidence)]
    else:  # the messages of a conversation, or documents, are what sources are called by
        named = list(dict.fromkeys(documents)) if verify == "message" else verify
        units = picked(whole_answer, units, named)
        tested_units = units.parts[: units.singles]
    removed = {sources.get(part.tokens) for part in tested_units} - {None}  # None of a document, of several sources
    tested_units += [part for part in units.parts if sources.get(part.tokens) in removed]  # of the same words
    removable = _one_by_one(units, tested_units)
    # What comes back is the evidence with what was measured.
    (result,) = run_searches([evidence], [removable], answers_without(ablations, sources, reading.weights))
    return cast(Verification, result.verified)  # for the type alone: a source can always be removed here


@enough_memory("measure what the answer loses without the user's request")
def loss_without(reading: AnswerReading, evidence: Attribution, places: Collection[int]) -> float:
    """Return what the parts of an answer lose without some sources together, in nats.

    Args:
        reading: The answer.
        evidence: The scores of the sources.
        places: The sources, by their places among all units.
    """
    _, sources = removable_sources(evidence.whole(), reading.completed, reading.completed.named_sources)
    removed = [sources[(place,)] for place in places if (place,) in sources]  # a source is known by its only unit
    ablations = _ablations(reading, list(sources.values()), no_progress)
    present = np.array([[True] * len(sources), [source not in removed for source in sources.values()]])  # (2, S)
    # Summed over the sentences: which tokens are of any of them.
    with_all, without = ablations(present) @ reading.weights.sum(0)  # (2,)
    return float(with_all - without)


def _ablations(reading: AnswerReading, sources: Sequence[NamedSpan], progress: Progress) -> CachedAblations:
    """Return what measures an answer without some of its sources; with all and without any is known."""
    known = {(True,) * len(sources): reading.nats, (False,) * len(sources): reading.nats_without}
    return CachedAblations(reading.text, sources, progress, known)


def _one_by_one(units: Removable, tested_units: Sequence[UnitScore]) -> Removable:
    """Return removable parts of which some are removed one at a time, and all together."""
    singles = {part.tokens: part for part in tested_units}  # each once, in the order in which they are tested
    others = [part for part in units.parts if part.tokens not in singles]
    units = units._replace(parts=[*singles.values(), *others], singles=len(singles), target="the answer")
    return units._replace(all_together=units.one_by_one)  # not those of `Explainer.without`, which are together already


def first_sources(ablations: Ablations, weights: Array, evidence: Attribution) -> list[int]:
    """Return the sources to be left out: those that may come first of the answer, and the first one of each sentence.

    Args:
        ablations: Measures the answer without sources.
        weights: Which tokens are of which sentence, (K, G).
        evidence: The scores of the sources for each sentence.
    """
    sources = evidence.units.sources
    whole_scores = evidence.whole().scores[sources].astype(np.float64)  # (S,)
    of_answer = verified(ablations, weights.sum(0), whole_scores, MOST_OF_AUTO)
    of_sentences = evidence.scores[:, sources].argmax(1).tolist()
    return list(dict.fromkeys([*of_answer, *of_sentences]))[:MOST_OF_AUTO]


def verified(ablations: Ablations, weights: Array, scores: Array, most: int | None = None) -> dict[int, float]:
    """Measure an answer's loss without its first sources, in nats by place, until no other source can rank first.

    The sources are left out one at a time in the order of their scores. A source that was not measured yet is taken to
    be worth at most `MARGIN` times its score in nats, by the largest number of nats for a unit of score that was
    measured, none if all were negative; where that is less than the most that was measured, no other is.

    Args:
        ablations: Measures the answer without sources.
        weights: Which tokens of the answer count, (G,).
        scores: The scores of the sources, (S,).
        most: Most sources that are left out; None for all.
    """
    order, lost = np.argsort(-scores, kind="stable").tolist()[:most], dict[int, float]()
    with_all = (ablations(np.ones((1, len(scores)), bool)) @ weights).item()
    one_absent = ~np.eye(len(scores), dtype=bool)  # (S, S)
    while following := order[len(lost) :]:
        most_left = max(float(scores[following[0]]), 0.0)  # `following` is in the order of the scores
        rates = [max(loss, 0.0) / scores[source] for source, loss in lost.items() if scores[source] > 0]
        if lost and MARGIN * max(rates, default=0.0) * most_left <= max(lost.values()):
            break
        part = following[:VERIFIED_AT_ONCE]
        losses = with_all - ablations(one_absent[part]) @ weights  # (at most VERIFIED_AT_ONCE,)
        lost |= zip(part, losses.tolist(), strict=True)
    return lost
