"""From inputs, or a forward pass over them, to attributions, in the order of a call."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..copies.memory import enough_memory
from ..copies.run import autocast_note
from ..errors import HeadMismatchError, MethodError, TargetError, UnsupportedModelError
from ..inputs.encoding import Encoding, Indices, too_long, windows
from ..inputs.texts import repeatable
from ..leave_out.picking import removable_for_task
from ..leave_out.search import run_searches
from ..leave_out.text_answers import TextAnswers
from ..methods import Method, Request, Scores, check_finite, method_named, run_method
from ..methods.base import sink_note
from ..methods.registry import ANSWER_METHODS, alternatives
from ..model.batch_attempts import forward_passes, results_in_batches
from ..model.forward_pass import ForwardPass
from ..model.task_model import TaskModel
from ..model.transfer import to_host
from ..parts.headpiece import TOKENS_AT_ONCE
from ..results.attribution import Attribution
from ..results.collection import Attributions
from ..results.storage.schema import FloatArray
from ..results.targets import Target
from ..tasks.base import message_spans
from ..tasks.targets import ALL, BatchTargets, contrast_note, describe_targets, is_choice, resolve
from .by_halves import keep_errors
from .completions.next_words import explain_next_words, names_sequences
from .extra_inputs import with_extra_inputs
from .merging import in_rows, merge_windows, spread
from .options import Options, Results, provenance
from .progress import progress_bar

NOT_VERIFIED = (
    "not verified: the predictions at several positions are explained; verify= tests one, position= says which"
)


class DefaultResults(NamedTuple):
    """Results of a call that names no method, and the default method that made them."""

    results: Results
    method: Method


def explain_by_default(model: TaskModel, inputs: Any, arguments: Mapping[str, Any]) -> DefaultResults:
    """Explain inputs by the default method, or, where it does not work on the model, by the one after it.

    Args:
        model: The model.
        inputs: What the caller gave, as in `explain_inputs`.
        arguments: The caller's other arguments, those of `Options`.

    Returns:
        The results, with the method that worked; if it is not the default, the results note why that did not work.

    Raises:
        MethodError: If the method that works does not explain what is asked.
        UnsupportedModelError: If neither works.
    """
    default, alternative = ANSWER_METHODS
    options = Options.of(arguments, method=method_named(default))
    inputs = repeatable(inputs)  # each method that is tried reads them
    try:
        return DefaultResults(explain_inputs(model, inputs, options), options.method)
    except UnsupportedModelError as error:
        note = f"{default}, the default, does not work on this model: {error}"
    options = replace(options, method=method_named(alternative))
    try:
        results: Any = explain_inputs(model, inputs, options)
    except MethodError as error:
        raise MethodError(f"{error}; {note}") from None
    if isinstance(results, Attribution):
        results = _with_note(results, note)
    else:
        results = Attributions(_with_note(result, note) for result in results)
    return DefaultResults(results, options.method)


def _with_note(result: Any, note: str) -> Any:
    """Return a result with one more note; an input that could not be explained has none."""
    return replace(result, notes=(*result.notes, note)) if result.error is None else result


@torch.inference_mode(False)  # the caller's, in which nothing can be backpropagated
def explain_inputs(model: TaskModel, inputs: Any, options: Options) -> Results:
    """Explain inputs of any kind that the model's task reads.

    Args:
        model: The model.
        inputs: What the caller gave: one input, or several.
        options: The options of the call.

    Returns:
        One result, or several in the order of the inputs.

    Raises:
        InputError: If an input cannot be read, or is too long.
        TargetError: If a target does not exist.
        MethodError: If the method does not explain what is asked.
        UnsupportedModelError: If the method does not work on the model.
    """
    if options.on_error == "keep":
        return keep_errors(model, inputs, options, partial(explain_inputs, model))
    model.task.check_explains_inputs(model)
    model.refresh()  # labels, limits and inputs are read before the first batch
    of_several_passes: Results | None = model.task.explain(model, inputs, options)
    if of_several_passes is not None:
        return of_several_passes
    encodings, single = model.task.encode(model, inputs, long_text=options.long_text)
    if options.extra_inputs:
        encodings = with_extra_inputs(encodings, options.extra_inputs, model.extra_inputs, single=single)
    options.check_count(len(encodings))
    results = _score_targets(model, encodings, options)
    return results[0] if single else Attributions(results)


def _score_targets(model: TaskModel, encodings: list[Encoding], options: Options) -> list[Attribution]:
    """Score what is explained of each text: next words of several tokens, its predictions at all positions, or one."""
    position = model.task.position
    if position.left_to_right and names_sequences(model, options):
        return explain_next_words(model, position.locate(encodings, options.position), options)
    options.check_target(model)
    if options.position is not ALL:
        return score_encodings(model, position.locate(encodings, options.position), options)
    return [_score_positions(model, encoding, options.only(index)) for index, encoding in enumerate(encodings)]


def score_encodings(model: TaskModel, encodings: Sequence[Encoding], options: Options) -> list[Attribution]:
    """Score encodings in batches, and those beyond the model's length in windows; verify the results if requested.

    Args:
        model: The model.
        encodings: The texts, or pictures or sounds.
        options: The options of the call.

    Returns:
        A result for each encoding, in their order.

    Raises:
        InputError: If one is too long, or memory runs out with a single one.
        MethodError: If the method gives scores that are not finite, or none for the layers.
        UnsupportedModelError: If the method does not work on the model.
    """
    limit = model.encoder.limit
    results: dict[int, Attribution] = {}
    windows_read = [[list(range(len(encoding)))] for encoding in encodings]
    for index, encoding in enumerate(encodings):
        if limit is None or len(encoding) <= limit:
            continue
        if options.long_text != "window":
            raise too_long(index, len(encoding), limit)
        results[index], windows_read[index] = score_windows(model, encoding, options.only(index))
    indices_without_windows = [index for index in range(len(encodings)) if index not in results]
    results |= _score_batches(model, encodings, indices_without_windows, options)
    ordered = [results[index] for index in range(len(encodings))]
    return ordered if options.verify is None else _verified(model, encodings, ordered, windows_read, options)


def _verified(
    model: TaskModel,
    encodings: Sequence[Encoding],
    results: list[Attribution],
    windows_read: list[list[Indices]],
    options: Options,
) -> list[Attribution]:
    """Return results with what the model answers without some of their units.

    Args:
        model: The model.
        encodings: The texts.
        results: The result of each.
        windows_read: The tokens of each window of each text that its answer comes from; one window of a short text.
        options: The options of the call.
    """
    progress = partial(progress_bar, show=options.progress, description="verifying")
    answers = TextAnswers(model, encodings, results, windows=windows_read, progress=progress)
    return run_searches(results, [removable_for_task(model, a, options.verify) for a in results], answers)


def _score_batches(
    model: TaskModel, encodings: Sequence[Encoding], indices: list[int], options: Options
) -> dict[int, Attribution]:
    """Score the encodings at these indices; return their results by index."""
    with progress_bar(len(indices), options.progress) as advance:

        def score(places: list[int]) -> list[Attribution]:
            """Score the encodings at some places in the list of indices, in one batch."""
            batch_indices = [indices[place] for place in places]
            batch = model.batch([encodings[index] for index in batch_indices], batch_indices)
            run = options.method.forward(model, batch, options.layers)
            results = attribute_pass(model, run, options)
            advance(len(places))
            return results

        scored = results_in_batches(model, [encodings[index] for index in indices], score, options.method.memory)
    return dict(zip(indices, scored, strict=True))


def _score_positions(model: TaskModel, encoding: Encoding, options: Options) -> Attribution:
    """Score the predictions at all words or masks of a text, which become the targets of one result."""
    if options.target is not None and not is_choice(options.target):
        raise TargetError("position=ALL explains one target at each position: a name, an index or None")
    positions = model.task.position.every(encoding)
    # The same text for each position, so that one batch explains several positions.
    encodings = [replace(encoding, position=position) for position in positions]
    results = score_encodings(model, encodings, options)
    notes = [note for result in results for note in result.notes]
    if options.verify is not None:
        notes.append(NOT_VERIFIED)
    return replace(
        in_rows(results),
        targets=_targets_at(positions, results),
        predictions=tuple(result.predictions[0] for result in results),
        notes=tuple(dict.fromkeys(notes)),
    )


def _targets_at(positions: Sequence[int], results: Sequence[Attribution]) -> tuple[Target, ...]:
    """Return the target of each result with its position, and with the word there in its name."""
    first = results[0]
    words = {token: word.text for word in first.words() for token in word.tokens} if first.has_words else {}
    targets = []
    for position, result in zip(positions, results, strict=True):
        word = words.get(position, first.tokens[position])
        name = f"{word}: {result.target.name}"
        targets.append(result.target._replace(name=name, position=position))
    return tuple(targets)


class _OnHost(NamedTuple):
    """The numbers of a batch's results as arrays: B texts with N tokens together, K targets, L layers."""

    scores: FloatArray  # (N, K, L)
    target_ids: FloatArray  # (B, K)
    # Each of these is None where there is none.
    contrast: Any  # (B,)
    positions: Any  # (B,) or (B, 2)
    predicted: Any  # (B, 3): class, value, probability
    token_predictions: Any  # (N, 3)
    bias: Any  # (B, K, L)
    sink: Any  # (B, K, L)
    is_sink: Any  # (N,)

    def scores_of_text(self, row: int, tokens: slice, axes: tuple[Any, ...]) -> dict[str, Any]:
        """Return the fields of a text's result that hold scores.

        Args:
            row: The index of the text.
            tokens: Which of the N tokens are its own, T of them.
            axes: What is taken of the targets, and of the layers: all, or the only one, without its axis.
        """
        sinks = () if self.is_sink is None else tuple(self.is_sink[tokens].nonzero()[0].tolist())
        return {
            "scores": _float32(self.scores[tokens].transpose(1, 2, 0)[axes]),  # (K, L, T)
            "bias": None if self.bias is None else _float32(self.bias[row][axes]),  # (K, L)
            "sink": None if self.sink is None or not sinks else _float32(self.sink[row][axes]),  # (K, L)
            "sinks": sinks,
        }


