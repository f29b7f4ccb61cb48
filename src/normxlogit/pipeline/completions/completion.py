"""Explain the tokens of language models' completions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...copies.memory import enough_memory
from ...copies.precision import autocast_note
from ...errors import MethodError, TargetError
from ...frozen.vocabulary import BACKPROPAGATED_AT_ONCE
from ...inputs.encoding import Encoding
from ...methods import FrozenGradient, Method, Request, Scores, check_finite, run_method, stacked
from ...methods.base import sink_note
from ...model.batch_attempts import results_in_batches
from ...model.causality import is_causal
from ...model.forward_pass import ForwardPass
from ...model.generation import check_cache
from ...model.task_model import TaskModel
from ...model.transfer import to_host
from ...parts.headpiece import TOKENS_AT_ONCE
from ...results.attribution import Attribution
from ...results.storage.schema import Indices, Strings
from ...results.targets import OutputQuantity, Prediction
from ...results.targets import Target as ExplainedTarget
from ...tasks.base import units_of_tokens
from ...tasks.targets import BatchTargets, contrast_note, index_of, is_choice
from ..media_scores import appended, split_media_scores
from ..merging import in_rows
from ..options import Options, provenance
from ..progress import progress_bar
from .completed import Completed

NO_TEXT = "the answer has no text: it ended at once, with {!r}, and the scores say what that rests on"

NO_SOURCE = (
    "the source is read by the encoder, whose states never reach the head: it has no scores, only the decoder's own "
    "tokens have; frozen-gradient scores both"
)


class CompletionRequest(NamedTuple):
    """A completion with its options and targets.

    Attributes:
        completed: The prompt with its completion.
        options: The options of the call.
        ids: The vocabulary entry that is explained at each of the G generated tokens.
        contrast: The vocabulary entry whose logit is subtracted at each of them; None for none.
    """

    completed: Completed
    options: Options
    ids: list[int]
    contrast: int | None

    @property
    def context(self) -> Encoding:
        """The model's input."""
        return self.completed.context

    @property
    def start(self) -> int:
        """The index of the first generated token."""
        return self.completed.prompt_tokens

    def part(self, first: int, stop: int) -> "CompletionRequest":
        """Return the generated tokens from `first` to `stop`, exclusive, as a completion of all tokens before them."""
        return self._replace(completed=self.completed.part(first, stop), ids=self.ids[first:stop])


@enough_memory("explain this completion")
@torch.inference_mode(False)  # the caller's, in which nothing can be backpropagated
def explain_completions(
    model: TaskModel, completed: Sequence[Completed], options: Sequence[Options]
) -> list[Attribution]:
    """Explain every token of completions, in batches of one forward pass over whole sequences.

    Behind a prompt of P tokens, score[g, i] = s_i(y_g) for i < P + g, and 0 elsewhere: s_i(y) is the method's score of
    token i for the vocabulary entry y. For the paper's methods (NormXLogit, EMNLP 2025, section 3) it depends on token
    i alone, so that one product of the T states with the head's rows for the G tokens gives them all. Methods that read
    the text as a whole run once for each token, on the tokens before it.

    Args:
        model: A language model.
        completed: The prompts with their completions.
        options: The options of each.

    Returns:
        A result for each completion, with its G tokens as targets.
    """
    model.refresh()
    requests = [
        completion_request(model, prompt, own_options) for prompt, own_options in zip(completed, options, strict=True)
    ]
    contexts = [completion.context for completion in requests]  # of one model: all have a source, or none
    if contexts[0].has_source:  # what an encoder reads is not batched
        return [_explain(model, [completion])[0] for completion in requests]
    with progress_bar(len(requests), None) as advance:

        def explain(indices: list[int]) -> list[Attribution]:
            results = _explain(model, [requests[index] for index in indices])
            advance(len(indices))
            return results

        # Completions of one call have one method.
        return results_in_batches(model, contexts, explain, options[0].method.memory)


