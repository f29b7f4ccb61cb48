"""`explainer.compare_models`: where the model answers differently from an earlier one, and by which words."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, TypedDict, overload

from typing_extensions import Unpack

from ..explainer import Explainer
from ..inputs.chat import Prompt
from ..methods import Method
from ..pipeline.keywords import OfVerify
from ..results.collection import Attributions
from ..tasks.targets import Choice
from .compare import compare
from .result import ModelDifference


class Keywords(TypedDict, total=False):
    """Keywords of `explainer.compare_models`; each is None unless it is passed."""

    target: Annotated[
        Choice | None,
        "The label that is compared; by default the answer after rather than the answer before, and of equal answers "
        "the label, rather than the other one where there are two.",
    ]
    contrast: Annotated[Choice | None, "The label that is subtracted."]
    method: Annotated[str | Method | None, "A method whose scores add up, by default `frozen-gradient`."]
    verify: OfVerify


@overload
def compare_models(  # pyright: ignore[reportOverlappingOverload]  # a string is one text, not its letters
    explainer: Explainer,
    before: Any,
    texts: Prompt | tuple[str, str],
    completion: str | None = None,
    **options: Unpack[Keywords],
) -> ModelDifference: ...
@overload
def compare_models(
    explainer: Explainer,
    before: Any,
    texts: Iterable[Any],
    completion: Sequence[str] | None = None,
    **options: Unpack[Keywords],
) -> Attributions[ModelDifference]: ...
def compare_models(
    explainer: Explainer, before: Any, texts: Any, completion: Any = None, **options: Unpack[Keywords]
) -> ModelDifference | Attributions[ModelDifference]:
    """Compare the model with an earlier one: where their answers differ, and which words carry the difference.

    The scores are those of the words in the explainer's model, the one after, less those in the model before. With
    bias and sink they add up to the difference of what is explained. Tokenizers may differ; labels are matched by
    their names. Words that `verify` names are left out in both models: what is left of the difference is in
    `verified`, where `changed` says that the models agree without them, or no longer agree.

    Args:
        before: The model before: an `Explainer`, a name or folder, (model, tokenizer), a pipeline; None for the model
            in the package. Or a function that returns a context in which the explainer's model is the one before, such
            as `peft_model.disable_adapter`.
        texts: A text, a pair, or several; of causal language models prompts.
        completion: A completion of the prompt, whose log-probabilities are compared; of several prompts a list.
        **options: What is compared and how, see `Keywords`.

    Returns:
        A `ModelDifference` of a single text, or `Attributions` of them.

    Raises:
        InputError: If a text cannot be read, both are one model, or the models' templates write different prompts.
        TargetError: If the models have no label in common, or not this one.
        MethodError: If the scores of the method do not add up.
        UnsupportedModelError: If one of them is neither a classifier or regression of texts, nor a causal language
            model that is given a completion.
    """
    differences: ModelDifference | Attributions[ModelDifference]
    differences = compare(before, explainer, texts, completion, **options)
    return differences
