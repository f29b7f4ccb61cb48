"""An explained shard as Arrow tables, column by column."""

import json
from typing import Any

import numpy as np
import numpy.typing as npt

from .._version import __version__
from ..inputs.columns import SPECIAL
from ..inputs.encoding import readable_tokens
from ..methods import method_named
from ..models.targets import name_of
from ..models.task_model import TaskModel
from ..results.attribution import Attribution
from ..results.columns import CORPUS_SOURCES, CORPUS_TEXTS, METADATA, arrow_types, source_row
from ..results.files import json_text
from ..results.schema import plain
from ..results.sources import Sources
from ..results.versions import FORMAT_VERSION
from ..results.words import merge_words
from .formats import arrow_module
from .prompts import ExplainedPrompts
from .settings import Settings
from .shards import KEPT
from .worker import Explained

__all__ = ["error_table", "result_table", "source_table"]


def result_table(model: TaskModel, settings: Settings, explained: Explained, about: dict[str, Any]) -> Any:
    """Return the results of a shard, in the order of its rows.

    Args:
        model: What explained them.
        settings: The settings of the run.
        explained: The results of the shard.
        about: Further metadata of the file.
    """
    arrow, method = arrow_module(), method_named(settings.method)
    encodings, count, positions = explained.encodings, len(explained.rows), explained.positions
    _, labels, layers = explained.scores.shape
    bounds = encodings.bounds.astype(np.int32)
    flat = _by_row(explained.scores, encodings.bounds)  # (N * K * L,)

    def lists(values: Any, places: npt.NDArray[Any] = bounds) -> Any:
        return arrow.ListArray.from_arrays(arrow.array(places, arrow.int32()), values)

    axes = [labels] * explained.labelled + [layers] * bool(explained.layers)
    shape = np.column_stack([*(np.full(count, n) for n in axes), encodings.lengths]).astype(np.int32)  # (R, axes)
    absent = {"words": not settings.words, "word_scores": not settings.words, "text": not settings.keep_text}
    absent["text_pair"] = not settings.keep_text or settings.columns.pair is None
    types = arrow_types(CORPUS_TEXTS, [name for name, away in absent.items() if away])
    rows = arrow.array(np.array(explained.rows, np.int64))
    table = explained.shard.table.take(rows)
    target_ids = explained.ids.astype(np.int32)  # (R, K)
    columns = {
        "row": table["row"],
        "id": table["id"],
        "tokens": lists(_names(model, encodings.ids, readable=True)),
        "token_ids": lists(arrow.array(encodings.ids.astype(np.int32))),
        "offsets": arrow.nulls(count, types["offsets"]),
        "sequence_ids": lists(arrow.array(encodings.sequences, mask=encodings.sequences == SPECIAL)),
        "scores": lists(arrow.array(flat), bounds * (labels * layers)),
        "shape": lists(arrow.array(shape.ravel()), np.arange(count + 1) * shape.shape[1]),
        "target": lists(_names(model, target_ids.ravel()), np.arange(count + 1) * labels),
        "target_ids": lists(arrow.array(target_ids.ravel()), np.arange(count + 1) * labels),
        "position": arrow.array(np.nan_to_num(positions).astype(np.int32), mask=np.isnan(positions)),
        "bias": arrow.nulls(count, types["bias"]),
        "sink": arrow.nulls(count, types["sink"]),
        "sinks": arrow.array([list(explained.sinks.get(i, ())) for i in range(count)], types["sinks"]),
        "diagnostics": arrow.nulls(count, arrow.string()),
        "notes": arrow.array([list(encodings.notes.get(i, ())) for i in range(count)], types["notes"]),
        "method": arrow.repeat(method.info.name, count),
        "model": arrow.repeat(model.name, count),
        **_predictions(arrow, model, explained),
    }
    if encodings.offsets is not None:
        pairs = arrow.array(encodings.offsets.ravel().astype(np.int32))
        columns["offsets"] = lists(arrow.FixedSizeListArray.from_arrays(pairs, 2))
    if explained.bias is not None:
        columns["bias"] = arrow.array([None if np.isnan(r).all() else r.ravel() for r in explained.bias], types["bias"])
    if explained.sink is not None:
        sinks = [r.ravel() if i in explained.sinks else None for i, r in enumerate(explained.sink)]
        columns["sink"] = arrow.array(sinks, types["sink"])
    if explained.diagnostics:
        states = [
            json_text(plain(explained.diagnostics[i])) if i in explained.diagnostics else None for i in range(count)
        ]
        columns["diagnostics"] = arrow.array(states, arrow.string())
    if settings.keep_text:
        columns |= {name: table[name] for name in ("text", "text_pair") if name in types}
    if settings.words:
        columns |= _words(arrow, explained, settings.merge or method.word_merge, types)
    kept = {name: table[KEPT + name] for name in settings.columns.keep}
    common = {
        "format_version": FORMAT_VERSION,
        "kind": Attribution.kind,
        "version": __version__,
        "labels": list(model.task.labels),
        "target": {
            "kind": {"token": "token", "regression": "value"}.get(model.task.kind, "label"),
            "contrast": None if explained.contrast is None else name_of(model, explained.contrast),
            "contrast_id": explained.contrast,
        },
        "word_ids": None,
        "token_predictions": None,
        "layers": list(explained.layers) or None,
        "settings": method.settings,
        "signed": method.signed_on(model.task),
        "merge": method.word_merge,
        **about,
    }
    schema = arrow.schema(
        [(name, types[name]) for name in types] + [(name, column.type) for name, column in kept.items()],
        metadata={METADATA: json.dumps(common)},
    )
    return arrow.table([*(columns[name] for name in types), *kept.values()], schema=schema)


