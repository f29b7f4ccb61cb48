"""One result of several of a text: of its windows, or with a target for each."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..inputs.encoding import Encoding
from ..inputs.windows import Indices, text_to_cut
from ..methods.base import sink_note
from ..results.attribution import Attribution
from ..results.storage.schema import FloatArray
from ..results.targets import Prediction
from ..tasks.base import units_of_tokens


def spread(encoding: Encoding, indices: Indices, result: Attribution, limit: int) -> Attribution:
    """Return the result of one window as one of the whole text, in which all other tokens score zero.

    Args:
        encoding: The whole text, of T tokens.
        indices: The tokens of the window, in the text.
        result: The result of the window.
        limit: How many tokens the model reads.
    """
    scores = np.zeros((*result.scores.shape[:-1], len(encoding)), dtype=np.float32)
    scores[..., indices] = result.scores
    # A window also holds special tokens, and of a pair the whole text that is not cut: these do not count.
    window_tokens = set(indices).intersection(text_to_cut(encoding))
    note = f"an answer comes from a window of {len(window_tokens)} tokens around it; the others have no score"
    targets = tuple(
        target if target.position is None else target._replace(position=indices[target.position])
        for target in result.targets
    )
    sinks = tuple(indices[unit] for unit in result.sinks)
    # The tokens outside of the window have no prediction, so that there are none at all.
    return _whole(encoding, result, scores, limit, note, targets=targets, token_predictions=None, sinks=sinks)


def merge_windows(
    encoding: Encoding, kept_windows: list[Indices], results: list[Attribution], limit: int
) -> Attribution:
    """Merge the scores of overlapping windows; take a token's prediction from the window where it is most central.

    The prediction is the mean of W windows' logits, so a token whose scores add up to them has the sum of its windows'
    scores over W, and the biases their mean. Scores that do not add up are averaged over the windows of the token.

    Args:
        encoding: The whole text.
        kept_windows: The tokens of each window.
        results: The results of the windows.
        limit: How many tokens the model reads.
    """
    count = len(kept_windows)  # W
    first = results[0]  # its targets, method and model are those of every window
    biases = [result.bias for result in results if result.bias is not None]
    adds_up = len(biases) == count  # with the biases, to the prediction
    total: FloatArray = np.zeros((*first.scores.shape[:-1], len(encoding)), dtype=np.float32)
    windows_of_token = np.zeros(len(encoding), dtype=np.float32)  # (T,)
    sinks: set[int] = set()
    for indices, result in zip(kept_windows, results, strict=True):
        total[..., indices] += result.scores
        windows_of_token[indices] += 1
        sinks.update(indices[unit] for unit in result.sinks)
    scores = total / (count if adds_up else windows_of_token)  # (..., T)
    quantity = "shares of the mean logits" if adds_up else "the mean where windows overlap"
    note = f"it was read in {count} windows; scores are {quantity}, and the prediction is that of the mean logits"
    merged_sinks = tuple(sorted(sinks))
    notes = (*_notes_without_sinks(first), *sink_note(encoding.tokens, encoding.special, merged_sinks))
    return _whole(
        encoding,
        replace(first, notes=notes),
        scores,
        limit,
        note,
        token_predictions=_central_predictions(kept_windows, results),
        diagnostics=_worst_diagnostics(results),
        bias=np.asarray(np.mean(biases, 0), np.float32) if adds_up else None,
        sinks=merged_sinks,
        sink=np.asarray(sum(map(_sink, results)) / count, np.float32) if sinks else None,
    )


def _notes_without_sinks(a: Attribution) -> list[str]:
    """Return the notes of a result without the one on its attention sinks."""
    of_sinks = sink_note(a.tokens, a.units.special, a.sinks)
    return [note for note in a.notes if note not in of_sinks]


def _worst_diagnostics(results: Sequence[Attribution]) -> dict[str, Any]:
    """Return each diagnostic, such as an error, of the window in which it is largest: no other window is worse."""
    return {
        name: max((r.diagnostics[name] for r in results), key=lambda values: float(np.max(np.abs(values))))
        for name in results[0].diagnostics
    }


def _sink(result: Attribution) -> FloatArray:
    """Return what the attention sinks of a result contribute, (K, L) without the axes that it lacks; zeros for none."""
    return np.zeros(result.scores.shape[:-1], np.float32) if result.sink is None else result.sink


def _central_predictions(kept_windows: list[Indices], results: list[Attribution]) -> tuple[Prediction, ...] | None:
    """Return the prediction at each token from the window where it is farthest from an end; None if there is none."""
    if results[0].token_predictions is None:
        return None
    best: dict[int, tuple[int, Prediction]] = {}  # by token: its largest margin so far, and the prediction with it
    for indices, result in zip(kept_windows, results, strict=True):
        # All windows have such predictions if the first has: `or ()` is for type checkers.
        for place, (token, prediction) in enumerate(zip(indices, result.token_predictions or (), strict=True)):
            margin = min(place, len(indices) - 1 - place)  # tokens between it and the nearer end of the window
            if token not in best or margin > best[token][0]:
                best[token] = margin, prediction
    return tuple(prediction for _, (_, prediction) in sorted(best.items()))


def _whole(
    encoding: Encoding, result: Attribution, scores: FloatArray, limit: int, note: str, **changes: Any
) -> Attribution:
    """Return the result of a window as one of the whole text, with the scores of all tokens and a note on windows."""
    return replace(
        result,
        scores=np.ascontiguousarray(scores, dtype=np.float32),
        units=units_of_tokens(encoding),
        text=encoding.text,
        text_pair=encoding.text_pair,
        notes=(*result.notes, f"the text has {len(encoding)} tokens and the model reads {limit}: {note}"),
        **changes,
    )


def in_rows(results: Sequence[Attribution]) -> Attribution:
    """Return results of the same units as the targets of one result, which is otherwise the first.

    Args:
        results: Results of one input, each with one target or several, K together.

    Returns:
        A result with K targets. It has the diagnostics that all results have.
    """
    first = results[0]
    sinks = tuple(sorted({unit for result in results for unit in result.sinks}))
    # One method made all of them, so that all have a bias or none has; sinks are found for each result by itself.
    return replace(
        first,
        scores=_rows(results, [result.scores for result in results]),
        bias=None if first.bias is None else _rows(results, [result.bias for result in results]),
        sink=_rows(results, list(map(_sink, results))) if sinks else None,
        sinks=sinks,
        targets=tuple(target for result in results for target in result.targets),
        diagnostics=_diagnostics_in_rows(results),
    )


def _diagnostics_in_rows(results: Sequence[Attribution]) -> dict[str, Any]:
    """Return the diagnostics that all results have, one value for each target."""
    diagnostics: dict[str, Any] = {}
    for name in results[0].diagnostics:
        if all(name in result.diagnostics for result in results):
            of_results = [np.atleast_1d(result.diagnostics[name]) for result in results]
            diagnostics[name] = tuple(np.concatenate(of_results).tolist())
    return diagnostics


def _rows(results: Sequence[Attribution], values: list[Any]) -> FloatArray:
    """Return values of results, (K, ...) or those of a single target, as rows of one array."""
    with_target_axis = [
        of_result if result.has_target_axis else of_result[None]
        for result, of_result in zip(results, values, strict=True)
    ]
    return np.concatenate(with_target_axis)