def completion_request(model: TaskModel, completed: Completed, options: Options) -> CompletionRequest:
    """Return a completion with its options and targets."""
    if completed.context.media:
        options = options.for_media(completed.context.media)
    ids = _requested_ids(model, options, completed.generated_ids)
    contrast = None
    if options.contrast is not None:
        contrast = index_of(model.task, options.contrast, model.vocabulary_size)
    return CompletionRequest(completed, options, ids, contrast)


def _explain(model: TaskModel, batch: list[CompletionRequest]) -> list[Attribution]:
    """Explain completions from one forward pass over all, or, where later tokens change earlier answers, from more."""
    run = pass_over(model, batch, _copies_of_text(model, batch))
    if run is not None:
        return explain_run(model, run, batch)
    if len(batch) > 1:
        return [_explain(model, [completion])[0] for completion in batch]
    return [_in_halves(model, batch[0])]


def pass_over(
    model: TaskModel,
    batch: Sequence[CompletionRequest],
    copies: int = 1,
    arguments: Mapping[str, Any] = MappingProxyType({}),
) -> ForwardPass | None:
    """Return a forward pass over completions, `copies` times each; None where later tokens change earlier answers.

    Args:
        model: A language model.
        batch: The completions, with one method and the same layers. One with media or a source is alone in its batch.
        copies: How often each of them stands in the pass, see `_copies_of_text`.
        arguments: Further arguments of the model, see `Batch`.

    Raises:
        MethodError: If the method does not score the media or the source of a context.
        UnsupportedModelError: If the model generated a completion with a cache that changes its answers.
    """
    options = batch[0].options
    first_context = batch[0].context
    scores_source = isinstance(options.method, FrozenGradient)
    if not scores_source:
        _check_scores_words_alone(model, options.method, first_context)
    encodings = [completion.context for completion in batch for _ in range(copies)]
    # An encoder that has run before the pass is not backpropagated through: for scores of the source it runs in it.
    contexts = model.batch(encodings, encode_sources=not scores_source)
    contexts = replace(contexts, arguments=arguments)
    # The head is called later, at each generated token.
    run = options.method.forward(model, contexts, options.layers, predict=False)
    if is_causal(model, run, min(completion.start for completion in batch)):
        return run
    # The caller reads shorter texts anew, while `generate` with a cache keeps earlier states as they were: a model that
    # answers otherwise with it is refused. That is measured on the beginning of any text.
    if any(completion.completed.by_model for completion in batch):
        check_cache(model, first_context)
    return None


def _check_scores_words_alone(model: TaskModel, method: Method, context: Encoding) -> None:
    """Refuse a method other than the frozen gradient for what it does not score: media, or the source of a decoder."""
    if context.media and not method.info.tokenwise:
        raise MethodError(
            f"{method.info.name} scores words alone, and the prompt holds a picture or a sound: frozen-gradient scores "
            "both, and so do normxlogit, logat and input-norm by the tokens that stand for it"
        )
    if context.source is not None and method.needs_grad:
        raise MethodError(
            f"{method.info.name} backpropagates through one stack of layers, and {model.class_name} has "
            "two: frozen-gradient scores source and completion, normxlogit the completion alone"
        )


def _copies_of_text(model: TaskModel, batch: Sequence[CompletionRequest]) -> int:
    """Return how often each text stands in a batch, so that its tokens are backpropagated in fewer backward passes.

    Each copy has a share of the generated tokens, and one backward pass is for up to `BACKPROPAGATED_AT_ONCE` tokens of
    every share. Not faster on a CPU. What an encoder reads, a text or a sound, and prompts with media are not batched:
    they have no copies.
    """
    context, method = batch[0].context, batch[0].options.method
    backpropagates = isinstance(method, FrozenGradient)
    if model.device.type == "cpu" or not backpropagates or context.media or context.has_source:
        return 1
    padded_length = max(len(completion.context) for completion in batch)
    most_generated = max(len(completion.ids) for completion in batch)
    useful_copies = ceil(most_generated / BACKPROPAGATED_AT_ONCE)  # with so many, one backward pass is enough
    copies_in_memory = model.batch_tokens // method.memory // (len(batch) * padded_length)
    return max(1, min(useful_copies, copies_in_memory))


