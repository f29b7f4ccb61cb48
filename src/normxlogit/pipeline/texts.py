"""From inputs to attributions: the story of a call, from the top."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch

from ..copies.memory import enough_memory
from ..errors import MethodError, TargetError, UnsupportedModelError
from ..inputs.encoding import Encoding
from ..inputs.texts import repeatable
from ..inputs.windows import Indices, too_long, windows
from ..leave_out.picking import removable_for_task
from ..leave_out.search import run_searches
from ..leave_out.text_answers import TextAnswers
from ..methods import Method, method_named
from ..methods.defaults import ANSWER_METHODS
from ..model.batch_attempts import forward_passes, results_in_batches
from ..model.task_model import TaskModel
from ..model.transfer import to_host
from ..results.attribution import Attribution
from ..results.collection import Attributions
from ..results.targets import Target
from ..tasks.targets import ALL, is_choice
from .attribute_pass import attribute_pass
from .by_halves import keep_errors
from .completions.next_words import explain_next_words, names_sequences
from .extra_inputs import with_extra_inputs
from .merging import in_rows, merge_windows, spread
from .options import Options, Results
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
    options = Options.of(arguments, method_named(default))
    inputs = repeatable(inputs)  # each method that is tried reads them
    try:
        return DefaultResults(explain_inputs(model, inputs, options), options.method)
    except UnsupportedModelError as error:
        note = f"{default}, the default, does not work on this model: {error}"
    options = replace(options, method=method_named(alternative))
    try:
        results: Any = explain_inputs(model, inputs, options)
    except MethodError as error:  # on a method that the caller did not name: the note says why it was taken
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
    of_several_passes: Results | None = model.task.explain(model, inputs, options)  # as of a multiple choice
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
    windows_read = [[list(range(len(encoding)))] for encoding in encodings]  # of each text; a short one is one window
    for index, encoding in enumerate(encodings):
        if limit is None or len(encoding) <= limit:
            continue
        # A text was cut or refused when it was encoded; what the caller encoded earlier was not.
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
    return run_searches(results, [removable_for_task(model, result, options.verify) for result in results], answers)


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
    results = score_encodings(model, encodings, replace(options, verify=None))
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
    first = results[0]  # all are of the same text
    words = {token: word.text for word in first.words() for token in word.tokens} if first.has_words else {}
    targets = []
    for position, result in zip(positions, results, strict=True):
        word = words.get(position, first.tokens[position])  # a mask, as another special token, is of no word
        name = f"{word}: {result.target.name}"
        targets.append(result.target._replace(name=name, position=position))
    return tuple(targets)


@enough_memory("explain this text in windows")
def score_windows(model: TaskModel, encoding: Encoding, options: Options) -> tuple[Attribution, list[Indices]]:
    """Score a text beyond the model's length; also return the tokens of each window that the answer comes from.

    A head that answers for the whole text reads every window, see `merge_windows`. A head that answers at a token has
    answered from one window, and that one is explained: the window around the chosen token, the last one of a causal
    language model, the one with the best answer or the first entity. Other tokens score zero.
    """
    limit = model.encoder.limit or len(encoding)
    # Where it is known before a pass at which token the model answers, there is one window, around that token.
    windows_read = windows(encoding, limit, model.task.position.known(encoding))
    encodings = [encoding.take(window) for window in windows_read]
    runs = forward_passes(model, encodings, layers=options.layers is not None)
    answering_window = model.task.position.answering_window(runs)
    if answering_window is not None:
        tokens = windows_read[answering_window]
        (result,) = attribute_pass(model, runs[answering_window], options)
        answer = model.task.position.in_whole_text(result.predictions[0], tokens)
        result = replace(result, predictions=(answer,))
        return spread(encoding, tokens, result, limit), [tokens]
    mean_logits = torch.stack([run.logits[0] for run in runs]).mean(0, keepdim=True)  # (1, C)
    if options.target is None:  # the same in every window: the prediction of the whole text
        options = replace(options, target=int(model.task.outputs.default_target(mean_logits)))
    results = [attribute_pass(model, run, options)[0] for run in runs]
    target_ids = torch.tensor([[target.id for target in results[0].targets]], device=mean_logits.device)  # (1, K)
    outputs = model.task.outputs
    # The prediction of the whole text is the likeliest output; of values, none of which is likelier, the explained one.
    shown_output = outputs.predicted(target_ids)  # (1, 1), or None for the likeliest
    (prediction,) = outputs.describe(*to_host(outputs.top(mean_logits, shown_output)))
    merged = merge_windows(encoding, windows_read, results, limit)
    return replace(merged, predictions=(prediction,)), windows_read
