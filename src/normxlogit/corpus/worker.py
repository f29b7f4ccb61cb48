"""The shard function: rows in, results and errors out. Engines call it; they differ only in where."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import InputError, TargetError, UnsupportedModelError
from ..inputs.columns import SPECIAL, EncodingColumns, places_of
from ..inputs.encoding import readable_tokens
from ..models.factory import check_answers
from ..models.layers import layer_numbers
from ..models.map_batches import run_batches
from ..models.targets import Choice, check_target, choice_from_text, index_of, name_of, output_count, same_as_contrast
from ..models.task_model import TaskModel
from ..pipeline.explain import ScoreColumns, score_batch, sink_note
from ..pipeline.long_texts import explain_long
from ..results.attribution import Attribution, Prediction
from ..results.base import FloatArray
from .halving import Halving
from .settings import Settings
from .shards import Shard

__all__ = ["Explained", "Prepared", "ShardWorker"]

TRIAL = "Is it so?"
"""A text on which a model shows how many layers it has."""


@dataclass(frozen=True)
class Prepared:
    """A shard as the model reads it.

    Attributes:
        shard: The shard.
        rows: Which of its rows were encoded.
        encodings: These rows.
        targets: What is explained in each, if a column says it.
        problems: Why the other rows were not, by row.
    """

    shard: Shard
    rows: list[int]
    encodings: EncodingColumns
    targets: list[Choice] | None
    problems: dict[int, str]


@dataclass(frozen=True)
class Explained:
    """A shard explained: R rows of N tokens.

    Attributes:
        shard: The shard.
        rows: Which of its rows, (R,).
        encodings: These rows.
        scores: (N, K, L).
        labelled: Whether there is a label axis.
        layers: The layers on the layer axis; empty without one.
        ids: What is explained, (R, K).
        contrast: What is subtracted.
        positions: Where, (R,); NaN for whole texts.
        said: The prediction, its index and its probability, (R, 3).
        spans: The answers of a model that answers with spans, by place.
        diagnostics: What the method measured of itself, by place.
        bias: What belongs to no token, (R, K, L); None where scores do not add up.
        sink: What attention sinks contribute, (R, K, L); None without sinks.
        sinks: Which tokens are attention sinks, by place.
        problems: Why the other rows have no result, by row.
    """

    shard: Shard
    rows: list[int]
    encodings: EncodingColumns
    scores: FloatArray
    labelled: bool
    layers: tuple[int, ...]
    ids: FloatArray
    contrast: int | None
    positions: FloatArray
    said: FloatArray
    spans: dict[int, Prediction]
    diagnostics: dict[int, dict[str, Any]]
    bias: FloatArray | None
    sink: FloatArray | None
    sinks: dict[int, tuple[int, ...]]
    problems: dict[int, str]

    @property
    def tokens(self) -> int:
        """Tokens explained."""
        return int(self.encodings.bounds[-1])


class ShardWorker:
    """Explains shards with one model.

    Args:
        model: The model.
        settings: The settings of the run.

    Raises:
        UnsupportedModelError: If the model is not one of texts.
        TargetError: If the target or the contrast is none of the model's.
        MethodError: If the model has no such layer.
    """

    def __init__(self, model: TaskModel, settings: Settings) -> None:
        _check_settings(model, settings)
        self.model = model
        self.settings = settings
        self._halving = Halving()

    def prepare(self, shard: Shard) -> Prepared:
        """Tokenise a shard's texts and look up its targets."""
        table = shard.table
        problems = {i: reason for i, reason in enumerate(table["problem"].to_pylist()) if reason is not None}
        targets = None
        if self.settings.columns.target is not None:
            targets, wrong = self._targets(table["target"])
            problems = wrong | problems
        rows = [i for i in range(len(table)) if i not in problems]
        kept = table.take(np.array(rows, np.int64)) if problems else table
        texts: list[Any] = kept["text"].to_pylist()
        if self.settings.columns.pair is not None:
            texts = list(zip(texts, kept["text_pair"].to_pylist(), strict=True))
        encodings, unread = self.model.encoder.columns(texts, long_text=self.settings.long_text)
        problems |= {rows[place]: reason for place, reason in unread.items()}
        rows = [row for place, row in enumerate(rows) if place not in unread]
        return Prepared(shard, rows, encodings, None if targets is None else [targets[i] for i in rows], problems)

    def _targets(self, column: Any) -> tuple[list[Any], dict[int, str]]:
        """Return each row's target, and what is wrong with those that have none."""
        known: dict[str | None, int | str] = {None: "no target"}
        names: list[Any] = column.to_pylist()
        known |= {name: self._target(name) for name in set(names) - {None}}
        targets = [known[name] for name in names]
        return targets, {i: value for i, value in enumerate(targets) if isinstance(value, str)}

    def _target(self, name: str) -> int | str:
        """Return the index of a target, or what is wrong with it."""
        try:
            index = index_of(self.model, choice_from_text(self.model, name), output_count(self.model))
            check_target(self.model, index, self.settings.contrast)
            return index
        except TargetError as error:
            return str(error)

    def explain(self, prepared: Prepared) -> Explained:
        """Run the model and the method over a shard's texts.

        Raises:
            NormXLogitError: If the model or the settings are at fault, not single rows.
        """
        encodings, model = prepared.encodings, self.model
        options = self.settings.options(prepared.targets)
        limit = model.encoder.limit
        lengths = encodings.lengths
        long = set() if limit is None else {int(i) for i in np.flatnonzero(lengths > limit)}
        short = [i for i in range(len(encodings)) if i not in long]
        read = encodings.take(short) if long else encodings
        parts: list[tuple[list[int], ScoreColumns]] = []
        wholes: dict[int, Attribution] = {}
        problems = dict(prepared.problems)

        def score(places: list[int]) -> list[tuple[list[int], ScoreColumns]]:
            batch = model.batch(read.take(places), [short[i] for i in places])
            run = options.method.forward(model, batch, options.layers)
            return [([short[i] for i in places], score_batch(model, run, options))]

        def work(places: list[int]) -> list[tuple[list[int], ScoreColumns]]:
            return self._halving(score, places, lambda i, reason: problems.update({prepared.rows[short[i]]: reason}))

        for _, found in run_batches(model, read, work, options.method.memory) if short else ():
            parts += found

        def whole(places: list[int]) -> list[Any]:
            wholes.update({i: explain_long(model, encodings[i], options.only(i)) for i in places})
            return []

        for place in sorted(long):
            self._halving(whole, [place], lambda i, reason: problems.update({prepared.rows[i]: reason}))
        return _gathered(model, prepared, parts, wholes, problems)


