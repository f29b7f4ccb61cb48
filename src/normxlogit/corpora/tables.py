"""An explained shard as Arrow tables, column by column."""

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._version import __version__
from ..inputs.columns import SPECIAL, EncodingColumns
from ..inputs.encoding import Encoding, readable_tokens
from ..inputs.table_files import arrow_module
from ..methods import Method
from ..methods.base import sink_note
from ..model.task_model import TaskModel
from ..pipeline.texts import ScoreColumns
from ..results.storage.columns import CORPUS, METADATA, PREDICTION, arrow_types, result_row
from ..results.storage.files import json_text
from ..results.storage.schema import FORMAT_VERSION, FloatArray, plain
from ..results.units.words import Merge, merge_words
from ..tasks.targets import contrast_note, index_of
from .jobs.base import ExplainedRows
from .jobs.predictions import Predictions
from .rows.shards import KEPT

if TYPE_CHECKING:
    from .worker import ExplainedShard, Settings


def shard_table(model: TaskModel, settings: "Settings", shard: "ExplainedShard", metadata: dict[str, Any]) -> Any:
    """Return the results of a shard, in the order of its rows.

    Results are computed in another order than that of the rows: batches of texts of similar lengths first, then what is
    explained one by one. `explained.places` says which of the rows that were read each of them is.

    Args:
        model: The model.
        settings: The settings of the run.
        shard: The results.
        metadata: Further values that all rows share.
    """
    arrow, job, explained = arrow_module(), settings.job, shard.explained
    kind = job.kind or model.task.result_kind
    types = arrow_types(CORPUS[kind], job.absent_columns(keep_text=settings.keep_text))
    merge = (job.merge or settings.method.word_merge) if isinstance(job, Predictions) and job.words else None
    parts = []
    if isinstance(explained.encodings, EncodingColumns):
        parts += [
            _batch_columns(model, settings.method, explained.encodings.take(places), scored, types, merge)
            for places, scored in explained.batches
        ]
    parts.append(_columns_of_results(explained, types, merge))
    rows = np.array(shard.rows, np.int64)[explained.places]  # (R,): the row of each result, as computed
    input_rows = shard.shard.table.take(arrow.array(rows))
    columns = {
        name: input_rows[name] if name in job.copied else arrow.concat_arrays([part[name] for part in parts])
        for name in types
    }
    columns |= {name: input_rows[KEPT + name] for name in settings.columns.keep}
    quantities = (result.scored.quantity for result in explained.results.values())
    shared = {"quantity": next(quantities, "logit")}
    if isinstance(job, Predictions):
        shared = _shared_by_predictions(model, settings.method, job, explained)
    common = {
        "format_version": FORMAT_VERSION,
        "kind": kind,
        "version": __version__,
        "signed": settings.method.signed_on(model.task),
        **shared,
        **metadata,
    }
    schema = arrow.schema(
        [(name, types.get(name, column.type)) for name, column in columns.items()],
        metadata={METADATA: json.dumps(common)},
    )
    return arrow.table([*columns.values()], schema=schema).take(arrow.array(np.argsort(rows)))


def _shared_by_predictions(
    model: TaskModel, method: Method, job: Predictions, explained: ExplainedRows
) -> dict[str, Any]:
    """Return the values that all texts, pictures or sounds of a run share."""
    layers = [scored.layers for _, scored in explained.batches]
    layers += [getattr(result, "layers", None) or () for result in explained.results.values()]
    contrast = None if job.contrast is None else index_of(model.task, job.contrast, model.output_count)
    return {
        "labels": list(model.task.labels),
        "target": {
            "kind": model.task.target_kind,
            "contrast": None if contrast is None else model.task.output_name(contrast),
            "contrast_id": contrast,
        },
        "quantity": method.quantity_on(model.task, contrasted=contrast is not None),
        "layers": list(layers[0]) if layers and layers[0] else None,
        "settings": method.settings,
        "merge": method.word_merge,
    }


