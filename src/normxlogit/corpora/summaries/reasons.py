"""Words that decide by themselves: what turns answers, whatever else the texts say, measured with the model."""

from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from typing import NamedTuple

from ...long_runs.intervals import NORMAL
from ...model.task_model import TaskModel
from .changed_texts import (
    Change,
    Parts,
    PartsOfRows,
    Phrase,
    joined,
    logits_of,
    parts_of_rows,
    texts_without,
    whole_texts,
)
from .run_tables import LISTED_WORD, RunTables
from .units import Reason, Share, share_of

SAMPLE = 400
"""Most texts of each prediction, drawn at random, into which something is put."""

PUT_INTO = 30
"""Texts into which each candidate is put: fewer would leave the interval too wide to say that anything decides."""

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

Changes = list[Change]
"""Texts before and after a change."""


class Candidate(NamedTuple):
    """Words, or a length, that may decide for a label."""

    label: str
    phrase: Phrase  # the words; none of a length
    texts: int  # how many texts have it
    answered: float  # the share of them that are predicted to have the label
    score_share: float | None  # their mean share of the scores of these; None of a length
    rows: Sequence[int]  # some of these, drawn at random; none of a length


def find_reasons(run: RunTables, model: TaskModel, layer: int, top: int, min_texts: int, count: int) -> list[Reason]:
    """Return what turns most answers when it is put into texts with another answer, the surest first.

    Candidates are the words, and pairs of neighbouring words, that the scores or the counts connect most surely with a
    prediction, and the lengths of texts. Each is taken out of at most `count` texts, and put into `PUT_INTO`.
    """
    where = whole_texts(run, model)
    candidates = [*_phrases(run, where, layer, top, min_texts, count), *_lengths(run)]
    sampled = _sampled(run, where)
    rows = {row for row, *_ in sampled}.union(*(candidate.rows for candidate in candidates))
    parts = parts_of_rows(run, rows)
    lengthened = _lengthened(sampled, parts)
    with_it = [_with_phrase(each, sampled, parts) if each.phrase.words else lengthened for each in candidates]
    without_it = [texts_without(each.phrase, each.rows, parts) for each in candidates]
    answers = _answers(run, model, [*with_it, *without_it])
    usual = dict(run.ask("SELECT prediction, count(*) / sum(count(*)) OVER () FROM distinct_texts GROUP BY prediction"))
    reasons = []
    for candidate, added, removed in zip(candidates, with_it, without_it, strict=True):
        turned = _share_changed(candidate.label, added, answers, to_label=True)
        if turned is not None:
            changed = _share_changed(candidate.label, removed, answers, to_label=False)
            reasons.append(_reason(candidate, usual[candidate.label], turned, changed))
    reasons.sort(key=lambda reason: (-reason.turned.low, -reason.texts))
    return _distinct(reasons)[:top]


def _reason(candidate: Candidate, usual: float, turned: Share, changed: Share | None) -> Reason:
    """Return a candidate with what was measured of it."""
    return Reason(
        label=candidate.label,
        name=candidate.phrase.name,
        texts=candidate.texts,
        answered=candidate.answered,
        usual=usual,
        score_share=candidate.score_share,
        turned=turned,
        changed=changed,
        words=candidate.phrase.words,
    )


def _sampled(run: RunTables, where: str) -> list[Answered]:
    """Return some texts of each prediction, drawn at random."""
    return run.ask(
        f"""
        SELECT row, prediction, probability FROM distinct_texts WHERE {where}
        QUALIFY row_number() OVER (PARTITION BY prediction ORDER BY hash(row), row) <= {SAMPLE}
        ORDER BY hash(row), row
        """  # noqa: S608  # numbers
    )


def _share_changed(label: str, changes: Changes, answers: Mapping[Parts, str], *, to_label: bool) -> Share | None:
    """Return the share of texts that a change gives a label, or takes it from; None without any.

    Args:
        label: The label.
        changes: Texts before and after a change.
        answers: The label that the model predicts of each text.
        to_label: Whether texts with another answer count, which may get the label; otherwise those that may lose it.
    """
    counted = [after for before, after in changes if (answers[before] == label) is not to_label]
    return share_of([(answers[after] == label) is to_label for after in counted])