def _on_host(
    model: TaskModel,
    run: ForwardPass,
    target: BatchTargets,
    scores: Scores,
    token_predictions: bool | None,
    *,
    is_span: bool,
) -> _OnHost:
    """Return the numbers of a pass's results, brought from the device in one transfer.

    Args:
        model: The model.
        run: The pass.
        target: What is explained.
        scores: The scores, (B, K, L, T).
        token_predictions: Whether predictions of single tokens are shown; None to show them where the method read them.
        is_span: Whether the prediction is a span, which `AnswerPosition.spans` describes.
    """
    batch, task = run.batch, model.task
    predicted = task.outputs.predicted(target.ids)
    on_device = {
        "scores": batch.real(scores.values.detach().permute(0, 3, 1, 2)),
        "target_ids": target.ids,
        "contrast": target.contrast,
        "positions": _positions_in_texts(run),
        "predicted": None if is_span else task.outputs.top(run.logits, predicted),
        "token_predictions": _token_predictions(model, run, token_predictions, predicted),
        "bias": scores.bias,
        "sink": scores.sink,
        "is_sink": None if scores.sinks is None else batch.real(scores.sinks),
    }
    return _OnHost(**dict(zip(on_device, to_host(*on_device.values()), strict=True)))


def _float32(values: FloatArray) -> FloatArray:
    """Return a copy of values that does not keep those of the whole batch in memory."""
    return np.array(values, np.float32, order="C")