def _check_settings(model: TaskModel, settings: Settings) -> None:
    """Refuse what would be wrong in every row, before anything is written.

    Raises:
        InputError: If words are asked for and the tokenizer cannot tell them.
        UnsupportedModelError: If the model is not one of texts.
        TargetError: If the target or the contrast is none of the model's.
        MethodError: If the model has no such layer.
    """
    check_answers(model)
    model.refresh()
    if not hasattr(model, "encoder") or model.task.kind == "choice":
        raise UnsupportedModelError(
            f"a corpus is explained by models of texts and of pairs, not of {model.task.purpose}"
        )
    if settings.words and not model.tokenizer.is_fast:
        raise InputError("words need a tokenizer that reports character offsets; leave them out to have tokens")
    check_target(model, settings.target, settings.contrast)
    if settings.layers is None:
        return
    try:
        model.prepare(model.batch(model.encoder([TRIAL]), [0]))
    except InputError:  # the tokenizer knows nothing of it: the rows will show
        return
    layer_numbers(settings.layers, model)


def _gathered(
    model: TaskModel,
    prepared: Prepared,
    parts: list[tuple[list[int], ScoreColumns]],
    wholes: dict[int, Attribution],
    problems: dict[int, str],
) -> Explained:
    """Bring what batches and long texts gave into the order of the rows."""
    encodings = prepared.encodings
    done = sorted([*(i for places, _ in parts for i in places), *wholes])
    place_of = {old: new for new, old in enumerate(done)}
    kept = encodings if len(done) == len(encodings) else encodings.take(done)
    shape, labelled, layers, contrast = _axes(parts, wholes)
    subtracted = None if contrast is None else name_of(model, contrast)
    scores = np.zeros((int(kept.bounds[-1]), *shape), np.float32)  # (N, K, L)
    ids = np.zeros((len(done), shape[0]), np.float32)  # (R, K)
    said = np.full((len(done), 3), np.nan, np.float32)  # (R, 3)
    positions = np.full(len(done), np.nan, np.float32)  # (R,)
    spans: dict[int, Prediction] = {}
    measured: dict[int, dict[str, Any]] = {}
    notes = dict(kept.notes)
    for places, part in parts:
        rows = [place_of[i] for i in places]
        scores[places_of(kept.bounds, rows)] = part.scores
        ids[rows] = part.ids
        if part.said is not None:
            said[rows] = part.said
        if contrast is not None:
            same = {row: same_as_contrast(ids[row].astype(int).tolist(), contrast, subtracted) for row in rows}
            notes |= {row: (*notes.get(row, ()), *note) for row, note in same.items() if note}
        if part.places is not None:
            positions[rows] = _single(part.places, part.ids)
        spans |= dict(zip(rows, part.spans or (), strict=False))
        for name, values in part.diagnostics.items():
            for row, value in zip(rows, values, strict=True):
                measured.setdefault(row, {})[name] = value if part.target.labelled else value[0]
    for place, result in wholes.items():
        row = place_of[place]
        own = result.scores.reshape(*shape, -1)  # (K, L, T)
        scores[places_of(kept.bounds, [row])] = own.transpose(2, 0, 1)
        ids[row] = result.target.ids
        spans[row] = result.prediction
        chance = result.prediction.probability
        said[row] = (result.prediction.value, result.prediction.id, np.nan if chance is None else chance)
        positions[row] = np.nan if result.target.position is None else result.target.position
        if result.diagnostics:
            measured[row] = dict(result.diagnostics)
        notes[row] = result.notes
    besides = _besides(parts, wholes, place_of, shape)
    for row in {place_of[i] for places, _ in parts for i in places} & besides[2].keys():
        where = places_of(kept.bounds, [row])
        tokens, special = readable_tokens(model.tokenizer, kept.ids[where].tolist()), kept.sequences[where] == SPECIAL
        notes[row] = (*notes.get(row, ()), *sink_note(tokens, special.tolist(), besides[2][row]))
    kept = replace(kept, notes=notes)
    rows = [prepared.rows[i] for i in done]
    about = (labelled, layers, ids, contrast, positions, said, spans, measured)
    return Explained(prepared.shard, rows, kept, scores, *about, *besides, problems)


