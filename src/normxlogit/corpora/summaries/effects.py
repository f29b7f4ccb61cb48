"""The effect of deleting a word of a summary, measured with the model."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import sqrt
from typing import TypeVar

import numpy as np

from ...errors import DataError, InputError
from ...explainer import Explainer
from ...inputs.encoding import Encoding
from ...inputs.table_files import arrow_module
from ...inputs.texts import Text
from ...leave_out.outcomes import Outcomes, in_batches
from ...leave_out.removal import TextRemoval, tokens_removed
from ...model.identity import identity_of
from ...model.task_model import TaskModel
from ...results.units.words import merge_words
from .run_tables import RunTables
from .units import Effect, Unit, Z

Key = TypeVar("Key", bound=Hashable)

UnitPlace = tuple[int, int, str]
"""A row, the index of a word (or token) in it, and how the word is written there."""


def check_model(run: RunTables, explainer: Explainer) -> TaskModel:
    """Return the model of a run for deleting words.

    Raises:
        InputError: If the run is not of one label, or value, for each text.
        DataError: If it was made by another model, or without its texts.
    """
    model = explainer.task_model
    if (
        run.unit not in ("words", "tokens")
        or model.task.position.at != "text"
        or model.task.reads == "texts"
        or not model.task.outputs.labels
    ):
        raise InputError("verify= deletes words of texts that are classified as a whole")
    if not run.manifest.identity.is_same(identity_of(model)):
        raise DataError(f"{run.folder.location} was made by {run.manifest.model}, or by another state of it")
    if "text" not in run.kinds:
        raise DataError(f"{run.folder.location} holds no texts to delete words from: it was made with --no-keep-text")
    return model


def with_effects(run: RunTables, model: TaskModel, lists: Sequence[list[Unit]], count: int) -> list[list[Unit]]:
    """Return units with the mean change of the label's logit (or the value) when they are deleted from texts.

    Args:
        run: The run.
        model: Its model.
        lists: The units.
        count: Most places at which a unit is deleted, drawn at random with one seed.

    Raises:
        DataError: If the model reads other words in the texts than the run has.
    """
    label_and_text = dict.fromkeys((unit.label, unit.text) for units in lists for unit in units)
    places_of_unit = _drawn_places(run, model, list(label_and_text), count)
    encodings, words = _encoded_texts(
        run, model, {row for unit_places in places_of_unit.values() for row, *_ in unit_places}
    )
    removals_of_unit: dict[tuple[str, str], list[TextRemoval]] = {}
    for (label, text), unit_places in places_of_unit.items():
        for row, place, written_word in unit_places:
            name, tokens = words[row][place] if place < len(words[row]) else ("", ())
            if name != written_word:
                raise DataError(f"{model.name} reads other words in row {row} than the run has")
            removals_of_unit.setdefault((label, text), []).append((row, tokens))

    without = tokens_removed(model, encodings, masked=False)
    removals = list(
        dict.fromkeys(
            (row, removed) for rows in removals_of_unit.values() for row, tokens in rows for removed in ((), tokens)
        )
    )
    logits = dict(zip(removals, logits_of(model, removals, without), strict=True))
    changes_labels = model.task.outputs.outcomes == "exclusive"
    effects = {}
    for (label, text), removals in removals_of_unit.items():
        target = model.task.outputs.labels.index(label)
        logit_losses = [float(logits[row, ()][target] - logits[row, tokens][target]) for row, tokens in removals]
        label_changes = [int(logits[row, ()].argmax() != logits[row, tokens].argmax()) for row, tokens in removals]
        effects[label, text] = _effect(logit_losses, label_changes if changes_labels else None)
    return [[replace(unit, effect=effects.get((unit.label, unit.text))) for unit in units] for units in lists]


def logits_of(model: TaskModel, inputs: Sequence[Key], encoding_of: Callable[[Key], Encoding]) -> list[np.ndarray]:
    """Return the model's logits (C,) for each of some inputs."""

    def measure(batch: list[Encoding], _: list[Key]) -> Iterable[np.ndarray]:
        run_pass = model.run(model.batch(batch, list(range(len(batch)))))
        logits: Iterable[np.ndarray] = run_pass.logits.double().cpu().numpy()  # (B, C)
        return logits

    answers: Outcomes[Key, np.ndarray] = Outcomes(in_batches(model, encoding_of, measure))
    return answers(inputs)


