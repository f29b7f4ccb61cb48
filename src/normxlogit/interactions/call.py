"""`explainer.pairs`: what two words do together, or two sentences of a prompt, beside what each does alone."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, TypedDict, overload

from typing_extensions import Unpack

from ..errors import InputError, TargetError
from ..explainer import Explainer
from ..inputs.chat import Prompt
from ..inputs.texts import positive_integer, repeatable
from ..methods import Method
from ..results.attribution import Attribution
from ..results.collection import Attributions
from ..tasks.targets import Choice, is_choice
from .answers import UnitAnswers, answers_to_prompt, answers_to_text
from .explain import explain_pairs
from .result import Pairs

BUDGET = 64
"""How often the model is asked, unless the caller says."""

OF_PROMPT = "sentence"
"""What of a prompt is a unit, unless the caller says."""


class Keywords(TypedDict, total=False):
    """Keywords of `explainer.pairs`; each is None unless it is passed."""

    budget: Annotated[
        int | None,
        "How many inputs the model is asked at most, with the tests of pairs; by default 64. Where all masks of the "
        "units are no more (of up to 12 units), all are asked, and the effects are exact.",
    ]
    units: Annotated[
        str | Sequence[Any] | Mapping[str, Any] | None,
        'What is left out: "word", "sentence", "paragraph" or "message", or units as `verify` takes them; by default '
        "words of a text, regions of a picture and moments of a sound, and sentences of a prompt.",
    ]
    target: Annotated[Choice | None, "The label or token whose log-odds are explained; None for the prediction."]
    contrast: Annotated[Choice | None, "A label that is subtracted."]
    method: Annotated[
        str | Method | None, "The method whose contributions are the prior; by default as `normxlogit methods` says."
    ]


@overload
def pairs(  # pyright: ignore[reportOverlappingOverload]  # a string is one text, not its letters
    explainer: Explainer,
    inputs: Prompt | tuple[str, str],
    completion: str | None = None,
    **options: Unpack[Keywords],
) -> Pairs: ...
@overload
def pairs(
    explainer: Explainer,
    inputs: Iterable[Any],
    completion: Sequence[str] | None = None,
    **options: Unpack[Keywords],
) -> Attributions[Pairs]: ...
def pairs(
    explainer: Explainer, inputs: Any, completion: Any = None, **options: Unpack[Keywords]
) -> Pairs | Attributions[Pairs]:
    """Explain which units of an input act together: needed both, either will do, or one turns the other round.

    The model is asked for `budget` inputs with some of their units masked, or deleted where it was not trained with
    masks. A regression on these answers gives the effect of each unit and of each pair; its prior are the contributions
    of the default method. The pairs of the largest joint effects are tested: the model is asked without one, without
    the other and without both.

    Args:
        inputs: A text, a pair of texts, a picture or a sound; or a prompt with `completion`; or several.
        completion: A completion of the prompt, whose log-probability is explained; of several prompts a list.
        **options: What is explained and how, see `Keywords`.

    Returns:
        The effects and the tested pairs; of several inputs a list.

    Raises:
        InputError: If there are no two units, or the budget is too small or too large.
        TargetError: If a target does not exist.
        MethodError: If the method does not exist.
        UnsupportedModelError: If the answer is a span of the text, or the method does not work on the model.
    """
    if completion is not None:
        return _explained(answers_to_prompts(explainer, inputs, completion, options), options)
    return _explained(answers_to_texts(explainer, inputs, options), options)


def _budget(options: Keywords) -> int:
    budget = options.get("budget")
    return BUDGET if budget is None else positive_integer(budget, "budget")


def _explained(asked: tuple[list[UnitAnswers], bool], options: Keywords) -> Pairs | Attributions[Pairs]:
    """Return the pairs of inputs, given with whether there is one."""
    answers, single = asked
    results = [explain_pairs(answers_of_input, _budget(options)) for answers_of_input in answers]
    return results[0] if single else Attributions(results)


def answers_to_texts(explainer: Explainer, inputs: Any, options: Keywords) -> tuple[list[UnitAnswers], bool]:
    """Explain texts, or pictures or sounds; return the answers to them with some units, and whether it is one input.

    Args:
        explainer: The model.
        inputs: One or several.
        options: As of `pairs`.
    """
    model, inputs = explainer.task_model, repeatable(inputs)
    explained: dict[str, Any] = {name: options.get(name) for name in ("contrast", "method")}
    explained["target"] = checked_target(options.get("target"))
    attributions: Any = explainer(inputs, **explained)
    single = isinstance(attributions, Attribution)
    results = [attributions] if single else list(attributions)
    if any(a.has_text for a in results):
        model.task.check_input(model, "one text")
    encodings, _ = model.task.encode(model, inputs)
    each = zip(encodings, results, strict=True)
    return [answers_to_text(model, encoding, a, options.get("units")) for encoding, a in each], single


def checked_target(target: Any) -> Any:
    """Return a target; refuse several: each has pairs of its own."""
    if target is None or is_choice(target):
        return target
    raise TargetError(f"pairs explains one target of an input, not {target!r}; call it for each")


def answers_to_prompts(
    explainer: Explainer, prompts: Any, completions: Any, options: Keywords
) -> tuple[list[UnitAnswers], bool]:
    """Explain completions; return their log-probability with some units of the prompts, and whether it is one.

    Args:
        explainer: The model.
        prompts: One or several.
        completions: One for each.
        options: As of `pairs`.
    """
    if refused := [name for name in ("target", "contrast") if options.get(name) is not None]:
        raise InputError(f"{refused[0]}= is for labels and tokens; a completion is explained whole")
    units: Any = options.get("units") or OF_PROMPT
    single = isinstance(completions, str)
    prompt_list, completion_list = ([prompts], [completions]) if single else (list(prompts), list(completions))
    if len(prompt_list) != len(completion_list):
        raise InputError(f"{len(completion_list)} completions for {len(prompt_list)} prompts; give one for each")
    answers = []
    for prompt, completion in zip(prompt_list, completion_list, strict=True):
        a = explainer.explain_completion(prompt, completion, sources=units, method=options.get("method"))
        answers.append(answers_to_prompt(explainer.language_model, prompt, completion, a, units))
    return answers, single
