"""One result of several of a text: of its windows, or with a target for each."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..inputs.encoding import Encoding, Indices, text_to_cut
from ..methods.base import sink_note
from ..results.attribution import Attribution
from ..results.storage.schema import FloatArray
from ..tasks.base import units_of_tokens


def spread(encoding: Encoding, indices: Indices, result: Attribution, limit: int) -> Attribution:
    """Return the result of one window, with scores for the whole text."""
    scores = np.zeros((*result.scores.shape[:-1], len(encoding)), dtype=np.float32)
    scores[..., indices] = result.scores
    text_tokens = set(text_to_cut(encoding, limit)[0])  # of a pair, those of the text that is cut
    content = [i for i in indices if i in text_tokens]
    note = (
        f"the text has {len(encoding)} tokens and the model reads {limit}: the answer comes from the window of tokens "
        f"{content[0]} to {content[-1]}; the others have no score"
    )
    targets = tuple(t if t.position is None else t._replace(position=indices[t.position]) for t in result.targets)
    sinks = tuple(indices[i] for i in result.sinks)
    return _whole(encoding, result, scores, note, targets=targets, token_predictions=None, sinks=sinks)


def merge_windows(
    encoding: Encoding, kept_windows: list[Indices], results: list[Attribution], limit: int
) -> Attribution:
    """Merge the scores of overlapping windows; take a token's prediction from the window where it is most central.

    The prediction is the mean of W windows' logits, so a token whose scores add up to them has the sum of its windows'
    scores over W, and the biases their mean. Scores that do not add up are averaged over the windows of the token.
    """
    first = results[0]
    biases = [result.bias for result in results if result.bias is not None]
    adds_up = len(biases) == len(results)
    total: FloatArray = np.zeros((*first.scores.shape[:-1], len(encoding)), dtype=np.float32)
    windows_of_token = np.zeros(len(encoding), dtype=np.float32)  # (T,)
    for indices, result in zip(kept_windows, results, strict=True):
        total[..., indices] += result.scores
        windows_of_token[indices] += 1
    scores = total / (len(kept_windows) if adds_up else windows_of_token)  # (..., T)
    token_predictions = None
    if first.token_predictions is not None:
        best: dict[int, tuple[int, Any]] = {}  # by token: its distance to the ends of a window, and what is predicted
        for indices, result in zip(kept_windows, results, strict=True):
            for index, (token, prediction) in enumerate(zip(indices, result.token_predictions or (), strict=True)):
                margin = min(index, len(indices) - 1 - index)
                if token not in best or margin > best[token][0]:
                    best[token] = margin, prediction
        token_predictions = tuple(best[token][1] for token in range(len(encoding)))
    note = (
        f"the text has {len(encoding)} tokens and the model reads {limit}: it was read in {len(kept_windows)} windows; "
        + ("scores are shares of the mean logits, " if adds_up else "scores are the mean where windows overlap, ")
        + "and the prediction is that of the mean logits"
    )
    bias = np.asarray(np.mean(biases, 0), np.float32) if adds_up else None  # (...,)
    sinks = tuple(sorted({int(indices[i]) for indices, r in zip(kept_windows, results, strict=True) for i in r.sinks}))
    sink = sum(np.zeros_like(r.scores[..., 0]) if r.sink is None else r.sink for r in results) / len(results)
    notes = [text for text in first.notes if text not in sink_note(first.tokens, first.units.special, first.sinks)]
    first = replace(first, notes=(*notes, *sink_note(encoding.tokens, encoding.special, sinks)))  # those of all windows
    return _whole(
        encoding,
        first,
        scores,
        note,
        token_predictions=token_predictions,
        diagnostics={  # of the worst window
            name: max((r.diagnostics[name] for r in results), key=lambda values: float(np.max(np.abs(values))))
            for name in first.diagnostics
        },
        bias=bias,
        sinks=sinks,
        sink=np.asarray(sink, np.float32) if sinks else None,
    )


def _whole(encoding: Encoding, result: Attribution, scores: FloatArray, note: str, **changes: Any) -> Attribution:
    """Return the result of a window as one of the whole text, with the scores of all tokens and a note on windows."""
    return replace(
        result,
        scores=np.ascontiguousarray(scores, dtype=np.float32),
        units=units_of_tokens(encoding),
        text=encoding.text,
        text_pair=encoding.text_pair,
        notes=(*result.notes, note),
        **changes,
    )


def in_rows(results: Sequence[Attribution]) -> Attribution:
    """Return results of the same units as the targets of one result, which is otherwise the first."""
    first = results[0]

    def stacked(name: str) -> FloatArray:
        """Return the values of all targets, zeros where a result has none."""
        rows = [np.zeros(r.scores.shape[:-1], np.float32) if (v := getattr(r, name)) is None else v for r in results]
        return np.concatenate([v if r.has_target_axis else v[None] for r, v in zip(results, rows, strict=True)])

    sinks = tuple(sorted({unit for result in results for unit in result.sinks}))
    measures = {name: [result.diagnostics.get(name) for result in results] for name in first.diagnostics}
    return replace(
        first,
        scores=stacked("scores"),
        bias=None if first.bias is None else stacked("bias"),
        sink=stacked("sink") if sinks else None,
        sinks=sinks,
        targets=tuple(target for result in results for target in result.targets),
        diagnostics={
            name: tuple(v for value in values for v in (value if isinstance(value, tuple) else (value,)))
            for name, values in measures.items()
            if None not in values
        },
    )
