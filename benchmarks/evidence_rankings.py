"""How methods rank the paragraphs of a question of HotpotQA for its answer, each as one or several rows.

A row has the scores of a method, or what the answer loses without subsets of the paragraphs, from which several methods
are computed: leave-one-out, ARC-JSD, ContextCite and the subsets that LDS is measured on.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from normxlogit.methods.perturbation import random_subsets

from .document_removals import PromptPieces, measured_losses, one_left_out, token_nats
from .hotpot import Prompt, shared_titles, shared_words
from .token_rankings import TokenRanking, token_rankings

Booleans = npt.NDArray[np.bool_]

WINDOW, TITLE = 5, 1
"""Neighbouring tokens of a paragraph whose gains are summed, and its first tokens that are not scored."""

Row = dict[str, Any]
"""Fields of `evidence_real.Measured`."""

SUBSETS = 32
"""Random subsets of the paragraphs: those of LDS, and a half of those that ContextCite is fitted to."""


def _cited(prompt: Prompt) -> list[Row]:
    """Return the rankings of `cite`: by its evidence, and by the sums over the answer's tokens."""
    cited = prompt.cite()
    backward = cited.attribution.diagnostics.get("backward_passes", 0.0)
    rankings = {"default": (cited.evidence, 2 + 2 * backward), "sums": (cited.attribution, 3.0)}
    return [
        {"method": name, "scores": a.scores[:, cited.sources].sum(0).tolist(), "passes": passes}
        for name, (a, passes) in rankings.items()
    ]


def _alone(prompt: Prompt) -> list[Row]:
    """Return what the answer gains from each paragraph alone, also with its words, and what leads to the best one."""
    cited, count = prompt.cite(verify=1), len(prompt.titles)
    gains = {gain.name: gain for gain in cited.alone}
    in_order = [gains[title] for title in prompt.titles]
    of_every_paragraph = {"units": range(count), "passes": 1.0 + count}
    return [
        {"method": "alone", "scores": [gain.of(None) for gain in in_order], **of_every_paragraph},
        {"method": "alone, with words", "scores": [gain.evidence(None) for gain in in_order], **of_every_paragraph},
        {
            "method": "leads",
            "scores": [lead.nats for lead in cited.leads],
            "units": [prompt.titles.index(lead.name) for lead in cited.leads],
            "passes": count - 1.0,
        },
    ]


def _of_paper(prompt: Prompt) -> list[Row]:
    """Return the ranking of the method `normxlogit`."""
    cited = prompt.cite(method="normxlogit")
    scores = cited.attribution.scores[:, cited.sources].sum(0).tolist()
    return [{"method": "normxlogit", "scores": scores, "passes": 1.0}]


def _of_words(prompt: Prompt) -> list[Row]:
    """Return rankings by rare words that paragraphs share with question and answer, and with each other.

    Those of pairs of paragraphs are (D, D), row by row: the words of the row's paragraph in the column's, and the names
    by which either calls the other.
    """
    question, titles = prompt.question, prompt.titles
    names = " ".join(word for word in question.question.split()[1:] if word.strip("\"'(")[:1].isupper())
    paragraphs = [f"{title} {text}" for title, text in question.documents.items()]
    scores = {
        "shared rare words": shared_words(question, f"{question.question} {prompt.answer}"),
        "names of the question": shared_words(question, names),
        "words between": [score for text in paragraphs for score in shared_words(question, text)],
        "titles between": [score for place in range(len(titles)) for score in shared_titles(question, place)],
    }
    units = range(len(titles))
    return [{"method": name, "units": units, "scores": values, "passes": 0.0} for name, values in scores.items()]


def _by_tokens(ranking: TokenRanking, prompt: Prompt) -> list[Row]:
    """Return the ranking by the sums of the scores of a sentence's tokens."""
    scores = ranking.score(prompt.explainer, prompt.completed)  # (T,)
    return [{"method": ranking.name, "scores": prompt.per_sentence(scores), "passes": ranking.passes}]


def _left_out(prompt: Prompt) -> list[Row]:
    """Return what the answer loses without each paragraph."""
    return [_removals(prompt, "one left out", one_left_out(len(prompt.titles)))]


