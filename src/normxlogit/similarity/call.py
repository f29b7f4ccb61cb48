"""`explainer.similarity`: what the cosine of two texts, or of a text and a picture, rests on."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, overload

from typing_extensions import Unpack

from ..explainer import Explainer
from ..methods import Method
from ..methods.defaults import named_or_default
from ..pipeline.keywords import OfVerify
from ..pipeline.options import checked_verify
from ..results.collection import Attributions
from .pairs import explain_similarity
from .result import Similarity

if TYPE_CHECKING:
    from PIL.Image import Image


class Keywords(TypedDict, total=False):
    """Keywords of `explainer.similarity`; each is None unless it is passed."""

    method: Annotated[
        str | Method | None, "By default `frozen-gradient`; perturbation methods change one text while the other stays."
    ]
    matrix: Annotated[
        bool | None,
        "Score pairs of tokens too; frozen gradient only. It takes a backward pass for each dimension of the first "
        "text's vector, and through each other text one for each token of the first.",
    ]
    prompts: Annotated[
        tuple[str, str] | None,
        "Names of the model's prompts before the first text and before the others, as sentence-transformers has them: "
        '("query", "document") explains `encode_query` and `encode_document`; by default as `encode` does.',
    ]
    verify: OfVerify


@overload
def similarity(explainer: Explainer, first: Any, second: "str | Image", **options: Unpack[Keywords]) -> Similarity: ...
@overload
def similarity(
    explainer: Explainer, first: Any, second: "Iterable[str | Image]", **options: Unpack[Keywords]
) -> Attributions[Similarity]: ...
def similarity(
    explainer: Explainer, first: Any, second: Any, **options: Unpack[Keywords]
) -> Similarity | Attributions[Similarity]:
    """Explain the cosine of two texts, of a query with each of many documents, or of a text and a picture.

    With the frozen gradient the scores of either text's tokens and its bias sum to the cosine.

    Args:
        first: A text, such as a query; for models with two towers, such as CLIP and SigLIP, a text or a picture.
        second: Another, or several such as documents, which are read in batches.
        **options: How it is explained, see `Keywords`.

    Returns:
        One result, or a list in the order of the documents.

    Raises:
        InputError: If a text is empty, or there is none to compare with.
        MethodError: If the method does not exist, or `matrix` is for another than `frozen-gradient`.
        UnsupportedModelError: If the model does not embed, or the method does not work on it.
    """
    chosen_method = named_or_default(options.get("method"), "similarity")
    return explain_similarity(
        explainer.task_model,
        first,
        second,
        chosen_method,
        matrix=bool(options.get("matrix")),
        verify=checked_verify(options.get("verify")),
        prompts=options.get("prompts"),
    )
