"""Explain prompts with generated or given completions."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...errors import InputError
from ...inputs.chat import read_prompts
from ...inputs.decoded_tokens import with_decoded_text
from ...inputs.texts import arrow_value, is_column, is_table, text_column
from ...model.task_model import TaskModel
from ...results.attribution import Attribution
from ...results.collection import Attributions
from ...results.units.spans import SourceSpec
from ...tasks.base import GenerateSettings, generating_task
from ..options import Options, Results
from ..progress import progress_bar
from .completed import Completed
from .completed_prompts import generate_each, read_completion
from .completion import explain_completions
from .generation_settings import merged_settings
from .reasoning import are_marks
from .sources import explain_sources
from .verification import with_completion_verification
from .whole_answers import explain_answer

NEUTRAL_SAMPLING = {"temperature": (0, 1), "top_p": (1,), "top_k": (0, 1), "min_p": (0,), "typical_p": (1,)}
"""Settings of sampling, with the values that have no effect."""

OF_EACH_PROMPT = {"targets": "targets", "sources": "sources", "reasoning": "reasoning", "other_answer": "contrast"}
"""Options of which several prompts have one each, with their names in a call."""


def explain_generated(model: TaskModel, prompts: Any, options: Options, settings: GenerateSettings) -> Results:
    """Generate completions of prompts, and explain every token or part, or each whole one against another answer."""
    _check_sampling(settings, merged_settings(model, settings))
    # None for a language model: a task whose prompts are no texts, such as speech, explains what it generates itself.
    task_results: Results | None = generating_task(model).explain_written(model, prompts, options, settings)
    if task_results is not None:
        return task_results
    prompt_list, single = _prompt_list(model, prompts)
    completed = generate_each(model, prompt_list, settings, options.reasoning)
    if options.other_answer is not None:
        # One for all prompts: a list would be its token ids.
        other_answers = [read_completion(model, prompt, options.other_answer) for prompt in prompt_list]
        sequences_of_prompt = len(completed) // len(other_answers)  # several with num_return_sequences=
        completed = [
            replace(prompt, other=other_answers[index // sequences_of_prompt]) for index, prompt in enumerate(completed)
        ]
    # No option of `generate` differs by prompt. A single prompt may have several completions.
    results = _explain_completed(model, completed, [options] * len(completed))
    return results[0] if single and len(completed) == 1 else Attributions(results)


def _check_sampling(called: GenerateSettings, merged: GenerateSettings) -> None:
    """Refuse settings of sampling that a call gives, and that greedy generation would ignore; see `merged_settings`.

    The model's own settings do not count: it is greedy unless a call or its configuration asks for sampling.
    """
    # A setting by itself goes before that in a configuration, as in `generate`.
    samples = merged.get("do_sample", getattr(merged.get("generation_config"), "do_sample", False))
    unused = [name for name, neutral in NEUTRAL_SAMPLING.items() if called.get(name) not in (None, *neutral)]
    if unused and not samples:
        raise InputError(
            f"generate: {unused[0]}= is for sampling, and greedy is the default; pass do_sample=True with it"
        )


def explain_given(
    model: TaskModel, prompts: Any, completions: Any, options: Options, settings: GenerateSettings
) -> Results:
    """Explain given completions: each token by tokens, the parts by the sources of the prompt, or against others.

    Args:
        model: The model.
        prompts: A prompt, or several.
        completions: A completion of each prompt.
        options: The options of the call.
        settings: Those of `DECODER_SETTINGS` that the call gives.
    """
    generating_task(model).check_prompts(model)
    if settings and model.copy.decoder_limit is None:
        raise InputError(f"{model.name} has no decoder beside an encoder: leave out {next(iter(settings))}=")
    prompt_list, single = _prompt_list(model, prompts)
    options_of_each = [options] if single else _options_of_each(options, len(prompt_list))
    texts = [completions] if single else _one_each("completion", completions, len(prompt_list))
    completed = []
    for prompt, text, own_options in zip(prompt_list, texts, options_of_each, strict=True):
        complete = partial(read_completion, model, prompt, settings=settings)
        other = None if own_options.other_answer is None else complete(own_options.other_answer)
        completed.append(replace(complete(text, reasoning=own_options.reasoning), other=other))
    results = _explain_completed(model, completed, options_of_each)
    return results[0] if single else Attributions(results)


def _explain_completed(
    model: TaskModel, completed: Sequence[Completed], options: Sequence[Options]
) -> list[Attribution]:
    """Explain completions by token, by part, or each whole one against its other answer, and verify them.

    Args:
        model: A model that generates.
        completed: The prompts with their completions.
        options: The options of each.
    """
    divisions: list[SourceSpec | None] = [
        prompt.division(own_options.sources) for prompt, own_options in zip(completed, options, strict=True)
    ]
    has_other = {prompt.other is not None for prompt in completed}
    if len(has_other) > 1:  # with a contrast of some prompts and None of others
        return [
            _explain_completed(model, [own], [own_options])[0]
            for own, own_options in zip(completed, options, strict=True)
        ]
    if has_other == {True}:
        return list(map(partial(explain_answer, model), completed, options, divisions))
    if all(own_options.parts is None and own_options.sources is None for own_options in options):
        results = explain_completions(model, completed, options)
    else:
        results = []
        with progress_bar(len(completed), None) as advance:
            for prompt, own_options, division in zip(completed, options, divisions, strict=True):
                results.append(explain_sources(model, prompt, own_options, division, own_options.parts))
                advance(1)
    return [
        with_completion_verification(model, prompt, result, own_options.verify, division)
        for prompt, result, own_options, division in zip(completed, results, options, divisions, strict=True)
    ]


def _prompt_list(model: TaskModel, prompts: Any) -> tuple[list[Any], bool]:
    """Return prompts as a list, tokenised ones as encodings, and whether a single one was given."""
    # `continued`: `generate` counts positions from the first real token, also where padding stands before it.
    tokenised = model.encoder.read_encoded(prompts, continued=True)
    if tokenised is None:
        return read_prompts(prompts)
    if not model.task.position.left_to_right:
        raise InputError(f"prompts of token ids are for causal language models; {model.name} takes the text")
    encodings, single = tokenised
    return [with_decoded_text(model.tokenizer, encoding) for encoding in encodings], single


def _options_of_each(options: Options, count: int) -> list[Options]:
    """Return the options of each of several prompts: those of `OF_EACH_PROMPT` are its own, all others the same."""
    lists: dict[str, list[Any]] = {}
    for name, argument in OF_EACH_PROMPT.items():
        value = getattr(options, name)
        if not _is_for_all_prompts(name, value):
            lists[name] = _one_each(argument, value, count)
    return [replace(options, **{name: values[index] for name, values in lists.items()}) for index in range(count)]


def _is_for_all_prompts(name: str, value: Any) -> bool:
    """Return whether an option is the same for all prompts: none, a kind of source, or marks of reasoning."""
    if name == "sources" and isinstance(value, str):
        return True
    return value is None or (name == "reasoning" and are_marks(value))


def _one_each(name: str, values: Any, count: int) -> list[Any]:
    """Return a list of values after checking that there is one for each prompt."""
    values = text_column(values) if is_table(values) else values
    if not is_column(values) or isinstance(values, set | frozenset):  # sets have no order
        raise InputError(f"of several prompts {name} is a list with one for each")
    rows = [arrow_value(value) for value in values]
    if len(rows) != count:
        raise InputError(f"{len(rows)} of {name} for {count} prompts; give one for each")
    return rows
