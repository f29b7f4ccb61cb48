"""Listed words tested: each is left out of texts that have it, and the model is asked what it answers then."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from torch import Tensor

from ...long_runs.intervals import student_interval
from ...model.task_model import TaskModel
from ...tasks.targets import index_of
from .changed_texts import Change, Parts, logits_of, parts_of_rows, places_of, texts_without, whole_text_condition
from .run_tables import LISTED_WORD, RunTables
from .units import Fall, Unit

LEAST_TEXTS = 2
"""Fewest texts from which a word is left out: a single one has no interval."""

LEAST_EFFECT = 0.1
"""Least share of its score by which the logit falls without a word, where the scores divide the logit."""

_LabelAndWord = tuple[str, str]
"""What identifies a unit."""


def tested_units(run: RunTables, model: TaskModel, units: Sequence[Unit], count: int, *, against: bool) -> list[Unit]:
    """Return units with the fall of their label's logit where they are left out of texts.

    The logit is what the scores divide: of runs with a contrast, the label's less the contrast's. A word is left out
    of a text wherever it stands in it. A unit is returned as it is if there are not `LEAST_TEXTS` texts which have it
    and other words, and which the model read to the end.

    Args:
        run: The tables of the run.
        model: Its model.
        units: The units.
        count: The most texts that each is left out of.
        against: Whether the units speak against their label; they are left out of texts that are predicted to have it.
    """
    rows_by_unit = _rows_by_unit(run, units, whole_text_condition(run, model), count, predicted=against)
    parts = parts_of_rows(run, set(chain.from_iterable(rows_by_unit.values())))
    changes_by_unit: dict[_LabelAndWord, list[Change]] = {}
    for (label, word), rows in rows_by_unit.items():
        with_word = [row for row in rows if places_of([word], parts[row])]
        changes_by_unit[label, word] = texts_without([word], with_word, parts)
    changes = chain.from_iterable(changes_by_unit.values())
    logits = logits_of(run, model, chain.from_iterable(changes))
    are_signed = bool(run.common.get("signed"))
    divide_logit = _scores_divide_the_logit(run)
    tested = []
    for unit in units:
        falls = _falls(run, model, unit.label, changes_by_unit.get((unit.label, unit.text), []), logits)
        if len(falls) < LEAST_TEXTS:
            tested.append(unit)
            continue
        fall = _fall(falls, unit.mean, are_signed=are_signed, divide_logit=divide_logit)
        tested.append(replace(unit, fall=fall))
    return tested


def _rows_by_unit(
    run: RunTables, units: Sequence[Unit], where: str, count: int, *, predicted: bool
) -> Mapping[_LabelAndWord, Sequence[int]]:
    """Return some rows of each unit whose texts have the unit and were explained for its label, drawn at random.

    Args:
        run: The tables of the run.
        units: The units.
        where: The condition for texts, in SQL.
        count: The most rows of each unit.
        predicted: Whether only texts count that are predicted to have the label.
    """
    word = LISTED_WORD.format(unit="unit")
    listed = sorted({(unit.label, unit.text) for unit in units})
    rows = run.ask(
        f"""
        WITH listed AS (SELECT unnest(?::VARCHAR[]) AS label, unnest(?::VARCHAR[]) AS text),
        units AS (SELECT row, prediction, target, unnest(words) AS unit FROM distinct_texts WHERE {where}),
        words AS (
            SELECT DISTINCT row, prediction, target, {word} AS text FROM units LEFT JOIN spellings ON unit = spelling
        ), labelled AS (SELECT row, prediction, text, unnest(target) AS label FROM words)
        SELECT label, text, arg_min(row, hash(row), ?) FROM labelled JOIN listed USING (label, text)
        WHERE label = prediction OR NOT {predicted} GROUP BY label, text
        """,  # noqa: S608  # numbers
        [label for label, _ in listed],
        [text for _, text in listed],
        count,
    )
    return {(label, text): drawn for label, text, drawn in rows}


def _falls(
    run: RunTables, model: TaskModel, label: str, changes: Sequence[Change], logits: Mapping[Parts, Tensor]
) -> list[float]:
    """Return how much a label's logit falls from each text to the one without a word.

    Args:
        run: The tables of the run.
        model: Its model.
        label: The label.
        changes: Texts before and after the word is left out.
        logits: The logits, (C,), of each text.
    """
    index = list(model.task.outputs.labels).index(label)
    contrast = run.manifest.settings.get("contrast")
    contrasted = None if contrast is None else index_of(model.task, contrast, len(model.task.outputs.labels))
    falls = []
    for before, after in changes:
        difference = logits[before] - logits[after]  # (C,)
        fall = difference[index] if contrasted is None else difference[index] - difference[contrasted]
        falls.append(float(fall))
    return falls


def _fall(falls: Sequence[float], score: float, *, are_signed: bool, divide_logit: bool) -> Fall:
    """Return the mean of falls with its 95% interval, and whether it confirms the mean score.

    Args:
        falls: How much the logit falls from each text to the one without the word.
        score: The mean score of the word.
        are_signed: Whether scores have a sign, which the fall must have, too.
        divide_logit: Whether scores and bias add up to the logit, so that the fall must be a share of the score.
    """
    mean, low, high = student_interval(falls)
    is_positive = (score if are_signed else mean) > 0  # a score without a sign is confirmed by a change either way
    is_sure = low > 0 if is_positive else high < 0
    is_large = not divide_logit or (mean if is_positive else -mean) >= LEAST_EFFECT * abs(score)
    return Fall(mean, low, high, len(falls), is_sure and is_large)


def _scores_divide_the_logit(run: RunTables) -> bool:
    """Return whether scores and bias add up to the logit, so that the two can be compared."""
    return bool(run.ask("SELECT coalesce(bool_or(bias IS NOT NULL), false) FROM shards")[0][0])
