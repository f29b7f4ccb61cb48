"""Explain prompts with generated or given completions."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Any

from ...errors import InputError
from ...inputs.alignment import with_decoded_text
from ...inputs.chat import read_prompts
from ...inputs.texts import arrow_value, rows_of_texts, whole_number
from ...model.task_model import TaskModel
from ...results.attribution import Attribution
from ...results.collection import Attributions
from ...results.units.spans import PartSpec, SourceSpec
from ...tasks.base import generating_task
from ..options import Options, Results
from ..progress import progress_bar
from .completed_prompts import Completed, generate_each, read_completion
from .completion import explain_completions
from .leave_out import with_completion_verification
from .reasoning import ReasoningSpec, are_marks
from .sequences import explain_answer
from .sources import explain_sources

NEUTRAL_SAMPLING = {"temperature": (0, 1), "top_p": (1,), "top_k": (0, 1), "min_p": (0,), "typical_p": (1,)}
"""Settings of sampling, with the values that have no effect."""

WHOLE_ANSWERS = "a contrast is another whole answer, and parts= divides the one: leave out parts="


def explain_generated(
    model: TaskModel,
    prompts: Any,
    max_new_tokens: int | None,
    options: Options,
    settings: Mapping[str, Any],
    other_answer: Any = None,
    reasoning: ReasoningSpec | None = None,
) -> Results:
    """Generate completions of prompts, and explain every token or part, or each whole one against another answer.

    Returns:
        One result, or a list in the order of the prompts; of several sequences for each prompt they stand in a row.
    """
    given = {name for name, value in settings.items() if value is not None}
    settings = {**model.pipeline.generation, **settings}
    _check_sampling(given, settings)
    if max_new_tokens is not None:
        settings["max_new_tokens"] = max_new_tokens
    written: Results | None = generating_task(model).explain_written(model, prompts, options, settings, other_answer)
    if written is not None:
        return written
    if options.parts is not None and other_answer is not None:
        raise InputError(WHOLE_ANSWERS)
    prompt_list, single = _prompt_list(model, prompts)
    completed = generate_each(model, prompt_list, settings, reasoning)
    if other_answer is not None:
        others = [read_completion(model, prompt, other_answer) for prompt in prompt_list]
        each = len(completed) // len(others)  # of several sequences
        completed = [replace(prompt, other=others[i // each]) for i, prompt in enumerate(completed)]
    count = len(completed)
    results = _explained(model, completed, [options] * count, [None] * count, options.parts)
    return results[0] if single and count == 1 else Attributions(results)


def without_other_answer(options: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """Return the keywords of a call without a contrast that is another answer, and that answer; None for none.

    An index is a token that is subtracted at every place, and so is any contrast of a target that is one.
    """
    contrast, kept = options.get("contrast"), dict(options)
    names_tokens = any(options.get(name) is not None for name in ("target", "targets"))
    if contrast is None or names_tokens or whole_number(contrast) is not None:
        return kept, None
    return kept, kept.pop("contrast")


def _check_sampling(given: Set[str], settings: Mapping[str, Any]) -> None:
    """Refuse settings of sampling, among those that a call gives, that greedy generation would ignore."""
    samples = settings.get("do_sample", getattr(settings.get("generation_config"), "do_sample", False))
    unused = [name for name in sorted(given & set(NEUTRAL_SAMPLING)) if settings[name] not in NEUTRAL_SAMPLING[name]]
    if unused and not samples:
        raise InputError(
            f"generate: {unused[0]}= is for sampling, and greedy is the default; pass do_sample=True with it"
        )


def explain_written(
    model: TaskModel,
    prompts: Any,
    completions: Any,
    options: Options,
    sources: Any = None,
    parts: PartSpec = None,
    other_answers: Any = None,
    reasoning: Any = None,
) -> Results:
    """Explain given completions: each token by tokens, the parts by the sources of the prompt, or against others.

    Returns:
        One result, or a list in the order of the prompts.

    Raises:
        InputError: If the lists differ in length, or `parts` is given with another answer.
    """
    generating_task(model).check_prompts(model)
    if parts is not None and other_answers is not None:
        raise InputError(WHOLE_ANSWERS)
    prompt_list, single = _prompt_list(model, prompts)
    lists = {"completion": completions, "targets": options.targets, "sources": sources, "contrast": other_answers}
    lists |= {"reasoning": reasoning}
    of_all = {"sources": isinstance(sources, str), "reasoning": are_marks(reasoning)}
    lists |= {name: [lists[name]] * len(prompt_list) for name, is_of_all in of_all.items() if is_of_all and not single}
    rows = {name: [value] if single else _one_each(name, value, len(prompt_list)) for name, value in lists.items()}
    each_options = [replace(options, targets=targets) for targets in rows["targets"]]
    of_each = zip(prompt_list, rows["completion"], rows["reasoning"], strict=True)
    completed = [read_completion(model, before, after, reasoning=spec) for before, after, spec in of_each]
    pairs = zip(completed, rows["sources"], strict=True)
    divisions: list[SourceSpec | None] = [
        None if division is None else prompt.division(division) for prompt, division in pairs
    ]
    if other_answers is not None:
        others = map(partial(read_completion, model), prompt_list, rows["contrast"])
        completed = [replace(prompt, other=other) for prompt, other in zip(completed, others, strict=True)]
    results = _explained(model, completed, each_options, divisions, parts)
    return results[0] if single else Attributions(results)


def _explained(
    model: TaskModel,
    completed: Sequence[Completed],
    options: Sequence[Options],
    divisions: Sequence[SourceSpec | None],
    parts: PartSpec,
) -> list[Attribution]:
    """Explain completions by token, by part, or each whole one against its other answer, and verify them."""
    each = list(zip(completed, options, divisions, strict=True))
    if completed and completed[0].other is not None:
        return [explain_answer(model, prompt, own, by) for prompt, own, by in each]
    if parts is None and not any(by is not None for by in divisions):
        results = explain_completions(model, completed, options)
    else:
        results = []
        with progress_bar(len(completed), None) as advance:
            for prompt, own, by in each:
                results.append(explain_sources(model, prompt, own, by, parts))
                advance(1)
    return [
        with_completion_verification(model, prompt, result, own.verify, by)
        for result, (prompt, own, by) in zip(results, each, strict=True)
    ]


def _prompt_list(model: TaskModel, prompts: Any) -> tuple[list[Any], bool]:
    """Return prompts as a list, tokenised ones as encodings, and whether a single one was given."""
    encoded = model.encoder.read_encoded(prompts)
    if encoded is not None and not model.task.position.left_to_right:
        raise InputError(f"prompts of token ids are for causal language models; {model.name} takes the text")
    if encoded is None:
        return read_prompts(prompts)
    return [with_decoded_text(model.tokenizer, encoding) for encoding in encoded[0]], encoded[1]


def _one_each(name: str, values: Any, count: int) -> list[Any]:
    """Return a list of values after checking that there is one for each prompt."""
    if values is None and name != "completion":
        return [None] * count
    values = rows_of_texts(values)
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise InputError(f"of several prompts {name} is a list with one for each")
    rows = [arrow_value(value) for value in values]
    if len(rows) != count:
        raise InputError(f"{len(rows)} of {name} for {count} prompts; give one for each")
    return rows
