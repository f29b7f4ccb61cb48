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


def result_table(model: TaskModel, settings: Settings, found: Explained, about: dict[str, Any]) -> Any:
    """Return the results of a shard, in the order of its rows.

    Args:
        model: What explained them.
        settings: What was asked for.
        found: The results.
        about: What the file's metadata says of the shard besides.
    """
    arrow, method = arrow_module(), method_named(settings.method)
    encodings, count = found.encodings, len(found.rows)
    _, labels, layers = found.scores.shape
    bounds = encodings.bounds.astype(np.int32)
    flat = _by_row(found.scores, encodings.bounds)  # (N * K * L,)

    def lists(values: Any, places: npt.NDArray[Any] = bounds) -> Any:
        return arrow.ListArray.from_arrays(arrow.array(places, arrow.int32()), values)

    axes = [labels] * found.labelled + [layers] * bool(found.layers)
    shape = np.column_stack([*(np.full(count, n) for n in axes), encodings.lengths]).astype(np.int32)  # (R, axes)
    absent = {"words": not settings.words, "word_scores": not settings.words, "text": not settings.keep_text}
    absent["text_pair"] = not settings.keep_text or settings.columns.pair is None
    types = arrow_types(CORPUS_TEXTS, [name for name, away in absent.items() if away])
    rows = arrow.array(np.array(found.rows, np.int64))
    table = found.shard.table.take(rows)
    target_ids = found.ids.astype(np.int32)  # (R, K)
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
        "position": arrow.array(np.nan_to_num(found.positions).astype(np.int32), mask=np.isnan(found.positions)),
        "bias": arrow.nulls(count, types["bias"]),
        "sink": arrow.nulls(count, types["sink"]),
        "sinks": arrow.array([list(found.sinks.get(i, ())) for i in range(count)], types["sinks"]),
        "diagnostics": arrow.nulls(count, arrow.string()),
        "notes": arrow.array([list(encodings.notes.get(i, ())) for i in range(count)], types["notes"]),
        "method": arrow.repeat(method.info.name, count),
        "model": arrow.repeat(model.name, count),
        **_predictions(arrow, model, found),
    }
    if encodings.offsets is not None:
        pairs = arrow.array(encodings.offsets.ravel().astype(np.int32))
        columns["offsets"] = lists(arrow.FixedSizeListArray.from_arrays(pairs, 2))
    if found.bias is not None:
        columns["bias"] = arrow.array([None if np.isnan(r).all() else r.ravel() for r in found.bias], types["bias"])
    if found.sink is not None:
        each = [r.ravel() if i in found.sinks else None for i, r in enumerate(found.sink)]
        columns["sink"] = arrow.array(each, types["sink"])
    if found.diagnostics:
        states = [json_text(plain(found.diagnostics[i])) if i in found.diagnostics else None for i in range(count)]
        columns["diagnostics"] = arrow.array(states, arrow.string())
    if settings.keep_text:
        columns |= {name: table[name] for name in ("text", "text_pair") if name in types}
    if settings.words:
        columns |= _words(arrow, found, settings.merge or method.word_merge, types)
    kept = {name: table[KEPT + name] for name in settings.columns.keep}
    common = {
        "format_version": FORMAT_VERSION,
        "kind": Attribution.kind,
        "version": __version__,
        "labels": list(model.task.labels),
        "target": {
            "kind": {"token": "token", "regression": "value"}.get(model.task.kind, "label"),
            "contrast": None if found.contrast is None else name_of(model, found.contrast),
            "contrast_id": found.contrast,
        },
        "word_ids": None,
        "token_predictions": None,
        "layers": list(found.layers) or None,
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


def source_table(model: TaskModel, settings: Settings, found: ExplainedPrompts, about: dict[str, Any]) -> Any:
    """Return the sources of a shard of completions, in the order of its rows.

    Args:
        model: What explained them.
        settings: What was asked for.
        found: The results.
        about: What the file's metadata says of the shard besides.
    """
    arrow, method = arrow_module(), method_named(settings.method)
    absent = [] if settings.keep_text else ["text", "source_texts"]
    absent += [] if settings.keep_text or settings.sources == "message" else ["sources"]
    types = arrow_types(CORPUS_SOURCES, absent)
    table = found.shard.table.take(arrow.array(found.rows, arrow.int64()))
    columns: dict[str, Any] = {name: [] for name in types}
    columns |= {"row": table["row"], "id": table["id"]}
    for result in found.sources:
        values = source_row(result)
        for name in types.keys() & values.keys():
            columns[name].append(values[name])
    kept = {name: table[KEPT + name] for name in settings.columns.keep}
    units = {result.unit for result in found.sources}
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


def error_table(found: Explained | ExplainedPrompts) -> Any:
    """Return the rows of a shard that have no result, and why."""
    arrow = arrow_module()
    rows = sorted(found.problems)
    table = found.shard.table.select(["row", "id"]).take(arrow.array(rows, arrow.int64()))
    reasons = arrow.array([found.problems[row] for row in rows], arrow.string())
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


def _predictions(arrow: Any, model: TaskModel, found: Explained) -> dict[str, Any]:
    span = model.task.kind == "span"
    if span:
        said = [found.spans[i] for i in range(len(found.rows))]
        return {
            "prediction": arrow.array([s.label for s in said], arrow.string()),
            "prediction_id": arrow.array([s.id for s in said], arrow.int32()),
            "value": arrow.array([s.value for s in said], arrow.float64()),
            "probability": arrow.array([s.probability for s in said], arrow.float64()),
        }
    ids = found.said[:, 1].astype(np.int32)  # (R,)
    values, chances = found.said[:, ::2].T.astype(np.float64)
    return {
        "prediction": _names(model, ids),
        "prediction_id": arrow.array(ids),
        "value": arrow.array(values),
        "probability": arrow.array(chances, mask=np.isnan(chances)),
    }


def _words(arrow: Any, found: Explained, merge: Any, types: dict[str, Any]) -> dict[str, Any]:
    """Return words and their scores; this reads the texts one by one."""
    words, scores = [], []
    for i in range(len(found.rows)):
        encoding = found.encodings[i]
        part = slice(int(found.encodings.bounds[i]), int(found.encodings.bounds[i + 1]))
        own = found.scores[part].transpose(1, 2, 0)  # (K, L, T)
        texts = [t for t in (encoding.text, encoding.text_pair) if t is not None]
        merged = merge_words(own, texts, encoding.offsets or (), encoding.sequence_ids, merge)
        words.append([word.text for word in merged])
        scores.append(np.stack([word.score for word in merged], -1).ravel() if merged else np.zeros(0, np.float32))
    return {"words": arrow.array(words, types["words"]), "word_scores": arrow.array(scores, types["word_scores"])}
