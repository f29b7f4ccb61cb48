"""`explainer.pairs`: what two words do together, or two sentences of a prompt, beside what each does alone."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypedDict, overload

from typing_extensions import Unpack

from ..errors import InputError, TargetError
from ..explainer import Explainer
from ..extending import references
from ..inputs.chat import Prompt
from ..inputs.texts import positive_integer
from ..inputs.windows import check_fits
from ..methods import Method
from ..methods.defaults import named_or_default
from ..pipeline.completions.completed_prompts import read_completion
from ..pipeline.completions.sources import explain_sources
from ..pipeline.options import Options
from ..results.collection import Attributions
from ..tasks.targets import Choice, is_choice
from ..text.characters import Span
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
        "words of a text, regions of a picture, moments of a sound, sentences of a prompt; of documents these, or with "
        '"sentence" their sentences.',
    ]
    target: Annotated[Choice | None, "The label or token whose log-odds are explained; None for the prediction."]
    contrast: Annotated[Choice | None, "A label that is subtracted."]
    method: Annotated[
        str | Method | None, "The method whose contributions are the prior; by default as `normxlogit methods` says."
    ]


class AnswersOfInputs(NamedTuple):
    """The answers to inputs with some of their units."""

    answers: list[UnitAnswers]  # to each input
    is_single: bool  # whether the caller passed one input, and not a list


@overload
def pairs(  # pyright: ignore[reportOverlappingOverload]  # a string is one text, not its letters
    explainer: Explainer,
    inputs: Prompt | tuple[str, str],
    completion: str | None = None,
    documents: Any = None,
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
    explainer: Explainer, inputs: Any, completion: Any = None, documents: Any = None, **options: Unpack[Keywords]
) -> Pairs | Attributions[Pairs]:
    """Explain which units of an input act together: needed both, either will do, or one turns the other round.

    The model is asked for `budget` inputs with some of their units masked, or deleted where it was not trained with
    masks. A regression on these answers gives the effect of each unit and of each pair; its prior are the contributions
    of the default method. The pairs of the largest joint effects are tested: the model is asked without one, without
    the other and without both.

    Args:
        inputs: A text, a pair of texts, a picture or a sound; or a prompt with `completion`; or several.
        completion: A completion of the prompt, whose log-probability is explained; of several prompts a list.
        documents: Documents of a question, as `cite` takes them; the completion is the answer, and None lets the model
            write one.
        **options: What is explained and how, see `Keywords`.

    Returns:
        The effects and the tested pairs; of several inputs a list.

    Raises:
        InputError: If there are no two units, or the budget is too small or too large.
        TargetError: If a target does not exist.
        MethodError: If the method does not exist.
        UnsupportedModelError: If the answer is a span of the text, or the method does not work on the model.
    """
    if documents is not None:
        unit_answers = answers_to_documents(explainer, inputs, documents, completion, options)
        return explain_pairs(unit_answers, _budget(options))
    if completion is not None:
        return _explained(answers_to_prompts(explainer, inputs, completion, options), options)
    return _explained(answers_to_texts(explainer, inputs, options), options)


def _budget(options: Keywords) -> int:
    """Return how many inputs the model is asked at most."""
    budget = options.get("budget")
    return BUDGET if budget is None else positive_integer(budget, "budget")


def _explained(inputs: AnswersOfInputs, options: Keywords) -> Pairs | Attributions[Pairs]:
    """Return the pairs of inputs, or of a single one."""
    budget = _budget(options)
    if inputs.is_single:
        return explain_pairs(inputs.answers[0], budget)
    return Attributions([_explained_input(place, answers, budget) for place, answers in enumerate(inputs.answers)])


def _explained_input(place: int, unit_answers: UnitAnswers, budget: int) -> Pairs:
    """Return the pairs of one of several inputs, whose place errors name."""
    try:
        return explain_pairs(unit_answers, budget)
    except InputError as error:
        raise InputError(f"input {place}: {error}") from None  # the cause is this error without the place


def answers_to_texts(explainer: Explainer, inputs: Any, options: Keywords) -> AnswersOfInputs:
    """Explain texts, or pictures or sounds; return the answers to them with some units.

    Args:
        explainer: The model.
        inputs: One or several.
        options: As of `pairs`.
    """
    model = explainer.task_model
    model.task.check_input(model, "one input")
    model.refresh()  # labels, limits and inputs are read before the input
    encodings, is_single = model.task.encode(model, inputs)  # once, for the explanation and for what is left out
    explain_options: dict[str, Any] = {name: options.get(name) for name in ("contrast", "method")}
    explain_options["target"] = checked_target(options.get("target"))
    attributions = explainer(encodings, **explain_options)
    answers = [
        answers_to_text(model, encoding, a, options.get("units"))
        for encoding, a in zip(encodings, attributions, strict=True)
    ]
    return AnswersOfInputs(answers, is_single)


def checked_target(target: Any) -> Any:
    """Return a target; refuse several: each has pairs of its own."""
    if target is None or is_choice(target):
        return target
    raise TargetError(f"pairs explains one target of an input, not {target!r}; call it for each")


def answers_to_prompts(explainer: Explainer, prompts: Any, completions: Any, options: Keywords) -> AnswersOfInputs:
    """Explain completions; return their log-probabilities with some units of the prompts.

    Args:
        explainer: The model.
        prompts: One or several.
        completions: One for each.
        options: As of `pairs`.
    """
    _check_no_label(options)
    units: Any = options.get("units") or OF_PROMPT
    is_single = isinstance(completions, str)  # a prompt may itself be a list, of messages
    prompt_list = [prompts] if is_single else list(prompts)
    completion_list = [completions] if is_single else list(completions)
    if len(prompt_list) != len(completion_list):
        raise InputError(f"{len(completion_list)} completions for {len(prompt_list)} prompts; give one for each")
    answers = []
    for prompt, completion in zip(prompt_list, completion_list, strict=True):
        a = explainer.explain_completion(prompt, completion, sources=units, method=options.get("method"))
        completed = read_completion(explainer.language_model, prompt, completion)
        answers.append(answers_to_prompt(explainer.language_model, completed, a, completed.division(units)))
    return AnswersOfInputs(answers, is_single)


def answers_to_documents(
    explainer: Explainer, question: Any, documents: Any, answer: Any, options: Keywords
) -> UnitAnswers:
    """Explain an answer from documents; return its log-probability with some of these, or of their sentences.

    Args:
        explainer: A language model.
        question: The question.
        documents: Its documents, as `cite` takes them.
        answer: The answer; None lets the model write one.
        options: As of `pairs`.

    Raises:
        InputError: If nothing reads documents, the units are others, or the documents are too long for the model.
    """
    if "cite" not in references("calls"):
        raise InputError(
            "documents= needs the folder normxlogit/grounding, which is not there; run: "
            "pip install --force-reinstall --no-deps normxlogit"
        )
    # Here, as the folder may be missing.
    from ..grounding.citations.cited_answer import read_answered

    _check_no_label(options)
    units = options.get("units") or "document"
    if units not in ("document", "sentence"):
        raise InputError(f'units of documents are "document" or "sentence", not {units!r}')
    model = explainer.language_model
    completed = read_answered(model, question, documents, answer=answer).completed
    check_fits("documents, question and answer have", len(completed.encoding), model.answer_limit)
    sentences = completed.named_sources
    division = sentences if units == "sentence" else whole_documents(sentences)
    settings = Options(method=named_or_default(options.get("method"), "completions"))
    a = explain_sources(model, completed, settings, division)
    return answers_to_prompt(model, completed, a, division)


def whole_documents(sentences: Mapping[str, Span]) -> dict[str, Span]:
    """Return the spans of documents by name from those of their sentences, which are called "notes.txt:3".

    Args:
        sentences: Spans of sentences, in their order.
    """
    spans: dict[str, Span] = {}
    for name, (start, end) in sentences.items():
        document = name.rpartition(":")[0]
        document_start, _ = spans.get(document, (start, end))  # of its first sentence
        spans[document] = document_start, end
    return spans


def _check_no_label(options: Keywords) -> None:
    """Refuse what is of labels and tokens, where a completion is explained."""
    for name in ("target", "contrast"):
        if options.get(name) is not None:
            raise InputError(f"{name}= is for labels and tokens; a completion is explained whole")
