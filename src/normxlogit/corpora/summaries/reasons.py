"""Words that decide by themselves: what turns answers, whatever else the texts say, measured with the model."""

from collections.abc import Mapping, Sequence
from itertools import chain, cycle, islice
from typing import NamedTuple

from ...long_runs.intervals import NORMAL
from ...model.task_model import TaskModel
from .changed_texts import (
    Change,
    Parts,
    PartsOfRows,
    joined,
    logits_of,
    parts_of_rows,
    places_of,
    text_with,
    texts_without,
    whole_text_condition,
)
from .run_tables import LISTED_WORD, RunTables
from .units import Reason, Share, share_of

SAMPLE = 400
"""Most texts of each prediction, drawn at random, into which something is put."""

PUT_INTO = 30
"""Texts into which each candidate is put: fewer would leave the interval too wide to say that anything decides."""

JOINED_TEXTS = 4
"""How many texts of one answer are read as one text, to see what the length of a text decides."""

MOST_LENGTHENED = 60
"""Most texts of each answer that are lengthened so."""

UNSURE = 4
"""One in so many texts of an answer, those of the lowest probabilities, are joined to others to lengthen them.

More of what is surely said would outweigh the length.
"""

PAIRED_WORDS = 6
"""Of how many words of a text, those with the largest scores, any two are a pair."""

TESTED_PAIRS = 8
"""How many pairs are tested of a label."""

LOWEST_MEAN_SHARE = f"avg(share) - {NORMAL} * coalesce(stddev_samp(share), 1) / sqrt(count(*))"
"""The lower end of the interval of a mean share, in SQL; of a single text it is low."""

Changes = list[Change]
"""Texts before and after a change."""


class Answered(NamedTuple):
    """A text of the run with the model's answer."""

    row: int  # the number of its row
    prediction: str  # the label that is predicted
    probability: float  # of this label


class Candidate(NamedTuple):
    """Words, or a length, that may decide for a label."""

    label: str
    words: tuple[str, ...]  # one, or two of which the second stands behind the first; none of a length
    texts: int  # how many texts have the words, or the length
    answered: float  # the share of these texts that are predicted to have the label
    score_share: float | None  # mean share of the words in the scores of the texts so predicted; None of a length
    rows: Sequence[int]  # the rows of some of the texts so predicted, drawn at random; none of a length


class Trial(NamedTuple):
    """A candidate with the texts that say whether it decides, each before and after a change.

    Attributes:
        candidate: The words, or the length.
        put_in: Texts with another answer, which get the words; of a length, texts to which others are joined.
        alone: Of two words, for each by itself texts with another answer, which get this word; empty otherwise.
        taken_out: Texts that lose the words.
    """

    candidate: Candidate
    put_in: Changes
    alone: Sequence[Changes]
    taken_out: Changes


def find_reasons(run: RunTables, model: TaskModel, layer: int, top: int, min_texts: int, count: int) -> list[Reason]:
    """Return what turns most answers when it is put into texts with another answer, the surest first.

    Candidates are the words that the scores or the counts connect most surely with a prediction, the pairs of words
    that the scores do, wherever they stand, and the lengths of texts. Each is taken out of texts that have it, and put
    into `PUT_INTO` others at most; so is each word of a pair by itself.

    Args:
        run: The tables of the run, after `make_distinct_texts`.
        model: Its model.
        layer: The index of the layer whose scores count, among those of the run.
        top: How many reasons are returned at most, and how many words of each label are tried by either measure.
        min_texts: In how many texts a word or a pair must stand.
        count: The most texts that a candidate is taken out of.
    """
    where = whole_text_condition(run, model)  # a condition for rows, in SQL
    _make_words_of_texts(run, where, layer)  # a table, from which words and pairs are taken
    candidates = [*_words(run, top, min_texts, count), *_pairs(run, min_texts, count), *_lengths(run)]
    sampled = _sampled(run, where)
    rows = {answer.row for answer in sampled}.union(*(candidate.rows for candidate in candidates))
    parts = parts_of_rows(run, rows)
    trials = [_trial(candidate, sampled, parts) for candidate in candidates]
    answers = _answers(run, model, trials)
    share_of_label = dict(
        run.ask("SELECT prediction, count(*) / sum(count(*)) OVER () FROM distinct_texts GROUP BY prediction")
    )
    reasons = [_reason(trial, share_of_label[trial.candidate.label], answers) for trial in trials]
    measured = [reason for reason in reasons if reason is not None]
    return sorted(measured, key=lambda reason: (-reason.turned.low, -reason.texts))[:top]


def _trial(candidate: Candidate, sampled: Sequence[Answered], parts: PartsOfRows) -> Trial:
    """Return a candidate with the texts that say whether it decides."""
    words = candidate.words
    if not words:
        return Trial(candidate, _lengthened(sampled, parts), (), [])
    put_in = _with_words(candidate, words, sampled, parts)
    single_words = words if len(words) > 1 else ()
    alone = [_with_words(candidate, [word], sampled, parts) for word in single_words]
    return Trial(candidate, put_in, alone, texts_without(words, candidate.rows, parts))