def _in_halves(model: TaskModel, completion: CompletionRequest) -> Attribution:
    """Explain each half of the generated tokens by itself: the first half on a shorter text, without the second.

    A half may be halved again; a single token never is, as nothing behind it is read.
    """
    middle = len(completion.ids) // 2
    (first,) = _explain(model, [completion.part(0, middle)])
    (second,) = _explain(model, [completion.part(middle, len(completion.ids))])
    # The tokens of the second half score 0 for those of the first; units of media come last.
    text_scores, media_scores = np.split(first.scores, [first.text_units], -1)
    later_tokens = np.zeros((*text_scores.shape[:-1], second.text_units - first.text_units), text_scores.dtype)
    padded_scores = np.concatenate([text_scores, later_tokens, media_scores], -1)
    first = replace(first, scores=padded_scores, units=second.units)
    # The second half has read the whole text, and knows the whole completion if there is a text to take it from.
    return replace(
        in_rows([first, second]),
        media=second.media,
        text=second.text,
        completion=second.completion if second.text is not None else f"{first.completion}{second.completion}",
        predictions=first.predictions + second.predictions,
        generated=first.generated + second.generated,
        notes=tuple(dict.fromkeys((*first.notes, *second.notes))),
    )


def explain_run(model: TaskModel, run: ForwardPass, batch: Sequence[CompletionRequest]) -> list[Attribution]:
    """Explain completions from a forward pass over them.

    Args:
        model: A language model.
        run: The pass, see `pass_over`; each text may stand in it several times, see `_copies_of_text`.
        batch: The completions, in the order of the pass.

    Returns:
        A result for each completion.
    """
    copies = len(run.batch.encodings) // len(batch)
    layers = model.layer_numbers(batch[0].options.layers)
    results = []
    scores_of_texts = _score_texts(model, run, batch, layers)
    for index, (completion, scores) in enumerate(zip(batch, scores_of_texts, strict=True)):
        model.check_finite(scores.values.numpy(), run.batch)
        row = index * copies  # its first copy
        states = run.hidden[row, run.batch.starts[row] :]  # (T, H), and padding behind them
        predictions = _token_predictions(model, completion, states)
        if isinstance(completion.options.method, FrozenGradient):  # the units are the tokens of source and decoder
            joined = completion._replace(completed=completion.completed.joined())
        else:  # other methods score the decoder's tokens alone
            joined = completion
        result = scored_tokens(
            model,
            joined.completed,
            joined.options,
            _without_later_tokens(scores, completion),
            targets=_explained_targets(model, joined),
            layers=layers or None,
            predictions=predictions.likeliest,
            generated=predictions.generated,
            diagnostics={name: tuple(values.tolist()) for name, values in scores.diagnostics.items()},
        )
        results.append(replace(result, notes=_notes(model, run, joined, result)))
    return results


def _without_later_tokens(scores: Scores, completion: CompletionRequest) -> Scores:
    """Return scores for each generated token, (G, L, units), that are 0 for tokens which it does not follow.

    The units are those of a source or a sound, if there are any, and then the T - 1 tokens of the context.
    """
    unit_count = scores.values.shape[-1]
    tokens = torch.arange(unit_count) - (unit_count - len(completion.context))  # (units,), below 0 of a source
    generated = completion.start + torch.arange(len(completion.ids))  # (G,)
    is_read = tokens < generated[:, None]  # (G, units)
    return replace(scores, values=scores.values * is_read[:, None])


def _notes(model: TaskModel, run: ForwardPass, completion: CompletionRequest, result: Attribution) -> Strings:
    """Return the notes of an explained completion."""
    notes = [
        *result.notes,
        *autocast_note(run.batch.inputs, run.dtype),
        *model.notes,
        *contrast_note(result.targets),
        *completion.options.method.notes_on(model),
    ]
    if all(completion.completed.encoding.special[completion.start :]):
        notes.append(NO_TEXT.format(result.tokens[completion.start]))
    return tuple(notes)