def _phrases(run: RunTables, where: str, layer: int, top: int, min_texts: int, count: int) -> list[Candidate]:
    """Return the words and pairs of words that are most surely connected with a prediction, punctuation too."""
    word = LISTED_WORD.format(table="of_word", unit="flat.word")
    next_word = LISTED_WORD.format(table="of_next", unit="flat.next")
    run.ask(
        f"""
        CREATE TEMP TABLE phrases AS
        WITH scored AS (
            SELECT row, prediction, words,
                   word_scores[{layer} * len(words) + 1 : {layer + 1} * len(words)] AS scores
            FROM distinct_texts WHERE {where} AND target[1] = prediction
        ), flat AS (
            SELECT row, prediction, unnest(words) AS word, unnest(list_append(words[2:], NULL)) AS next,
                   unnest(scores) AS score, unnest(list_append(scores[2:], 0)) AS next_score,
                   list_sum(list_transform(scores, lambda x: abs(x))) AS total
            FROM scored
        ), named AS (
            SELECT flat.*, {word} AS name, {next_word} AS next_name
            FROM flat LEFT JOIN spellings AS of_word ON flat.word = of_word.spelling
            LEFT JOIN spellings AS of_next ON flat.next = of_next.spelling
        ), each AS (
            SELECT row, prediction, 1 AS size, name, score / total AS share FROM named
            UNION ALL
            SELECT row, prediction, 2, name || ' ' || next_name, (score + next_score) / total
            FROM named WHERE next IS NOT NULL
        )
        SELECT row, prediction, size, name, avg(share) AS share FROM each GROUP BY ALL
        """  # noqa: S608  # numbers
    )
    rows = run.ask(
        f"""
        WITH labels AS (
            SELECT prediction, count(*) / sum(count(*)) OVER () AS usual FROM distinct_texts GROUP BY prediction
        ),
        texts AS (SELECT size, name, count(*) AS n FROM phrases GROUP BY ALL HAVING n >= ?),
        counted AS (
            SELECT prediction, size, name, n, count(*) / n AS answered, avg(share) AS mean,
                   mean - {NORMAL} * coalesce(stddev_samp(share), 1) / sqrt(count(*)) AS surest,
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
        min_texts,
        count,
        top,
        top,
    )
    return [
        Candidate(label, Phrase(name, size), texts, answered, share, drawn)
        for label, size, name, texts, answered, share, drawn in rows
    ]


def _answers(run: RunTables, model: TaskModel, changes_of_candidates: Sequence[Changes]) -> Mapping[Parts, str]:
    """Return the label that a model predicts of each text, before and after each change."""
    texts = [text for changes in changes_of_candidates for change in changes for text in change]
    labels = model.task.outputs.labels
    return {text: labels[int(logits.argmax())] for text, logits in logits_of(run, model, texts).items()}


def _with_phrase(candidate: Candidate, sampled: Sequence[Answered], parts: PartsOfRows) -> Changes:
    """Return texts with another answer, without and with the words."""
    phrase = candidate.phrase
    changed: Changes = []
    for row, prediction, _ in sampled:
        if len(changed) == PUT_INTO:
            break
        if prediction == candidate.label or phrase.holds(parts[row]):
            continue
        example = parts[candidate.rows[len(changed) % len(candidate.rows)]]
        after = phrase.put(parts[row], example)
        if after is not None and phrase.holds(after):
            changed.append((parts[row], after))
    return changed


def _lengths(run: RunTables) -> list[Candidate]:
    """Return for each label the length of the texts with more words than half of them have."""
    longer = "len(words) > (SELECT median(len(words)) FROM distinct_texts)"
    counts = run.ask(
        f"SELECT prediction, count(*) FILTER ({longer}) FROM distinct_texts GROUP BY ALL ORDER BY 1"  # noqa: S608
    )
    texts = sum(count for _, count in counts)
    return [Candidate(label, Phrase(LONGER, 0), texts, count / texts, None, ()) for label, count in counts if texts]


def _lengthened(sampled: Sequence[Answered], parts: PartsOfRows) -> Changes:
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