def _random(prompt: Prompt) -> list[Row]:
    """Return random removals: those of LDS, and the first half of those of ContextCite."""
    drawn = drawn_subsets(prompt)
    names = ("random", "context-cite 1")
    rows = _removals(prompt, "", np.concatenate([drawn[name] for name in names]))
    halves = slice(0, SUBSETS), slice(SUBSETS, None)
    return [
        rows | {"method": name, "passes": float(SUBSETS), **{key: rows[key][half] for key in ("present", "scores")}}
        for name, half in zip(names, halves, strict=True)
    ]


def _more_random(prompt: Prompt) -> list[Row]:
    """Return random removals: the second half of those of ContextCite."""
    return [_removals(prompt, "context-cite 2", drawn_subsets(prompt)["context-cite 2"])]


def drawn_subsets(prompt: Prompt) -> dict[str, Booleans]:
    """Return random subsets of a question's paragraphs: of LDS, and two of ContextCite, (32, D) each."""
    names = ("random", "context-cite 1", "context-cite 2")
    subsets = random_subsets(len(prompt.titles), len(names) * SUBSETS, prompt.question.number)
    return dict(zip(names, np.split(subsets, len(names)), strict=True))


def _removals(prompt: Prompt, name: str, present: Booleans) -> Row:
    """Return the log-probability of the answer after each subset of paragraphs, (N, D)."""
    losses = measured_losses(prompt.explainer.model, prompt.pieces, present)
    return {
        "method": name,
        "units": range(len(prompt.titles)),
        "present": ["".join("01"[kept] for kept in row) for row in present.astype(int)],
        "scores": [loss.nats for loss in losses],
        "divergences": [loss.divergence for loss in losses] if present[0].all() else [],
        "passes": float(len(present)),
    }


def _two_hops(prompt: Prompt) -> list[Row]:
    """Return what the model makes of the other paragraphs behind the first one, by short passes."""
    count, first = len(prompt.titles), prompt.first
    beside = np.eye(count, dtype=bool)
    beside[:, first] = True
    alone = np.concatenate([np.zeros((1, count), bool), np.eye(count, dtype=bool)])
    of_answer = [_removals(prompt, "one kept", alone), _removals(prompt, "first and one kept", beside)]
    return [*of_answer, *_likelier(prompt)]


def _likelier(prompt: Prompt) -> list[Row]:
    """Return how much likelier each other paragraph makes the first one behind it: in sum, and its likeliest words."""
    pieces, first = prompt.pieces, prompt.first
    others = [place for place in range(len(prompt.titles)) if place != first]
    paragraph = pieces.documents[first]
    # The first paragraph takes the answer's place behind the others.
    first_behind_others = PromptPieces(
        pieces.start,
        [pieces.documents[place] for place in others],
        end=paragraph,
        answer_tokens=len(paragraph) - TITLE,
    )
    present = np.concatenate([np.zeros((1, len(others)), bool), np.eye(len(others), dtype=bool)])  # none, or one
    nats = token_nats(prompt.explainer.model, first_behind_others, present)  # (D, G)
    gains = np.maximum(nats[1:] - nats[0], 0)  # (D - 1, G)
    width = min(WINDOW, gains.shape[1])
    windows = np.lib.stride_tricks.sliding_window_view(gains, width, axis=1).sum(-1)  # (D - 1, G - width + 1)
    scores = {"first is likelier": gains.sum(1), "words of the first are likelier": windows.max(1)}
    return [
        {"method": name, "units": others, "scores": values.tolist(), "passes": float(len(present))}
        for name, values in scores.items()
    ]


TWO_HOPS = (
    "one kept",
    "first and one kept",
    "first is likelier",
    "words of the first are likelier",
)


class Measure(NamedTuple):
    """What is measured of a prompt at a time."""

    measure: Callable[[Prompt], list[Row]]
    methods: tuple[str, ...]  # of its rows


MEASURES: dict[str, Measure] = {
    "words": Measure(_of_words, ("shared rare words", "names of the question", "words between", "titles between")),
    "cite": Measure(_cited, ("default", "sums")),
    "alone": Measure(_alone, ("alone", "alone, with words", "leads")),
    "left-out": Measure(_left_out, ("one left out",)),
    "random": Measure(_random, ("random", "context-cite 1")),
    "normxlogit": Measure(_of_paper, ("normxlogit",)),
    "two-hops": Measure(_two_hops, TWO_HOPS),
    "more-random": Measure(_more_random, ("context-cite 2",)),
}
"""What is measured of a prompt, by the names that `--methods` takes."""

for _key, _ranking in token_rankings().items():
    MEASURES[_key] = Measure(partial(_by_tokens, _ranking), (_ranking.name,))
