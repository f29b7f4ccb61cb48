"""Explain which words, of any number of tokens, a causal language model says next after a text."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import torch

from ...errors import InputError, TargetError
from ...inputs.decoded_tokens import with_decoded_text
from ...inputs.encoding import Encoding
from ...model.task_model import TaskModel
from ...results.attribution import Attribution
from ...tasks.base import generating_task
from ...tasks.language import Vocabulary
from ...tasks.targets import All, Choice, index_of, is_choice
from ..merging import in_rows
from ..options import Options
from ..progress import progress_bar
from .completed import Completed
from .whole_answers import comparable_quantity, explain_answer, next_logits


def names_sequences(model: TaskModel, options: Options) -> bool:
    """Return whether a target or the contrast of a language model that generates is a text of several tokens."""
    outputs = cast(Vocabulary, model.task.outputs)  # as of every model that continues a text
    choices = [*_targets(options.target), *(options.targets or ()), options.contrast]
    return any(isinstance(choice, str) and len(outputs.ids_of(choice)) > 1 for choice in choices)


@torch.inference_mode(False)
def explain_next_words(model: TaskModel, encodings: Sequence[Encoding], options: Options) -> list[Attribution]:
    """Explain which next words, each of any number of tokens, a causal language model says after texts.

    Args:
        model: A causal language model.
        encodings: The texts.
        options: The options of the call, whose targets and contrast are words.

    Returns:
        A result for each text, as `explain_answer` gives it, with an axis of targets if these are a list.

    Raises:
        InputError: If predictions of single tokens are asked for, or a text is too long with the words behind it.
        TargetError: If there are no such words, or one is also the contrast.
    """
    if options.token_predictions:
        raise InputError("token_predictions= goes with targets of one token")
    results = []
    with progress_bar(len(encodings), options.progress) as advance:
        for index, encoding in enumerate(encodings):
            results.append(_explain_next(model, encoding, options.only(index)))
            advance(1)
    return results


def _explain_next(model: TaskModel, encoding: Encoding, options: Options) -> Attribution:
    """Explain what a model says next after one text, as whole answers: a row for each of several targets.

    Args:
        model: A causal language model.
        encoding: The text.
        options: The options of the call; targets and contrast are the words that follow, and by default the token that
            the model predicts.
    """
    choices = _targets(options.target)
    if not choices:
        choices = [int(model.task.outputs.default_target(next_logits(model, encoding)))]
    answers = [_followed_by(model, encoding, choice) for choice in choices]
    compared = answers
    if options.contrast is not None:
        contrast = _followed_by(model, encoding, options.contrast)
        compared = [*answers, contrast]
        answers = [_against(answer, contrast, options) for answer in answers]
    # The words that target and contrast name are in the answers now. All rows are of one quantity, to be compared.
    answer_options = replace(options, target=None, targets=None, contrast=None, explained=comparable_quantity(compared))
    rows = [explain_answer(model, answer, answer_options) for answer in answers]
    has_target_axis = options.target is not None and not is_choice(options.target)
    result = in_rows(rows) if has_target_axis else rows[0]
    notes = dict.fromkeys(note for row in rows for note in row.notes)
    # The caller's text: where the input came as token ids there is none, and the rows have a decoded one.
    return replace(result, text=encoding.text, notes=tuple(notes))


def _against(answer: Completed, contrast: Completed, options: Options) -> Completed:
    """Return an answer that is explained against the contrast; refuse an answer that is the contrast."""
    if answer.encoding.ids == contrast.encoding.ids:
        raise TargetError(f"the target {options.contrast!r} is also the contrast: their difference is zero")
    return replace(answer, other=contrast)


def _targets(target: Any) -> list[Choice]:
    """Return the targets of a text as a list, which is empty for the prediction; refuse `ALL`."""
    if isinstance(target, All):
        raise TargetError("ALL would be the whole vocabulary; name the words that you want instead")
    if target is None:
        return []
    return [target] if is_choice(target) else list(target)


def _followed_by(model: TaskModel, encoding: Encoding, choice: Choice) -> Completed:
    """Return a text with the next words that a target names."""
    outputs = cast(Vocabulary, model.task.outputs)
    tokenizer = model.tokenizer
    ids = outputs.ids_of(choice) if isinstance(choice, str) else [index_of(model.task, choice, model.vocabulary_size)]
    if tokenizer.unk_token_id in ids:
        raise TargetError(f"the tokenizer does not know a part of {choice!r}: {', '.join(map(outputs.name_of, ids))}")
    limit = model.answer_limit
    if limit is not None and len(encoding) + len(ids) - 1 > limit:  # the last token is not read, see `context`
        raise InputError(
            f"the text has {len(encoding)} tokens, {choice!r} has {len(ids)}, and the model reads {limit}; shorten it"
        )
    prompt = with_decoded_text(tokenizer, encoding)
    sequence = generating_task(model).appended(model, prompt, ids)
    return Completed(sequence, prompt_tokens=len(encoding), prompt_characters=len(prompt.text or ""))
