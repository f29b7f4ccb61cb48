"""From inputs, or a forward pass over them, to attributions, in the order of a call."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

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
from ..methods import Request, Scores, check_finite, method_named, run_method
from ..methods.base import sink_note
from ..methods.registry import DEFAULTS, alternatives, use_of
from ..model.batch_attempts import batch_attempts, forward_passes
from ..model.task_model import ForwardPass, TaskModel, to_host
from ..parts.headpiece import TOKENS_AT_ONCE
from ..results.attribution import Attribution
from ..results.collection import Attributions
from ..tasks.base import message_spans
from ..tasks.targets import ALL, check_target, contrast_note, describe_targets, is_choice, resolve
from .by_halves import explain_each
from .completions.sources import explain_next_words, names_sequences
from .merging import in_rows, merge_windows, spread
from .options import Options, Results, provenance, with_extra_inputs
from .progress import progress_bar

NOT_VERIFIED = (
    "not verified: the predictions at several positions are explained; verify= tests one, position= says which"
)


def explain_by_default(model: TaskModel, inputs: Any, arguments: Mapping[str, Any]) -> Results:
    """Explain inputs by the first default method that works on the model; results note why others did not."""
    *preferred, last = DEFAULTS[use_of(model.task)].methods
    options = Options.of(arguments, method=method_named((*preferred, last)[0]))
    inputs = repeatable(inputs)  # each method that is tried reads them
    notes: tuple[str, ...] = ()
    for name in preferred:
        try:
            return explain_inputs(model, inputs, replace(options, method=method_named(name)))
        except UnsupportedModelError as error:  # noqa: PERF203  # of two methods
            notes = (f"{name}, the default, does not work on this model: {error}",)
    try:
        results = explain_inputs(model, inputs, replace(options, method=method_named(last)))
    except MethodError as error:  # it does not explain what is asked
        raise MethodError("; ".join((str(error), *notes))) from None
    if isinstance(results, Attribution):
        return replace(results, notes=(*results.notes, *notes))
    explained = [result for result in results if result.error is None]
    with_notes = iter([replace(result, notes=(*result.notes, *notes)) for result in explained])
    return Attributions(next(with_notes) if result.error is None else result for result in results)


@torch.inference_mode(False)  # the caller's, in which nothing can be backpropagated
def explain_inputs(model: TaskModel, inputs: Any, options: Options) -> Results:
    """Explain inputs of any kind that the model's task reads: one, or several in their order."""
    if options.on_error == "keep":
        return explain_each(model, inputs, options, partial(explain_inputs, model))
    model.task.check_explains_inputs(model)
    model.refresh()  # labels, limits and inputs are read before the first batch
    of_several_passes: Results | None = model.task.explain(model, inputs, options)
    if of_several_passes is not None:
        return of_several_passes
    encodings, single = model.task.encode(model, inputs, long_text=options.long_text)
    if options.extra_inputs:
        encodings = with_extra_inputs(encodings, options.extra_inputs, model.extra_inputs, single=single)
    options.check_count(len(encodings))
    if model.task.position.left_to_right and names_sequences(model, options):
        results = explain_next_words(model, model.task.position.locate(encodings, options.position), options)
        return results[0] if single else Attributions(results)
    check_target(model.task, model.output_count, options.target, options.contrast, options.targets)
    if options.position is ALL:
        each = enumerate(encodings)
        results = [explain_every_position(model, encoding, options.only(index)) for index, encoding in each]
    else:
        results = explain_encodings(model, model.task.position.locate(encodings, options.position), options)
    return results[0] if single else Attributions(results)


def explain_encodings(model: TaskModel, encodings: Sequence[Encoding], options: Options) -> list[Attribution]:
    """Explain encodings in batches, and those beyond the model's length in windows; verify them if requested."""
    results: dict[int, Attribution] = {}
    windows_read = [[list(range(len(encoding)))] for encoding in encodings]
    limit = model.encoder.limit
    groups: dict[Any, list[int]] = {}  # signals of one shape are read together; texts are padded
    for index, encoding in enumerate(encodings):
        if limit is None or len(encoding) <= limit:
            groups.setdefault(encoding.signal and encoding.signal.shapes, []).append(index)
            continue
        if options.long_text != "window":
            raise too_long(index, len(encoding), limit)
        results[index], windows_read[index] = explain_long(model, encoding, options.only(index))
    with progress_bar(sum(map(len, groups.values())), options.progress) as advance:
        for indices in groups.values():
            for attempt in batch_attempts(model, [encodings[i] for i in indices], options.method.memory):
                with attempt as places:
                    group = [indices[i] for i in places]
                    batch = model.batch([encodings[i] for i in group], group)
                    explained = explain_batch(model, options.method.forward(model, batch, options.layers), options)
                    results.update(zip(group, explained, strict=True))
                    advance(len(group))
    ordered = [results[i] for i in range(len(encodings))]
    if options.verify is None:
        return ordered
    progress = partial(progress_bar, show=options.progress, description="verifying")
    answers = TextAnswers(model, encodings, ordered, windows=windows_read, progress=progress)
    return run_searches(ordered, [removable_for_task(model, a, options.verify) for a in ordered], answers)


def explain_every_position(model: TaskModel, encoding: Encoding, options: Options) -> Attribution:
    """Explain the predictions at all words or masks of a text, each by a row of the same batches, as its targets."""
    if options.target is not None and not is_choice(options.target):
        raise TargetError("position=ALL explains one target at each position: a name, an index or None")
    positions = model.task.position.every(encoding)
    results = explain_encodings(model, [replace(encoding, position=position) for position in positions], options)
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


