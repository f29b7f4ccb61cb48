"""An explained shard as Arrow tables."""

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from .._version import __version__
from ..long_runs.columns import CORPUS, corpus_row
from ..long_runs.tables import arrow_module
from ..model.task_model import TaskModel
from ..results.attribution import Attribution
from ..results.storage.columns import METADATA, arrow_types
from ..results.storage.schema import FORMAT_VERSION
from ..results.units.kinds import Merge
from ..results.units.words import merge_words
from ..tasks.targets import index_of
from .jobs.base import ShardRows
from .jobs.predictions import Predictions

if TYPE_CHECKING:
    from .worker import Settings


def shard_table(model: TaskModel, settings: "Settings", rows: ShardRows, metadata: dict[str, Any]) -> Any:
    """Return the results of the rows of a shard, in their order.

    Args:
        model: The model.
        settings: The settings of the run.
        rows: The rows.
        metadata: Further values that all rows share.
    """
    arrow, job = arrow_module(), settings.job
    kind = job.kind or model.task.result_kind
    types = arrow_types(CORPUS[kind], job.absent_columns(keep_text=settings.keep_text))
    merge = (job.merge or settings.method.word_merge) if isinstance(job, Predictions) and job.words else None
    places = sorted(rows.results)
    results = [rows.results[place] for place in places]
    cells = [corpus_row(result) | ({} if merge is None else _words(result.scored, merge)) for result in results]
    named = [rows.shard.rows[place] for place in places]
    cells = [{**cell, "row": row.number, "id": row.id} for cell, row in zip(cells, named, strict=True)]
    columns = {name: arrow.array([row.get(name) for row in cells], type_) for name, type_ in types.items()}
    indices = arrow.array(places, arrow.int64())
    columns |= {name: rows.shard.kept[name].take(indices) for name in settings.columns.keep}
    common = {
        "format_version": FORMAT_VERSION,
        "kind": kind,
        "version": __version__,
        "signed": settings.method.signed_on(model.task),
        "quantity": results[0].scored.quantity if results else "logit",
        **(_shared_by_predictions(model, settings, job, results) if isinstance(job, Predictions) else {}),
        **metadata,
    }
    schema = arrow.schema(
        [(name, types.get(name, column.type)) for name, column in columns.items()],
        metadata={METADATA: json.dumps(common)},
    )
    return arrow.table([*columns.values()], schema=schema)


def _shared_by_predictions(model: TaskModel, settings: "Settings", job: Predictions, results: Any) -> dict[str, Any]:
    """Return the values that all texts, pictures or sounds of a run share."""
    contrast = None if job.contrast is None else index_of(model.task, job.contrast, model.output_count)
    return {
        "labels": list(model.task.outputs.labels),
        "target": {
            "kind": model.task.outputs.kind,
            "contrast": None if contrast is None else model.task.outputs.name_of(contrast),
            "contrast_id": contrast,
        },
        "quantity": settings.method.quantity_on(model.task, contrasted=contrast is not None),
        "layers": list(results[0].layers) if results and results[0].layers else None,
        "settings": settings.method.settings,
        "merge": settings.method.word_merge,
    }


def _words(a: Attribution, merge: Merge) -> dict[str, Any]:
    """Return the words of a text and their scores, merged from token scores."""
    scores = a.scores.reshape(len(a.targets), len(a.layers or ()) or 1, -1)  # (K, L, T)
    texts = [text for text in (a.text, a.text_pair) if text is not None]
    words = merge_words(scores, texts, a.units.spans or (), a.units.sequence, merge, split=a.units.words)
    flat = np.stack([word.score for word in words], -1).ravel() if words else np.zeros(0, np.float32)
    return {"words": [word.text for word in words], "word_scores": flat}


def error_table(rows: ShardRows) -> Any:
    """Return the rows that have no result, with the reasons."""
    arrow = arrow_module()
    failed = [(*rows.shard.rows[place][:2], rows.problems[place]) for place in sorted(rows.problems)]
    schema = arrow.schema([("row", arrow.int64()), ("id", arrow.string()), ("reason", arrow.string())])
    return arrow.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in failed], schema)