def _score_texts(
    model: TaskModel, run: ForwardPass, batch: Sequence[CompletionRequest], layers: Indices
) -> list[Scores]:
    """Return the scores of each text on the host, (G, L, T - 1), with one diagnostic for each generated token."""
    method = batch[0].options.method
    if method.info.tokenwise:
        # A pass over one text stays whole: it may hold several pictures, of which `row` would take the first.
        rows = [run.row(row) for row in range(len(batch))] if len(batch) > 1 else [run]
        return [_score_tokenwise(model, row, each, layers) for row, each in zip(rows, batch, strict=True)]
    # Contrast and quantity are the same for all completions of a call.
    copies = len(run.batch.encodings) // len(batch)
    entries = _entries_of_copies(run, batch, copies)
    target = batch_targets(model, entries.ids, batch[0].contrast, run, batch[0].options.explained)
    batch_scores = method.score_each(Request(model, run, target, layers), entries.positions)
    if batch_scores is None:  # the method reads each beginning of a text by itself
        return [_score_one_by_one(model, completion, layers) for completion in batch]
    batch_scores = batch_scores.on_host()
    results = []
    for index, completion in enumerate(batch):
        first_row = index * copies
        rows_of_text = slice(first_row, first_row + copies)
        tokens = _tokens_of_text(run, first_row)
        results.append(text_scores(batch_scores, rows_of_text, len(completion.ids), tokens))
    return results


class _Entries(NamedTuple):
    """The K vocabulary entries that are explained in each of the B rows of a pass, and where they are predicted."""

    ids: Tensor  # (B, K), 0 where a row has fewer
    positions: Tensor  # (B, K), -1 there


def _entries_of_copies(run: ForwardPass, batch: Sequence[CompletionRequest], copies: int) -> _Entries:
    """Divide the explained entries of each text among its copies in the pass: the first K to the first, and so on."""
    count = ceil(max(len(completion.ids) for completion in batch) / copies)  # K
    ids = torch.zeros(len(run.batch.encodings), count, dtype=torch.long)  # (B, K)
    positions = torch.full_like(ids, -1)  # (B, K)
    for row, padding in enumerate(run.batch.starts):  # the tokens of padding before its text
        text_index, copy_index = divmod(row, copies)
        completion = batch[text_index]
        first = copy_index * count
        row_ids = completion.ids[first : first + count]
        ids[row, : len(row_ids)] = torch.tensor(row_ids, dtype=torch.long)
        start = padding + completion.start - 1 + first  # a token is predicted at the one before it
        positions[row, : len(row_ids)] = torch.arange(start, start + len(row_ids))
    return _Entries(ids, positions)


def _tokens_of_text(run: ForwardPass, row: int) -> slice:
    """Return which tokens of a row belong to its text: without padding all, those of an encoder's source included."""
    if not run.batch.padded:
        return slice(None)
    start = run.batch.starts[row]
    return slice(start, start + len(run.batch.encodings[row]))


def text_scores(batch_scores: Scores, rows: slice, count: int, tokens: slice) -> Scores:
    """Return the scores of one text of a batch.

    Args:
        batch_scores: The scores of the batch on the host, (B, K, L, T).
        rows: The copies of the text in the batch, each with the scores for the next K generated tokens.
        count: The number of its generated tokens, G.
        tokens: Which of a row's tokens are those of the text.

    Returns:
        The scores for each generated token, (G, L, tokens).
    """
    row_scores = batch_scores.map(lambda values: values[rows].flatten(0, 1)[:count])
    sinks = None if batch_scores.sinks is None else batch_scores.sinks[rows].any(0)[tokens]
    return replace(row_scores, values=row_scores.values[..., tokens], sinks=sinks)