def _reason(trial: Trial, usual: float, answers: Mapping[Parts, str]) -> Reason | None:
    """Return what was measured of a candidate.

    Args:
        trial: The candidate with its texts.
        usual: The share of all texts that are predicted to have its label.
        answers: The label that the model predicts of each text.

    Returns:
        The reason; None if there is no text with another answer, or if one of two words by itself turns as many
        answers as both, which is at least the lower end of the interval of their share.
    """
    candidate = trial.candidate
    label = candidate.label
    turned = _share_changed(label, trial.put_in, answers, to_label=True)
    alone = [_share_changed(label, changes, answers, to_label=True) for changes in trial.alone]
    if turned is None or any(share is not None and share.value >= turned.low for share in alone):
        return None
    return Reason(
        label=label,
        words=candidate.words,
        texts=candidate.texts,
        answered=candidate.answered,
        usual=usual,
        score_share=candidate.score_share,
        turned=turned,
        changed=_share_changed(label, trial.taken_out, answers, to_label=False),
    )


def _sampled(run: RunTables, where: str) -> list[Answered]:
    """Return some texts of each prediction, drawn at random; `where` is a condition for rows, in SQL."""
    rows = run.ask(
        f"""
        SELECT row, prediction, probability FROM distinct_texts WHERE {where}
        QUALIFY row_number() OVER (PARTITION BY prediction ORDER BY hash(row), row) <= {SAMPLE}
        ORDER BY hash(row), row
        """  # noqa: S608  # numbers
    )
    return [Answered(*row) for row in rows]


def _share_changed(label: str, changes: Changes, answers: Mapping[Parts, str], *, to_label: bool) -> Share | None:
    """Return the share of texts that a change gives a label, or takes it from; None if there are no such texts.

    Args:
        label: The label.
        changes: Texts before and after a change.
        answers: The label that the model predicts of each text.
        to_label: Whether texts with another answer count, which may get the label; otherwise those that may lose it.
    """
    outcomes = []
    for before, after in changes:
        had_label = answers[before] == label
        has_label = answers[after] == label
        if had_label is not to_label:
            outcomes.append(has_label is to_label)
    return share_of(outcomes)


def _make_words_of_texts(run: RunTables, where: str, layer: int) -> None:
    """Make the table `words_of_texts`: the words of each text for whose prediction it was explained.

    A word has a `name`, as lists write it, its mean `share` of the text's scores, and its `first` and `last` place.

    Args:
        run: The tables of the run.
        where: The condition for rows, in SQL.
        layer: The index of the layer whose scores count, among those of the run.
    """
    word = LISTED_WORD.format(unit="flat.word")
    # DuckDB counts the entries of lists from 1, and a slice has its end. The first target's scores stand first.
    run.ask(
        f"""
        CREATE TEMP TABLE words_of_texts AS
        WITH scored AS (
            SELECT row, prediction, words,
                   word_scores[{layer} * len(words) + 1 : {layer + 1} * len(words)] AS scores
            FROM distinct_texts WHERE {where} AND target[1] = prediction
        ), flat AS (
            SELECT row, prediction, unnest(words) AS word, unnest(range(len(words))) AS place,
                   unnest(scores) AS score, list_sum(list_transform(scores, lambda x: abs(x))) AS total
            FROM scored
        )
        SELECT row, prediction, {word} AS name, avg(score / total) AS share, min(place) AS first, max(place) AS last
        FROM flat LEFT JOIN spellings ON flat.word = spelling GROUP BY ALL
        """  # noqa: S608  # numbers
    )


def _words(run: RunTables, top: int, min_texts: int, count: int) -> list[Candidate]:
    """Return the words that are most surely connected with a prediction, punctuation too.

    They are those of the surest mean share of the scores, and those whose texts get the prediction most surely more
    often than all texts; `deviation` counts standard errors. The arguments are those of `find_reasons`.
    """
    # A label of all texts (`usual` is 1) has no deviation, and no word can make it more frequent.
    rows = run.ask(
        f"""
        WITH labels AS (
            SELECT prediction, count(*) / sum(count(*)) OVER () AS usual FROM distinct_texts GROUP BY prediction
        ),
        texts AS (SELECT name, count(*) AS n FROM words_of_texts GROUP BY name HAVING n >= ?),
        counted AS (
            SELECT prediction, name, n, count(*) / n AS answered, avg(share) AS mean, {LOWEST_MEAN_SHARE} AS surest,
                   (answered - usual) / sqrt(usual * (1 - usual) / n) AS deviation,
                   list_slice(list(row ORDER BY hash(row), row), 1, ?) AS rows
            FROM words_of_texts JOIN texts USING (name) JOIN labels USING (prediction)
            WHERE usual < 1 GROUP BY prediction, name, n, usual
        )
        SELECT prediction, name, n, answered, mean, rows FROM counted WHERE deviation > 0
        QUALIFY row_number() OVER (PARTITION BY prediction ORDER BY surest DESC, name) <= ?
             OR row_number() OVER (PARTITION BY prediction ORDER BY deviation DESC, name) <= ?
        ORDER BY prediction, name
        """,  # noqa: S608  # numbers
        min_texts,
        count,
        top,
        top,
    )
    return [Candidate(label, (word,), *further_fields) for label, word, *further_fields in rows]