def explain_batch(model: TaskModel, run: ForwardPass, options: Options) -> list[Attribution]:
    """Explain a forward pass of B texts."""
    method, batch, task = options.method, run.batch, model.task
    request, scores = _scored(model, run, options)
    target, layers, spans = request.target, request.layers, task.position.spans(run)
    predicted = task.outputs.predicted(target.ids)
    all_scores, ids, contrast, places, predicted_table, token_table, biases, all_sinks, is_sink = to_host(
        batch.real(scores.values.detach().permute(0, 3, 1, 2)),  # (N, K, L)
        target.ids,
        target.contrast,
        _positions_in_texts(run),
        task.outputs.top(run.logits, predicted) if spans is None else None,
        _token_predictions(model, run, options.token_predictions, predicted),
        scores.bias,
        scores.sink,
        None if scores.sinks is None else batch.real(scores.sinks),
    )
    if predicted_table is not None:
        model.check_finite(predicted_table[:, 0], batch)
    check_finite(method, request, all_scores.swapaxes(1, 2))  # (N, L, K)
    predictions = spans if predicted_table is None else task.outputs.describe(predicted_table)
    tokens = None if token_table is None else task.outputs.describe(token_table)
    diagnostics = {name: measures.tolist() for name, measures in scores.diagnostics.items()}
    batch_targets = describe_targets(target, ids, contrast, places)
    of_model = (*autocast_note(batch.inputs, run.dtype), *model.notes, *method.notes_on(model))
    results, start = [], 0
    for row, encoding in enumerate(batch.encodings):
        part = slice(start, start + len(encoding))
        axes = (slice(None) if target.labelled else 0, slice(None) if layers else 0)
        values = all_scores[part].transpose(1, 2, 0)[axes]  # (K, L, T) without the axes that were not requested
        sinks = () if is_sink is None else tuple(is_sink[part].nonzero()[0].tolist())
        bias, sink = (
            None if values is None else np.array(values[row][axes], np.float32, order="C")
            for values in (biases, all_sinks if sinks else None)
        )
        targets, (units, media) = batch_targets[row], task.units(encoding)
        target_ids = [chosen_target.id for chosen_target in targets if chosen_target.id is not None]
        same_contrast = contrast_note(target_ids, targets[0].contrast_id, targets[0].contrast)
        of_sinks = sink_note(encoding.tokens, encoding.special, sinks)
        results.append(
            Attribution(
                scores=np.array(values, np.float32, order="C"),
                units=units,
                media=media,
                text=encoding.text,
                text_pair=encoding.text_pair,
                messages=message_spans(encoding.contents),
                notes=(*encoding.notes, *of_model, *same_contrast, *of_sinks),
                predictions=(predictions[row],),  # type: ignore[index]
                targets=targets,
                layers=layers or None,
                token_predictions=None if tokens is None else tokens[part],
                **provenance(model, method, contrasted=target.contrast is not None),
                diagnostics={
                    name: tuple(values[row]) if target.labelled else values[row][0]
                    for name, values in diagnostics.items()
                },
                bias=bias,
                sink=sink,
                sinks=sinks,
                merge=method.word_merge,
            )
        )
        start = part.stop
    return results


def _scored(model: TaskModel, run: ForwardPass, options: Options) -> tuple[Request, Scores]:
    """Score the tokens of a forward pass."""
    batch_targets = None if options.targets is None else [options.targets[i] for i in run.batch.indices]
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
    task, outputs = model.task, model.task.outputs
    were_read = vars(run).get("token_logits") is not None
    if not (were_read if requested is None else requested) or task.position.at == "span":
        return None
    with torch.inference_mode():
        if run.token_logits is not None:
            return outputs.top(run.token_logits, None if predicted is None else predicted[run.batch.texts])
        parts = run.batch.real(run.hidden).split(TOKENS_AT_ONCE)
        return torch.cat([outputs.top(model.head.tokens(part)) for part in parts])  # (N, 3)


@enough_memory("explain this text in windows")
def explain_long(model: TaskModel, encoding: Encoding, options: Options) -> tuple[Attribution, list[Indices]]:
    """Explain a text beyond the model's length; also return the tokens of each window that the answer comes from.

    A head that answers for the whole text reads every window, see `merge_windows`. A head that answers at a token has
    answered from one window, and that one is explained: the window around the chosen token, the last one of a causal
    language model, the one with the best answer or the first entity. Other tokens score zero.
    """
    limit = model.encoder.limit or len(encoding)
    kept_windows = windows(encoding, limit, model.task.position.known(encoding))
    parts = [encoding.take(window) for window in kept_windows]
    runs = forward_passes(model, parts, layers=options.layers is not None)
    if model.task.position.at != "text":
        window = model.task.position.answering_window(runs)
        result = explain_batch(model, runs[window], options)[0]
        answer = model.task.position.in_whole_text(result.predictions[0], kept_windows[window])
        result = replace(result, predictions=(answer,))
        return spread(encoding, kept_windows[window], result, limit), [kept_windows[window]]
    mean = torch.stack([run.logits[0] for run in runs]).mean(0, keepdim=True)  # (1, C)
    if options.target is None:
        options = replace(options, target=int(model.task.outputs.default_target(mean)))
    results = [explain_batch(model, run, options)[0] for run in runs]
    ids = torch.tensor([[target.id for target in results[0].targets]], device=mean.device)  # (1, K)
    outputs = model.task.outputs
    (prediction,) = outputs.describe(*to_host(outputs.top(mean, outputs.predicted(ids))))
    merged = merge_windows(encoding, kept_windows, results, limit)
    return replace(merged, predictions=(prediction,)), kept_windows