def scored_tokens(
    model: TaskModel, completed: Completed, options: Options, scores: Scores, **fields: Any
) -> Attribution:
    """Return the scores of all tokens but the last, (K, L, T - 1), as a result with further fields.

    Args:
        model: The model.
        completed: The completion; of an encoder-decoder model whose source has scores too, `joined`.
        options: The options of the call.
        scores: The scores.
        **fields: Further fields of the result, among them the targets, and the numbers of `layers` if they are scored.
    """
    sequence = completed.encoding
    text = sequence.text
    start = completed.prompt_tokens
    scores, placed = split_media_scores(completed.context, scores)  # without media all are of the text
    layers = bool(fields.get("layers"))
    axes = slice(None), slice(None) if layers else 0  # all targets, and all layers or the only one
    padded_values = torch.nn.functional.pad(scores.values, (0, 1))  # (K, L, T): the last token scores 0
    values = padded_values[axes].contiguous().numpy()  # (K, L, T) or (K, T)
    sinks = () if scores.sinks is None else tuple(scores.sinks.nonzero()[:, 0].tolist())
    text_of_token = tuple(None if special else 0 for special in sequence.special)  # special tokens are of no text
    units = replace(units_of_tokens(sequence), sequence=text_of_token, words=None)
    units, values, media = appended(units, values, placed, layers=layers)
    notes = sink_note(sequence.tokens, sequence.special, sinks)
    contrasted = options.contrast is not None or completed.parting is not None
    if sequence.source is None:  # the text is that of the prompt, in which messages have places
        fields["messages"] = completed.messages
    else:  # the units are the decoder's tokens, without those of the source
        notes = (NO_SOURCE, *notes)
    return Attribution(
        scores=values,
        units=units,
        media=media,
        text=text,
        completion="".join(sequence.tokens[start:]) if text is None else text[completed.prompt_characters :],
        reasoning=completed.reasoning,
        marked_reasoning=completed.marked_reasoning,
        prompt_tokens=start,
        notes=(*sequence.notes, *notes),
        bias=_on_host(scores.bias, axes),
        sink=_on_host(scores.sink, axes) if sinks else None,
        sinks=sinks,
        merge=options.method.word_merge,
        **provenance(model, options.method, contrasted=contrasted, explained=options.explained),
        **fields,
    )


def _on_host(values: Tensor | None, axes: tuple[Any, ...]) -> Any:
    """Return some axes of values, such as biases, as an array; None for none."""
    return None if values is None else values[axes].contiguous().numpy()


def _explained_targets(model: TaskModel, completion: CompletionRequest) -> tuple[ExplainedTarget, ...]:
    """Return the explained vocabulary entry of each generated token, with the token's place in the text."""
    sequence = completion.completed.encoding
    contrast_name = None if completion.contrast is None else model.task.outputs.name_of(completion.contrast)
    targets = []
    for position, index in enumerate(completion.ids, start=completion.start):
        # A special token stands for no characters.
        span = None if sequence.offsets is None or sequence.special[position] else sequence.offsets[position]
        name = model.task.outputs.name_of(index)
        target = ExplainedTarget(
            "token",
            name,
            id=index,
            contrast=contrast_name,
            contrast_id=completion.contrast,
            position=position - 1,  # it is predicted at the token before it
            span=span,
        )
        targets.append(target)
    return tuple(targets)


def _requested_ids(model: TaskModel, options: Options, generated_ids: list[int]) -> list[int]:
    """Return the vocabulary entry that is explained at each generated token; check the contrast as well."""
    count, vocabulary_size = len(generated_ids), model.vocabulary_size
    if options.target is not None and not is_choice(options.target):
        raise TargetError("target= is one token for all places; targets= takes one for each generated token")
    options.check_target(model)
    if options.target is not None:
        return [index_of(model.task, options.target, vocabulary_size)] * count
    if options.targets is None:
        return generated_ids
    if len(options.targets) != count:
        raise TargetError(f"{len(options.targets)} targets for {count} generated tokens; give one for each")
    return [index_of(model.task, choice, vocabulary_size) for choice in options.targets]


def batch_targets(
    model: TaskModel, ids: Tensor, contrast: int | None, run: ForwardPass, explained: OutputQuantity
) -> BatchTargets:
    """Return targets for vocabulary entries, (B, G), of which the logit or the log-probability is explained."""
    device = run.hidden.device
    contrasts = None if contrast is None else torch.full((len(ids),), contrast, device=device)
    return BatchTargets(
        ids.to(device), contrasts, run.positions, has_target_axis=True, task=model.task, explained=explained
    )