def _besides(
    parts: list[tuple[list[int], ScoreColumns]],
    wholes: dict[int, Attribution],
    place_of: Mapping[int, int],
    shape: tuple[int, int],
) -> tuple[FloatArray | None, FloatArray | None, dict[int, tuple[int, ...]]]:
    """Return bias and sink, (R, K, L) each, and which tokens are attention sinks, of what `_gathered` puts together."""
    every = [*(part for _, part in parts), *wholes.values()]
    arrays: dict[str, FloatArray | None] = {}
    for name in ("bias", "sink"):
        there = any(getattr(part, name) is not None for part in every)
        arrays[name] = np.full((len(place_of), *shape), np.nan, np.float32) if there else None  # (R, K, L)
        for places, part in [*parts, *(([i], whole) for i, whole in wholes.items())]:
            array, own = arrays[name], getattr(part, name)
            if array is not None and own is not None:
                array[[place_of[i] for i in places]] = own.reshape(len(places), *shape)
    sinks = {place_of[i]: whole.sinks for i, whole in wholes.items() if whole.sinks}
    for places, part in parts:
        if part.sinks is not None:
            bounds = np.cumsum(part.lengths)[:-1]
            each = (own.nonzero()[0].tolist() for own in np.split(part.sinks, bounds))
            sinks |= {place_of[i]: tuple(own) for i, own in zip(places, each, strict=True) if own}
    return arrays["bias"], arrays["sink"], sinks


def _axes(
    parts: list[tuple[list[int], ScoreColumns]], wholes: dict[int, Attribution]
) -> tuple[tuple[int, int], bool, tuple[int, ...], int | None]:
    if parts:
        part = parts[0][1]
        other = None if part.contrast is None else int(part.contrast[0])
        return part.scores.shape[1:], part.target.labelled, part.layers, other
    if wholes:
        result = next(iter(wholes.values()))
        labels = len(result.target.ids)
        layers = result.layers or ()
        return (labels, max(len(layers), 1)), result.has_label_axis, layers, result.target.contrast_id
    return (1, 1), False, (), None


def _single(places: FloatArray, ids: FloatArray) -> FloatArray:
    """Return the one position that a row explains, (B,); NaN where its labels have several."""
    if places.ndim == 1:
        return places
    own = np.take_along_axis(places, ids.astype(np.int64), 1)  # (B, K), of (B, 2) for start and end
    found: FloatArray = np.where((own == own[:, :1]).all(1), own[:, 0], np.nan).astype(np.float32)
    return found
