"""Wrong reasons: what turns answers by itself, whatever else the texts say, measured with the model."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle, islice
from typing import NamedTuple

from ...errors import DataError, InputError
from ...explainer import Explainer
from ...inputs.encoding import Encoding
from ...leave_out.outcomes import Outcomes, in_batches
from ...long_runs.model_identity import identity_of
from ...model.task_model import TaskModel
from .phrases import Parts, Phrase, joined, parts_of_rows, text_of
from .run_tables import RunTables
from .units import Reason, Z, share_of

SAMPLE = 400
"""Most texts of each prediction, drawn at random, into which something is put."""

PUT_INTO = 30
"""Texts into which each candidate is put: fewer would leave the interval too wide to call anything wrong."""

JOINED, LENGTHENED = 4, 60
"""How many texts of one answer are read as one text, and how often: to see what the length of a text decides."""

UNSURE = 4
"""A text is lengthened with those of one in so many texts that have its answer by the lowest probability.

More of what is surely said would outweigh the length.
"""

LONGER = "(more words than most)"
"""The name of a length as a reason; with two labels the other one is for short texts."""

Answered = tuple[int, str, float]
"""A row, its prediction and the probability of this."""

Changes = list[tuple[Parts, Parts]]
"""Texts before and after a change."""


class Candidate(NamedTuple):
    """Words, or a length, that may decide for a label.

    Attributes:
        phrase: The words; none of a length.
        texts: How many texts have it.
        answered: The share of them that are predicted to have the label.
        score_share: Their mean share of the scores of these; None of a length.
        rows: Some of these, drawn at random; none of a length.
    """

    label: str
    phrase: Phrase
    texts: int
    answered: float
    score_share: float | None
    rows: Sequence[int]


def check_model(run: RunTables, explainer: Explainer) -> TaskModel:
    """Return the model of a run, to ask it for other texts."""
    model, task = explainer.task_model, explainer.task_model.task
    is_of_texts = run.unit == "words" and task.position.at == "text" and task.reads != "texts"
    if not is_of_texts or task.outputs.outcomes != "exclusive" or not task.outputs.labels:
        raise InputError(
            "verify= tests the words of texts that get one of several labels: attribute them so, "
            "without words=False or --no-words"
        )
    if not run.manifest.identity.is_same(identity_of(model)):
        raise DataError(f"{run.folder.location} was made by {run.manifest.model}, or by another state of it")
    if "text" not in run.kinds:
        raise DataError(f"{run.folder.location} holds no texts to change: it was made with --no-keep-text")
    return model


def find_reasons(run: RunTables, model: TaskModel, layer: int, top: int, least: int, count: int) -> list[Reason]:
    """Return what turns most answers when it is put into texts with another answer, the surest first.

    Candidates are the words, and pairs of neighbouring words, that the scores or the counts connect most surely with a
    prediction, and the lengths of texts.

    Args:
        layer: The index of the layer whose scores count.
        top: Most reasons, and most candidates for each label by scores, and by counts.
        least: Least texts of a candidate.
        count: Most texts that each is taken out of; it is put into `PUT_INTO`, whatever the count.
    """
    limit = model.encoder.limit
    whole = "len(words) > 0" + ("" if limit is None else f" AND len(units) <= {limit}")
    sampled = run.ask(
        f"""
        SELECT row, prediction, probability FROM shards WHERE {whole}
        QUALIFY row_number() OVER (PARTITION BY prediction ORDER BY hash(row), row) <= {SAMPLE}
        ORDER BY hash(row), row
        """  # noqa: S608  # numbers
    )
    usual = dict(run.ask("SELECT prediction, count(*) / sum(count(*)) OVER () FROM shards GROUP BY prediction"))
    candidates = [*_phrases(run, whole, layer, top, least, count), *_lengths(run)]
    rows = {row for row, *_ in sampled}.union(*(candidate.rows for candidate in candidates))
    parts = parts_of_rows(run, rows)
    lengthened = _lengthened(sampled, parts)
    put = [_put(one, sampled, parts) if one.phrase.words else lengthened for one in candidates]
    taken = [_taken(candidate, parts) for candidate in candidates]
    changed_texts = (text for changes in (*put, *taken) for change in changes for text in change)
    answers = _answers(model, changed_texts, split="word_spans" in run.kinds)
    reasons = []
    for one, with_it, without_it in zip(candidates, put, taken, strict=True):
        turned = share_of([answers[after] == one.label for before, after in with_it if answers[before] != one.label])
        changed = share_of([answers[b] != one.label for a, b in without_it if answers[a] == one.label])
        if turned is not None:
            shares = one.answered, usual[one.label], one.score_share, turned, changed
            reasons.append(Reason(one.label, one.phrase.name, one.texts, *shares, one.phrase.words))
    return _distinct(sorted(reasons, key=lambda reason: (-reason.turned.low, -reason.texts)))[:top]


def _phrases(run: RunTables, whole: str, layer: int, top: int, least: int, count: int) -> list[Candidate]:
    """Return the words and pairs of words that are most surely connected with a prediction, punctuation too."""
    run.ask(
        f"""
        CREATE TEMP TABLE phrases AS
        WITH scored AS (
            SELECT row, prediction, words,
                   word_scores[{layer} * len(words) + 1 : {layer + 1} * len(words)] AS scores
            FROM shards WHERE {whole} AND target[1] = prediction
        ), flat AS (
            SELECT row, prediction, unnest(words) AS word, unnest(list_append(words[2:], NULL)) AS next,
                   unnest(scores) AS score, unnest(list_append(scores[2:], 0)) AS next_score,
                   list_sum(list_transform(scores, lambda x: abs(x))) AS total
            FROM scored
        ), each AS (
            SELECT row, prediction, 1 AS size, lower(trim(word)) AS name, score / total AS share FROM flat
            UNION ALL
            SELECT row, prediction, 2, lower(trim(word)) || ' ' || lower(trim(next)), (score + next_score) / total
            FROM flat WHERE next IS NOT NULL
        )
        SELECT row, prediction, size, name, avg(share) AS share FROM each GROUP BY ALL
        """  # noqa: S608  # numbers
    )
    rows = run.ask(
        f"""
        WITH labels AS (SELECT prediction, count(*) / sum(count(*)) OVER () AS usual FROM shards GROUP BY prediction),
        texts AS (SELECT size, name, count(*) AS n FROM phrases GROUP BY ALL HAVING n >= ?),
        counted AS (
            SELECT prediction, size, name, n, count(*) / n AS answered, avg(share) AS mean,
                   mean - {Z} * coalesce(stddev_samp(share), 1) / sqrt(count(*)) AS surest,
                   (answered - usual) / sqrt(usual * (1 - usual) / n) AS deviation,
                   list_slice(list(row ORDER BY hash(row), row), 1, ?) AS rows
            FROM phrases JOIN texts USING (size, name) JOIN labels USING (prediction)
            WHERE usual < 1 GROUP BY prediction, size, name, n, usual
        )
        SELECT prediction, size, name, n, answered, mean, rows FROM counted WHERE deviation > 0
        QUALIFY row_number() OVER (PARTITION BY prediction, size ORDER BY surest DESC, name) <= ?
             OR row_number() OVER (PARTITION BY prediction, size ORDER BY deviation DESC, name) <= ?
        ORDER BY prediction, size, name
        """,  # noqa: S608  # numbers
        least,
        count,
        top,
        top,
    )
    return [
        Candidate(label, Phrase(name, size), found, answered, share, drawn)
        for label, size, name, found, answered, share, drawn in rows
    ]


def _answers(model: TaskModel, texts: Iterable[Parts], *, split: bool) -> Mapping[Parts, str]:
    """Return the label that a model predicts of each text; `split` says that the caller has split the words."""
    distinct = list(dict.fromkeys(texts))
    if not distinct:
        return {}
    encodings = model.encoder([text_of(parts, split=split) for parts in distinct], long_text="truncate")

    def measure(batch: list[Encoding], _: list[Parts]) -> Iterable[int]:
        labels: list[int] = model.run(model.batch(batch, list(range(len(batch))))).logits.argmax(-1).tolist()  # (B,)
        return labels

    by_parts = dict(zip(distinct, encodings, strict=True))
    answers: Outcomes[Parts, int] = Outcomes(in_batches(model, by_parts.__getitem__, measure))
    return {text: model.task.outputs.labels[label] for text, label in zip(distinct, answers(distinct), strict=True)}


def _put(candidate: Candidate, sampled: Sequence[Answered], parts: Mapping[int, Parts]) -> Changes:
    """Return texts with another answer, without and with the words."""
    phrase = candidate.phrase
    changed: Changes = []
    for row, prediction, _ in sampled:
        if prediction == candidate.label or phrase.holds(parts[row]) or len(changed) == PUT_INTO:
            continue
        example = parts[candidate.rows[len(changed) % len(candidate.rows)]]
        after = phrase.put(parts[row], example)
        if after is not None and phrase.holds(after):
            changed.append((parts[row], after))
    return changed


def _taken(candidate: Candidate, parts: Mapping[int, Parts]) -> Changes:
    """Return texts with the answer, with and without the words."""
    pairs = [(parts[row], candidate.phrase.without(parts[row])) for row in candidate.rows]
    return [(before, after) for before, after in pairs if after is not None]


def _lengths(run: RunTables) -> list[Candidate]:
    """Return for each label the length of the texts with more words than half of them have."""
    longer = "len(words) > (SELECT median(len(words)) FROM shards)"
    counts = run.ask(f"SELECT prediction, count(*) FILTER ({longer}) FROM shards GROUP BY ALL ORDER BY 1")  # noqa: S608
    texts = sum(count for _, count in counts)
    return [Candidate(label, Phrase(LONGER, 0), texts, count / texts, None, ()) for label, count in counts if texts]


def _lengthened(sampled: Sequence[Answered], parts: Mapping[int, Parts]) -> Changes:
    """Return texts before and after unsure ones of their prediction are joined to them: that should not change it."""
    changed: Changes = []
    for label in dict.fromkeys(prediction for _, prediction, _ in sampled):
        rows = [(probability, row) for row, prediction, probability in sampled if prediction == label]
        unsure = cycle(parts[row] for _, row in sorted(rows)[: max(len(rows) // UNSURE, 1)])
        for _, row in rows[:LENGTHENED]:
            changed.append((parts[row], joined([parts[row], *islice(unsure, JOINED - 1)])))
    return changed


def _distinct(reasons: Sequence[Reason]) -> list[Reason]:
    """Return reasons without groups of words of which one word turns as many answers by itself."""
    alone = {(reason.label, reason.name): reason.turned.value for reason in reasons if reason.words == 1}
    return [
        reason
        for reason in reasons
        if reason.words < 2
        or reason.turned.low > max(alone.get((reason.label, word), 0.0) for word in reason.name.split(" "))
    ]