def attribute_pass(model: TaskModel, run: ForwardPass, options: Options) -> list[Attribution]:
    """Attribute the answers of a forward pass to the tokens that it read.

    Args:
        model: The model.
        run: A pass over B texts.
        options: The options of the call.

    Returns:
        A result for each text.

    Raises:
        TargetError: If a target does not exist.
        MethodError: If the method gives scores that are not finite.
        UnsupportedModelError: If it does not work on the model.
    """
    method = options.method
    batch = run.batch
    task = model.task
    request, scores = _scored(model, run, options)
    target = request.target
    spans = task.position.spans(run)
    on_host = _on_host(model, run, target, scores, options.token_predictions, is_span=spans is not None)
    predictions: Any = spans
    if on_host.predicted is not None:
        model.check_finite(on_host.predicted[:, 0], batch)
        predictions = task.outputs.describe(on_host.predicted)
    check_finite(method, request, on_host.scores.swapaxes(1, 2))  # (N, L, K)
    targets = describe_targets(target, on_host.target_ids, on_host.contrast, on_host.positions)
    # Each is a list with a tuple of the K targets' values for each of the B texts.
    diagnostics = {name: list(map(tuple, values.tolist())) for name, values in scores.diagnostics.items()}
    shared_fields = provenance(model, method, contrasted=target.contrast is not None)
    shared_fields |= {"layers": request.layers or None, "merge": method.word_merge}
    notes = (*autocast_note(batch.inputs, run.dtype), *model.notes, *method.notes_on(model))
    token_predictions: Any = None
    if on_host.token_predictions is not None:
        token_predictions = task.outputs.describe(on_host.token_predictions)  # N
    target_axis: Any = slice(None) if target.has_target_axis else 0  # all of its K entries, or the only one
    layer_axis = slice(None) if request.layers else 0
    results = []
    start = 0
    for row, encoding in enumerate(batch.encodings):
        tokens = slice(start, start + len(encoding))  # of the N tokens of all texts
        units, media = task.units(encoding)
        scores_of_text = on_host.scores_of_text(row, tokens, (target_axis, layer_axis))
        sink_notes = sink_note(encoding.tokens, encoding.special, scores_of_text["sinks"])
        results.append(
            Attribution(
                units=units,
                media=media,
                text=encoding.text,
                text_pair=encoding.text_pair,
                messages=message_spans(encoding.contents),
                notes=(*encoding.notes, *notes, *contrast_note(targets[row]), *sink_notes),
                predictions=(predictions[row],),
                targets=targets[row],
                token_predictions=token_predictions and token_predictions[tokens],
                diagnostics={name: values[row][target_axis] for name, values in diagnostics.items()},
                **scores_of_text,
                **shared_fields,
            )
        )
        start = tokens.stop
    return results