def _drawn_places(
    run: RunTables, model: TaskModel, listed: Sequence[tuple[str, str]], count: int
) -> Mapping[tuple[str, str], list[UnitPlace]]:
    """Return random places of units in texts that explain their label, except in texts read in windows."""
    arrow, limit = arrow_module(), model.encoder.limit
    whole = "true" if limit is None else f"len(units) <= {limit}"
    run.register("wanted", arrow.table({"label": [label for label, _ in listed], "unit": [text for _, text in listed]}))
    column = "words" if run.unit == "words" else "units"
    rows = run.ask(
        f"""
        WITH flat AS (
            SELECT row, target, unnest({column}) AS written, lower(trim(written)) AS unit,
                   unnest(range(len({column}))) AS place
            FROM shards WHERE {whole}
        )
        SELECT wanted.label, wanted.unit, row, place, written
        FROM flat JOIN wanted ON flat.unit = wanted.unit AND list_contains(flat.target, wanted.label)
        QUALIFY row_number() OVER (PARTITION BY wanted.label, wanted.unit ORDER BY hash(row, place), row, place) <= ?
        ORDER BY row, place
        """,  # noqa: S608  # a column's name
        count,
    )
    places: dict[tuple[str, str], list[UnitPlace]] = {}
    for label, text, *place in rows:
        places.setdefault((label, text), []).append(tuple(place))
    return places


def _encoded_texts(
    run: RunTables, model: TaskModel, rows: Iterable[int]
) -> tuple[dict[int, Encoding], dict[int, list[tuple[str, tuple[int, ...]]]]]:
    """Encode the texts of some rows.

    Returns:
        The encoding of each row, and its words (or tokens), each with the indices of its tokens.
    """
    texts = texts_of(run, rows)
    encodings = model.encoder([*texts.values()], long_text="truncate") if texts else []
    words: dict[int, list[tuple[str, tuple[int, ...]]]] = {}
    for row, encoding in zip(texts, encodings, strict=True):
        if run.unit == "tokens":
            words[row] = [(token, (index,)) for index, token in enumerate(encoding.tokens)]
            continue
        parts = [text for text in (encoding.text, encoding.text_pair) if text is not None]
        no_scores, spans = np.zeros(len(encoding), np.float32), encoding.offsets or ()  # only the words are needed
        merged = merge_words(no_scores, parts, spans, encoding.sequence_ids, "sum")
        words[row] = [(word.text, word.tokens) for word in merged]
    return dict(zip(texts, encodings, strict=True)), words


def texts_of(run: RunTables, rows: Iterable[int]) -> dict[int, Text]:
    """Return the texts, or pairs, of some rows as they were read."""
    pair = "text_pair" if "text_pair" in run.kinds else "NULL"
    text_rows = run.ask(
        f"SELECT row, text, {pair} FROM shards WHERE row IN (SELECT unnest(?)) ORDER BY row",  # noqa: S608
        sorted(rows),
    )
    return {row: first if second is None else (first, second) for row, first, second in text_rows}


def _effect(changes: Sequence[float], changed: Sequence[int] | None) -> Effect:
    """Return the mean of changes with its confidence interval."""
    mean = float(np.mean(changes))
    half_width = Z * float(np.std(changes, ddof=1)) / sqrt(len(changes)) if len(changes) > 1 else float("nan")
    return Effect(
        len(changes), mean, mean - half_width, mean + half_width, None if changed is None else float(np.mean(changed))
    )