def _score_tokenwise(model: TaskModel, run: ForwardPass, completion: CompletionRequest, layers: Indices) -> Scores:
    """Score all tokens for every generated token, (G, L, T - 1): once for each distinct vocabulary entry."""
    distinct = list(dict.fromkeys(completion.ids))
    scores = _scores_of_entries(model, run, completion, distinct, layers)  # (R, L, T - 1), R distinct entries
    row_of_token = [distinct.index(token_id) for token_id in completion.ids]
    return scores.map(lambda values: values[row_of_token])


def _score_one_by_one(model: TaskModel, completion: CompletionRequest, layers: Indices) -> Scores:
    """Score all tokens for every generated token, (G, L, T - 1): by a pass of the method over the tokens before it."""
    rows: list[Scores] = []
    for count, entry in enumerate(completion.ids, start=completion.start):  # T' tokens before it
        batch = model.batch([completion.context.take(range(count))])
        with torch.inference_mode():
            run = model.run(batch, layers=bool(layers))
        scores = _scores_of_entries(model, run, completion, [entry], layers)  # (1, L, T')
        later = len(completion.context) - count
        rows.append(replace(scores, values=torch.nn.functional.pad(scores.values, (0, later))))
    return stacked(rows)


def _scores_of_entries(
    model: TaskModel, run: ForwardPass, completion: CompletionRequest, entries: list[int], layers: Indices
) -> Scores:
    """Score the tokens of a pass over one text for each of R vocabulary entries, (R, L, T)."""
    options, ids = completion.options, torch.tensor([entries])  # (1, R)
    target = batch_targets(model, ids, completion.contrast, run, options.explained)
    request = Request(model, run, target, layers)
    method_scores = run_method(options.method, request).on_host()
    scores = text_scores(method_scores, slice(1), len(entries), _tokens_of_text(run, 0))
    check_finite(options.method, request, scores.values.numpy())
    return scores


class _TokenPredictions(NamedTuple):
    """What the model predicts at each generated token."""

    likeliest: tuple[Prediction, ...]
    generated: tuple[Prediction, ...]  # the generated tokens themselves


@torch.inference_mode()
def _token_predictions(model: TaskModel, completion: CompletionRequest, hidden: Tensor) -> _TokenPredictions:
    """Return the likeliest token at each generated one, and the generated one.

    What is collected of each is a row of its logit, its index and its probability, as `Outputs.top` returns it.

    Args:
        model: A language model.
        completion: The completion, with G generated tokens.
        hidden: The states of its context, all tokens but the last; padding may follow, (T, H).
    """
    states = hidden[completion.start - 1 : len(completion.context)]  # (G, H)
    ids = torch.tensor(completion.completed.generated_ids, device=states.device)  # (G,)
    likeliest: list[Tensor] = []
    generated: list[Tensor] = []
    for part, part_ids in zip(states.split(TOKENS_AT_ONCE), ids.split(TOKENS_AT_ONCE), strict=True):
        logits = model.head.tokens(part).float()  # (G', V)
        part_ids = part_ids.to(logits.device)
        largest, likeliest_ids = logits.max(-1)  # (G',) each
        generated_logits = logits.gather(1, part_ids[:, None])[:, 0]  # (G',)
        # A softmax, in place to save memory: exp(logit - largest) / total, which is 1 / total for the largest.
        total = logits.sub_(largest[:, None]).exp_().sum(-1)  # (G',)
        probabilities = (generated_logits - largest).exp() / total  # (G',)
        likeliest.append(torch.stack([largest, likeliest_ids.to(largest), 1 / total], -1))  # (G', 3)
        generated.append(torch.stack([generated_logits, part_ids.to(largest), probabilities], -1))  # (G', 3)
    outputs = model.task.outputs
    return _TokenPredictions(
        outputs.describe(np.concatenate(to_host(*likeliest))), outputs.describe(np.concatenate(to_host(*generated)))
    )