def _pairs(run: RunTables, min_texts: int, count: int) -> list[Candidate]:
    """Return the pairs of words that the scores connect most surely with a prediction, however far apart they stand.

    They are two of the words with the largest scores in at least `min_texts` texts, and counted in all. The arguments
    are those of `find_reasons`.
    """
    rows = run.ask(
        f"""
        WITH largest AS (
            SELECT * FROM words_of_texts WHERE share > 0
            QUALIFY row_number() OVER (PARTITION BY row ORDER BY share DESC, name) <= {PAIRED_WORDS}
        ), paired AS (
            SELECT one.prediction, one.name AS name, two.name AS second, one.share + two.share AS share
            FROM largest AS one JOIN largest AS two ON one.row = two.row AND one.first < two.last
            WHERE one.name <> two.name
        ), chosen AS (
            SELECT prediction AS label, name, second, {LOWEST_MEAN_SHARE} AS surest
            FROM paired GROUP BY prediction, name, second HAVING count(*) >= ?
            QUALIFY row_number() OVER (PARTITION BY label ORDER BY surest DESC, name, second) <= {TESTED_PAIRS}
        )
        SELECT label, chosen.name, second, count(*), avg((one.prediction = label)::INT) AS answered,
               avg(one.share + two.share) FILTER (one.prediction = label),
               list_slice(list(one.row ORDER BY hash(one.row), one.row) FILTER (one.prediction = label), 1, ?)
        FROM chosen JOIN words_of_texts AS one ON one.name = chosen.name
        JOIN words_of_texts AS two ON two.name = second AND two.row = one.row AND one.first < two.last
        GROUP BY label, chosen.name, second
        HAVING answered > (SELECT avg((prediction = label)::INT) FROM distinct_texts)
        ORDER BY label, chosen.name, second
        """,  # noqa: S608  # numbers
        min_texts,
        count,
    )
    return [Candidate(label, (first, second), *further_fields) for label, first, second, *further_fields in rows]


def _answers(run: RunTables, model: TaskModel, trials: Sequence[Trial]) -> Mapping[Parts, str]:
    """Return the label that a model predicts of each text before and after a change, by the words of the text."""
    changes = [*chain.from_iterable((trial.put_in, *trial.alone, trial.taken_out) for trial in trials)]
    texts = [text for of_candidate in changes for change in of_candidate for text in change]
    labels = model.task.outputs.labels
    return {text: labels[int(logits.argmax())] for text, logits in logits_of(run, model, texts).items()}


def _with_words(candidate: Candidate, words: Sequence[str], sampled: Sequence[Answered], parts: PartsOfRows) -> Changes:
    """Return texts with another answer than a candidate's, without and with words of it.

    Args:
        candidate: The candidate.
        words: Its words, or one of them.
        sampled: Texts, of which those are taken that have another answer and lack the words, `PUT_INTO` at most.
        parts: The words of texts by row.
    """
    changes: Changes = []
    for row, prediction, _ in sampled:
        if len(changes) == PUT_INTO:
            break
        if prediction == candidate.label or places_of(words, parts[row]):
            continue
        example_row = candidate.rows[len(changes) % len(candidate.rows)]  # each time that of another text
        after = text_with(words, parts[row], parts[example_row])
        if after is not None:  # None if the example lacks the words as the model has read them
            changes.append((parts[row], after))
    return changes


def _lengths(run: RunTables) -> list[Candidate]:
    """Return for each label the length of the texts with more words than half of them have."""
    longer = "len(words) > (SELECT median(len(words)) FROM distinct_texts)"
    counts = run.ask(
        f"SELECT prediction, count(*) FILTER ({longer}) FROM distinct_texts GROUP BY ALL ORDER BY 1"  # noqa: S608
    )
    texts = sum(count for _, count in counts)
    if texts == 0:  # all texts have equally many words
        return []
    return [
        Candidate(label, words=(), texts=texts, answered=count / texts, score_share=None, rows=())
        for label, count in counts
    ]


def _lengthened(sampled: Sequence[Answered], parts: PartsOfRows) -> Changes:
    """Return texts before and after unsure texts of the same prediction are joined to them.

    That should not change the prediction, unless the length of a text decides.

    Args:
        sampled: Texts, of which `MOST_LENGTHENED` of each prediction are lengthened.
        parts: The words of texts by row.
    """
    changes: Changes = []
    for label in dict.fromkeys(answer.prediction for answer in sampled):
        of_label = [answer for answer in sampled if answer.prediction == label]
        least_sure_first = sorted(of_label, key=lambda answer: (answer.probability, answer.row))
        unsure = cycle(parts[answer.row] for answer in least_sure_first[: max(len(of_label) // UNSURE, 1)])
        for answer in of_label[:MOST_LENGTHENED]:
            before = parts[answer.row]
            changes.append((before, joined([before, *islice(unsure, JOINED_TEXTS - 1)])))
    return changes
