"""The prediction at every position of a text, as the targets of one attribution: `position=ALL`."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ..errors import TargetError
from ..inputs.encoding import Encoding
from ..model.task_model import TaskModel
from ..results.attribution import Attribution
from ..tasks.targets import is_choice
from .options import Options

NOT_VERIFIED = (
    "not verified: the predictions at several positions are explained; verify= tests one, position= says which"
)


def explain_every_position(
    model: TaskModel,
    encoding: Encoding,
    options: Options,
    explain: Callable[[TaskModel, Sequence[Encoding], Options], list[Attribution]],
) -> Attribution:
    """Explain the prediction at every position of a text that has one, each by a row of the same batches.

    Returns:
        One attribution whose targets are the predictions at the words, or at the masks, named after both.

    Raises:
        TargetError: If several targets are asked for at each position.
        InputError: If predictions of the model have no positions.
    """
    if options.target is not None and not is_choice(options.target):
        raise TargetError("position=ALL explains one target at each position: a name, an index or None")
    positions = model.task.position.every(encoding)
    results = explain(model, [replace(encoding, position=position) for position in positions], options)
    first, targets = results[0], []
    words = {token: word.text for word in (first.words() if first.has_words else ()) for token in word.tokens}
    for position, result in zip(positions, results, strict=True):
        name = f"{words.get(position, first.tokens[position])}: {result.target.name}"
        targets.append(result.target._replace(name=name, position=position))
    notes = [note for result in results for note in result.notes]
    notes += [] if options.verify is None else [NOT_VERIFIED]
    return replace(
        in_rows(results),
        targets=tuple(targets),
        predictions=tuple(result.predictions[0] for result in results),
        notes=tuple(dict.fromkeys(notes)),
    )


def in_rows(results: Sequence[Attribution]) -> Attribution:
    """Return results of one text, each of one target, as the targets of one result, which is otherwise the first."""
    first = results[0]
    sinks = tuple(sorted({unit for result in results for unit in result.sinks}))
    zeros = np.zeros(first.scores.shape[:-1], np.float32)
    return replace(
        first,
        scores=np.stack([result.scores for result in results]),
        bias=None if first.bias is None else np.stack([zeros if r.bias is None else r.bias for r in results]),
        sink=np.stack([zeros if r.sink is None else r.sink for r in results]) if sinks else None,
        sinks=sinks,
        targets=tuple(result.targets[0] for result in results),
        diagnostics={name: tuple(result.diagnostics[name] for result in results) for name in first.diagnostics},
    )