def _scored(model: TaskModel, run: ForwardPass, options: Options) -> tuple[Request, Scores]:
    """Score the tokens of a forward pass; return the method's request, with the resolved targets, and its scores."""
    batch_targets = None if options.targets is None else [options.targets[index] for index in run.batch.indices]
    target = resolve(model.task, run, options.target, options.contrast, batch_targets)
    try:
        request = Request(model, run, target, model.layer_numbers(options.layers))
        return request, run_method(options.method, request)
    except HeadMismatchError as error:
        raise HeadMismatchError(f"{error}; {alternatives(head=False)}") from None


def _positions_in_texts(run: ForwardPass) -> Tensor | None:
    """Return the positions explained, counted in each text's own tokens, (B,) or (B, 2)."""
    if run.positions is None or not run.batch.padded:
        return run.positions
    earlier_tokens = run.batch.mask.cumsum(-1) - run.batch.mask.long()  # (B, T)
    positions = run.positions.reshape(len(earlier_tokens), -1).to(earlier_tokens.device)  # (B, 1) or (B, 2)
    return earlier_tokens.gather(1, positions).view_as(run.positions)


def _token_predictions(
    model: TaskModel, run: ForwardPass, requested: bool | None, predicted: Tensor | None
) -> Tensor | None:
    """Return the prediction at each real token, (N, 3): class, value, probability; by default if the method read it.

    `predicted` is which output of each text is shown, (B, 1); None for the likeliest.
    """
    task = model.task
    outputs = model.task.outputs
    were_read = vars(run).get("token_logits") is not None  # a cached property: asking it would read them
    are_shown = were_read if requested is None else requested
    if not are_shown or task.position.token_per_output:
        return None
    with torch.inference_mode():
        if run.token_logits is not None:
            return outputs.top(run.token_logits, None if predicted is None else predicted[run.batch.texts])
        parts = run.batch.real(run.hidden).split(TOKENS_AT_ONCE)
        return torch.cat([outputs.top(model.head.tokens(part)) for part in parts])  # (N, 3)


@enough_memory("explain this text in windows")
def score_windows(model: TaskModel, encoding: Encoding, options: Options) -> tuple[Attribution, list[Indices]]:
    """Score a text beyond the model's length; also return the tokens of each window that the answer comes from.

    A head that answers for the whole text reads every window, see `merge_windows`. A head that answers at a token has
    answered from one window, and that one is explained: the window around the chosen token, the last one of a causal
    language model, the one with the best answer or the first entity. Other tokens score zero.
    """
    limit = model.encoder.limit or len(encoding)
    kept_windows = windows(encoding, limit, model.task.position.known(encoding))
    encodings = [encoding.take(window) for window in kept_windows]
    runs = forward_passes(model, encodings, layers=options.layers is not None)
    answering_window = model.task.position.answering_window(runs)
    if answering_window is not None:
        tokens = kept_windows[answering_window]
        (result,) = attribute_pass(model, runs[answering_window], options)
        answer = model.task.position.in_whole_text(result.predictions[0], tokens)
        result = replace(result, predictions=(answer,))
        return spread(encoding, tokens, result, limit), [tokens]
    mean = torch.stack([run.logits[0] for run in runs]).mean(0, keepdim=True)  # (1, C)
    if options.target is None:  # the same in every window: the prediction of the whole text
        options = replace(options, target=int(model.task.outputs.default_target(mean)))
    results = [attribute_pass(model, run, options)[0] for run in runs]
    ids = torch.tensor([[target.id for target in results[0].targets]], device=mean.device)  # (1, K)
    outputs = model.task.outputs
    (prediction,) = outputs.describe(*to_host(outputs.top(mean, outputs.predicted(ids))))
    merged = merge_windows(encoding, kept_windows, results, limit)
    return replace(merged, predictions=(prediction,)), kept_windows