def _batch_columns(
    model: TaskModel,
    method: Method,
    encodings: EncodingColumns,
    scored: ScoreColumns,
    types: dict[str, Any],
    merge: Merge | None,
) -> dict[str, Any]:
    """Return the columns of a batch of R texts with N tokens, K targets each and L layers.

    Args:
        model: The model.
        method: The method.
        encodings: The texts.
        scored: Their scores.
        types: The columns, with their Arrow types.
        merge: How a word's score comes from its tokens'; None for no words.
    """
    arrow, bounds, count = arrow_module(), encodings.bounds, len(encodings)
    _, targets, layers = scored.scores.shape
    sizes = [targets] * scored.target.labelled + [layers] * bool(scored.layers)
    shapes = np.column_stack([*(np.full(count, size) for size in sizes), encodings.lengths])  # (R, axes)
    none: list[Any] = [None] * count
    sinks: list[list[int]] = [[]] * count
    if scored.sinks is not None:
        sinks = [mask.nonzero()[0].tolist() for mask in np.split(scored.sinks, bounds[1:-1])]
    sink_contributions = none if scored.sink is None else list(scored.sink.reshape(count, -1))
    ids = scored.ids.astype(np.int32)  # (R, K)
    positions = _positions(scored)  # (R,)
    values = {
        "units": _lists(_names(model, encodings.ids, readable=True), bounds),
        "unit_ids": _lists(encodings.ids.astype(np.int32), bounds),
        "spans": _spans(encodings.offsets, bounds),
        "word_spans": none if encodings.words is None else _spans(encodings.words, bounds),
        "sequence_ids": _lists(arrow.array(encodings.sequences, mask=encodings.sequences == SPECIAL), bounds),
        "target": _lists(_names(model, ids.ravel()), np.arange(count + 1) * targets),
        "target_ids": _lists(ids.ravel(), np.arange(count + 1) * targets),
        "position": arrow.array(np.nan_to_num(positions).astype(np.int32), mask=np.isnan(positions)),
        "scores": _lists(_flat_by_text(scored.scores, bounds), bounds * (targets * layers)),
        "shape": _lists(shapes.astype(np.int32).ravel(), np.arange(count + 1) * shapes.shape[1]),
        "bias": none if scored.bias is None else list(scored.bias.reshape(count, -1)),
        "sink": [part if tokens else None for part, tokens in zip(sink_contributions, sinks, strict=True)],
        "sinks": sinks,
        **_predictions(model, scored),
        "diagnostics": _diagnostics(scored, count),
        "notes": _notes(model, encodings, scored, sinks),
        "method": arrow.repeat(method.info.name, count),
        "model": arrow.repeat(model.name, count),
    }
    if merge is not None:
        parts = [scored.scores[start:end].transpose(1, 2, 0) for start, end in pairwise(bounds)]  # (K, L, T)
        words = [_words(encodings[i], part, merge) for i, part in enumerate(parts)]
        values |= {name: [row[name] for row in words] for name in words[0]}
    return {
        name: arrow.array(value, types[name]) if isinstance(value, list) else value for name, value in values.items()
    }


def _lists(values: Any, bounds: npt.NDArray[Any]) -> Any:
    """Return R lists, the values between consecutive bounds, (R + 1,)."""
    arrow = arrow_module()
    return arrow.ListArray.from_arrays(arrow.array(bounds.astype(np.int32)), arrow.array(values))


def _spans(spans: npt.NDArray[Any], bounds: npt.NDArray[Any]) -> Any:
    """Return R lists of spans of characters, (N, 2)."""
    arrow = arrow_module()
    return _lists(arrow.FixedSizeListArray.from_arrays(arrow.array(spans.ravel().astype(np.int32)), 2), bounds)


def _names(model: TaskModel, ids: npt.NDArray[Any], *, readable: bool = False) -> Any:
    """Return the names of token ids or outputs; each name is looked up once."""
    arrow = arrow_module()
    distinct, index_of_name = np.unique(ids, return_inverse=True)
    distinct_ids = [int(i) for i in distinct]
    names = (
        readable_tokens(model.tokenizer, distinct_ids)
        if readable
        else [model.task.output_name(i) for i in distinct_ids]
    )
    return arrow.array(list(names), arrow.string()).take(arrow.array(index_of_name.ravel()))


def _flat_by_text(scores: FloatArray, bounds: npt.NDArray[Any]) -> FloatArray:
    """Flatten scores, (N, K, L), so that each text's (K, L, T) block follows the block of the text before."""
    if scores[0].size == 1:
        return scores.ravel()
    return np.concatenate([scores[start:end].transpose(1, 2, 0).ravel() for start, end in pairwise(bounds)])