def source_table(model: TaskModel, settings: Settings, explained: ExplainedPrompts, about: dict[str, Any]) -> Any:
    """Return the sources of a shard of completions, in the order of its rows.

    Args:
        model: What explained them.
        settings: The settings of the run.
        explained: The results of the shard.
        about: Further metadata of the file.
    """
    arrow, method = arrow_module(), method_named(settings.method)
    absent = [] if settings.keep_text else ["text", "source_texts"]
    absent += [] if settings.keep_text or settings.sources == "message" else ["sources"]
    types = arrow_types(CORPUS_SOURCES, absent)
    table = explained.shard.table.take(arrow.array(explained.rows, arrow.int64()))
    columns: dict[str, Any] = {name: [] for name in types}
    columns |= {"row": table["row"], "id": table["id"]}
    for result in explained.sources:
        values = source_row(result)
        for name in types.keys() & values.keys():
            columns[name].append(values[name])
    kept = {name: table[KEPT + name] for name in settings.columns.keep}
    units = {result.unit for result in explained.sources}
    common = {
        "format_version": FORMAT_VERSION,
        "kind": Sources.kind,
        "version": __version__,
        "unit": units.pop() if units else None,
        "settings": dict(method.settings),
        "signed": method.signed_on(model.task),
        "by": settings.sources,
        "of": settings.of,
        **about,
    }
    schema = arrow.schema(
        [(name, types[name]) for name in types] + [(name, column.type) for name, column in kept.items()],
        metadata={METADATA: json.dumps(common)},
    )
    arrays = [columns[name] if name in ("row", "id") else arrow.array(columns[name], types[name]) for name in types]
    return arrow.table([*arrays, *kept.values()], schema=schema)


def error_table(explained: Explained | ExplainedPrompts) -> Any:
    """Return the rows of a shard that have no result, with the reasons."""
    arrow = arrow_module()
    rows = sorted(explained.problems)
    table = explained.shard.table.select(["row", "id"]).take(arrow.array(rows, arrow.int64()))
    reasons = arrow.array([explained.problems[row] for row in rows], arrow.string())
    return table.append_column("reason", reasons)


def _by_row(scores: npt.NDArray[np.float32], bounds: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return (N, K, L) scores with each text's T tokens innermost: K x L x T one text after the other."""
    count, labels, layers = scores.shape
    cells = labels * layers
    if cells == 1:
        return scores.ravel()
    lengths = np.diff(bounds)  # (R,)
    starts = np.repeat(bounds[:-1], lengths)  # (N,)
    wide = np.repeat(lengths, lengths)  # (N,)
    within = np.arange(count) - starts  # (N,)
    places = (starts * cells + within)[:, None] + wide[:, None] * np.arange(cells)  # (N, K * L)
    flat = np.empty(count * cells, np.float32)
    flat[places] = scores.reshape(count, cells)
    return flat


def _names(model: TaskModel, ids: npt.NDArray[Any], *, readable: bool = False) -> Any:
    """Return the names of token ids or outputs; each name is looked up once."""
    arrow = arrow_module()
    distinct, places = np.unique(ids, return_inverse=True)
    known = [int(i) for i in distinct]
    names = readable_tokens(model.tokenizer, known) if readable else [name_of(model, i) for i in known]
    return arrow.array(list(names), arrow.string()).take(arrow.array(places.ravel()))


def _predictions(arrow: Any, model: TaskModel, explained: Explained) -> dict[str, Any]:
    span = model.task.kind == "span"
    if span:
        spans = [explained.spans[i] for i in range(len(explained.rows))]
        return {
            "prediction": arrow.array([s.label for s in spans], arrow.string()),
            "prediction_id": arrow.array([s.id for s in spans], arrow.int32()),
            "value": arrow.array([s.value for s in spans], arrow.float64()),
            "probability": arrow.array([s.probability for s in spans], arrow.float64()),
        }
    ids = explained.said[:, 1].astype(np.int32)  # (R,)
    values, chances = explained.said[:, ::2].T.astype(np.float64)
    return {
        "prediction": _names(model, ids),
        "prediction_id": arrow.array(ids),
        "value": arrow.array(values),
        "probability": arrow.array(chances, mask=np.isnan(chances)),
    }


def _words(arrow: Any, explained: Explained, merge: Any, types: dict[str, Any]) -> dict[str, Any]:
    """Return words and their scores; this reads the texts one by one."""
    words, scores = [], []
    for i in range(len(explained.rows)):
        encoding = explained.encodings[i]
        part = slice(int(explained.encodings.bounds[i]), int(explained.encodings.bounds[i + 1]))
        scores_of_row = explained.scores[part].transpose(1, 2, 0)  # (K, L, T)
        texts = [t for t in (encoding.text, encoding.text_pair) if t is not None]
        merged = merge_words(scores_of_row, texts, encoding.offsets or (), encoding.sequence_ids, merge)
        words.append([word.text for word in merged])
        scores.append(np.stack([word.score for word in merged], -1).ravel() if merged else np.zeros(0, np.float32))
    return {"words": arrow.array(words, types["words"]), "word_scores": arrow.array(scores, types["word_scores"])}
