"""Which sources a sentence of an answer rests on most, as it was measured."""

import numpy as np

from ...results.storage.schema import FloatArray, Indices
from ...results.verification import LEAST_LOSS
from ..result import Citations
from ..support import Effect

LEAST = 0.2
"""A further source is cited from this part of the strongest one's loss on, or from this share on."""

MOST = 3
"""Most sources that a sentence cites by its shares and losses."""


def measured_sources(cited: Citations) -> list[Indices]:
    """Return the sources that each sentence of an answer rests on most: by its losses and shares, the strongest first.

    Where a reasoning stands before the answer, the shares follow it, but the losses are of an answer without it: so
    only the shares count.
    """
    reasons = len(cited.concluding) < len(cited.attribution.targets)
    losses = np.full_like(cited.source_losses, np.nan) if reasons else cited.source_losses  # (K, S)
    shares = cited.sentence_shares  # (K, S)
    return [cited_sources(shares[index], losses[index]) for index in range(len(losses))]


def with_best_alone(cited: Citations, index: int, sources: Indices) -> Indices:
    """Return a sentence's sources behind the first one of the document after which alone it is likeliest.

    Args:
        cited: The answer.
        index: The sentence, by its place in the answer.
        sources: The sources that it rests on by shares and losses.
    """
    best = best_alone(cited, index)
    if best is None or best.nats < LEAST_LOSS:  # no document makes the sentence likelier by itself
        return sources
    ranked = cited.top(len(cited.sources), sentence=index)  # by its shares: of a sentence, losses do not rank
    first = next(source.source for source in ranked if source.document == best.name)
    return tuple(dict.fromkeys([first, *sources]))[:MOST]


def best_alone(cited: Citations, index: int) -> Effect | None:
    """Return the document after which alone a sentence is likeliest, if any was read alone.

    Args:
        cited: The answer.
        index: The sentence, by its place in the answer.
    """
    best = cited.top_documents(1, sentence=index)[0]
    return None if best.nats is None else Effect(best.name, best.nats)


def cited_sources(shares: FloatArray, losses: FloatArray) -> Indices:
    """Return the sources that a sentence rests on most: removed ones by their losses, the others by their shares.

    Args:
        shares: The sources' shares of its scores, (S,).
        losses: What it loses without each, in nats, (S,); NaN if it was not removed, or if losses do not count.
    """
    is_measured = ~np.isnan(losses)  # (S,)
    # Of a source that was removed its loss says more; and where some were, a small share of another says nothing.
    by_share = _by_share(np.where(is_measured, 0, shares), first=not is_measured.any())
    return tuple(dict.fromkeys([*_by_loss(losses), *by_share]))[:MOST]


def _by_loss(losses: FloatArray) -> list[int]:
    """Return the sources without which a sentence loses enough, (S,), the largest loss first."""
    losing = [source for source in _ranked(losses) if losses[source] > LEAST_LOSS]
    return [source for source in losing if losses[source] > LEAST * losses[losing[0]]]  # the first loses most


def _by_share(shares: FloatArray, *, first: bool) -> list[int]:
    """Return the sources with large shares, (S,), the largest first; of small ones the `first`, if that is wanted."""
    positive = [source for source in _ranked(shares) if shares[source] > 0]
    # `first` is 1 or 0 of the small ones.
    return [source for source in positive if shares[source] >= LEAST] or positive[:first]


def _ranked(values: FloatArray) -> list[int]:
    """Return the places of values, (S,), the largest first; NaN last."""
    return np.argsort(-values, kind="stable").tolist()