def _positions(scored: ScoreColumns) -> FloatArray:
    """Return the explained position of each text, (R,); NaN for whole texts, and for labels at several positions."""
    if scored.places is None:
        return np.full(len(scored.ids), np.nan, np.float32)
    if scored.places.ndim == 1:
        return scored.places
    places = np.take_along_axis(scored.places, scored.ids.astype(np.int64), 1)  # (R, K), of (R, 2) for start and end
    positions: FloatArray = np.where((places == places[:, :1]).all(1), places[:, 0], np.nan).astype(np.float32)
    return positions


def _predictions(model: TaskModel, scored: ScoreColumns) -> dict[str, Any]:
    """Return the columns of the predictions of R texts: labels, or the spans of extracted answers."""
    if scored.predictions is None:
        spans = scored.spans or []
        return {column: [getattr(span, name) for span in spans] for column, name in PREDICTION.items()}
    arrow, ids = arrow_module(), scored.predictions[:, 1].astype(np.int32)  # (R,)
    values, probabilities = scored.predictions[:, [0, 2]].T.astype(np.float64)  # (R,) each
    return {
        "prediction": _names(model, ids),
        "prediction_id": arrow.array(ids),
        "value": arrow.array(values),
        "probability": arrow.array(probabilities, mask=np.isnan(probabilities)),
    }


def _diagnostics(scored: ScoreColumns, count: int) -> list[str | None]:
    """Return the method's diagnostics of each text, as JSON."""
    if not scored.diagnostics:
        return [None] * count
    labelled, measured = scored.target.labelled, scored.diagnostics.items()
    states = [{name: values[i] if labelled else values[i][0] for name, values in measured} for i in range(count)]
    return [json_text(plain(state)) for state in states]


def _notes(
    model: TaskModel, encodings: EncodingColumns, scored: ScoreColumns, sinks: list[list[int]]
) -> list[list[str]]:
    """Return the notes of each text: on its encoding, the model, a contrast equal to the target, and sinks."""
    notes = [[*encodings.notes.get(i, ()), *model.notes] for i in range(len(encodings))]
    if scored.contrast is not None:
        contrast = int(scored.contrast[0])
        name = model.task.output_name(contrast)
        for note, ids in zip(notes, scored.ids.astype(int).tolist(), strict=True):
            note += contrast_note(ids, contrast, name)
    for i in (i for i, tokens in enumerate(sinks) if tokens):
        notes[i] += sink_note(encodings[i].tokens, encodings[i].special, sinks[i])
    return notes


def _columns_of_results(explained: ExplainedRows, types: dict[str, Any], merge: Merge | None) -> dict[str, Any]:
    """Return the columns of results that are `Attribution` objects."""
    arrow = arrow_module()
    rows = []
    for index, result in explained.results.items():
        row, a = result_row(result), result.scored
        if merge is not None and a.completion is None:
            shape = (len(a.targets), len(a.layers or ()) or 1, -1)
            row |= _words(explained.encodings[index], a.scores.reshape(shape), merge)
        rows.append(row)
    return {name: arrow.array([row.get(name) for row in rows], kind) for name, kind in types.items()}


def _words(encoding: Encoding, scores: FloatArray, merge: Merge) -> dict[str, Any]:
    """Return the words of a text and their scores, merged from token scores, (K, L, T)."""
    texts = [text for text in (encoding.text, encoding.text_pair) if text is not None]
    offsets, sequences = encoding.offsets or (), encoding.sequence_ids
    words = merge_words(scores, texts, offsets, sequences, merge, split=encoding.words)
    flat = np.stack([word.score for word in words], -1).ravel() if words else np.zeros(0, np.float32)
    return {"words": [word.text for word in words], "word_scores": flat}


def error_table(shard: "ExplainedShard") -> Any:
    """Return the rows of a shard that have no result, with the reasons."""
    arrow, rows = arrow_module(), sorted(shard.problems)
    table = shard.shard.table.select(["row", "id"]).take(arrow.array(rows, arrow.int64()))
    return table.append_column("reason", arrow.array([shard.problems[row] for row in rows], arrow.string()))
