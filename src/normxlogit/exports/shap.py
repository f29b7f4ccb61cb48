"""Results as SHAP's explanations, on which its plots work."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from ..errors import DataError, optional_module
from ..results.attribution import Attribution
from ..results.base import Record


class _ShapFields(NamedTuple):
    """What SHAP shows of a text."""

    scores: Any  # (T,), or (T, C) of several labels
    base: Any  # what the scores are added to, () or (C,); 0 if they do not add up to the explained quantity
    features: list[str]  # the texts of the T units
    label_names: list[str] | None  # None for one label


def to_shap(results: Record | Sequence[Record]) -> Any:
    """Return the units of one text, or of several with a row for each, as a `shap.Explanation`.

    Args:
        results: A result of one text, or several of them.

    Raises:
        DataError: If there are none, or a result is of layers, of generated text or of a similarity.
    """
    if not results:
        raise DataError("no results to show")
    shap = optional_module("shap", "SHAP's explanations need shap: pip install shap")
    if isinstance(results, Record):
        text = _shap_fields(results)
        base = text.base if text.label_names else float(text.base)
        features = np.array(text.features, object)
        return shap.Explanation(text.scores, base, features, output_names=text.label_names)
    return _of_several(shap, [_shap_fields(result) for result in results])


def _of_several(shap: Any, texts: Sequence[_ShapFields]) -> Any:
    """Return SHAP's explanation of B texts, with a row for each.

    Args:
        shap: The package.
        texts: What it shows of each text.
    """
    bases = [text.base for text in texts]
    # Texts that are explained for different numbers of labels have no common array.
    same_shape = len({base.shape for base in bases}) == 1
    label_names = texts[0].label_names
    return shap.Explanation(
        _object_array([text.scores for text in texts]),
        np.stack(bases) if same_shape else _object_array(bases),  # (B,) or (B, C)
        data=_object_array([np.array(text.features, object) for text in texts]),
        # Names of the features let SHAP average a word over texts of different lengths.
        feature_names=[[feature.strip() for feature in text.features] for text in texts],
        output_names=label_names if all(text.label_names == label_names for text in texts) else None,
    )


def _object_array(arrays: Sequence[Any]) -> Any:
    """Return an array whose elements are arrays, each with its own shape."""
    # NumPy would join arrays of one shape to one of numbers; with a None among them it does not.
    return np.array([*arrays, None], object)[:-1]


def _shap_fields(result: Record) -> _ShapFields:
    """Return what SHAP shows of the attribution that a result is, or holds; refuse one not of the units of one text.

    The base is the bias, with what attention sinks contribute. It is 0 for methods whose scores do not add up.
    """
    a = result.scored
    _check_shown(a, result)
    units = a.units
    has_media = len(units) > a.text_units
    # `units.kind` has the kind of each. If one is a token, all of the text are: what groups tokens leaves none.
    if "token" in units.kind and not has_media:
        features = _token_texts(a)
    else:  # words, and patches or moments, are no pieces that together make up the text
        features = [f"{name or text} " for name, text in zip(units.names, units.text, strict=True)]
    base = np.zeros(a.scores.shape[:-1])  # () or (C,)
    for constant in (a.bias, a.sink):
        if constant is not None:
            base = base + constant
    label_names = [target.name for target in a.targets] if a.has_target_axis else None
    scores = a.scores.T.astype(np.float64)  # (T,) or (T, C)
    return _ShapFields(scores, base, features, label_names)


def _check_shown(a: Attribution, result: Record) -> None:
    """Refuse results with more than the scores of the units of one text.

    Args:
        a: The attribution of the result.
        result: The result: the attribution itself, or one of another kind that holds it.
    """
    if a is not result:
        raise DataError(f"SHAP's plots show the units of one text, not {result.described}")
    if a.bias is not None and a.bias.shape != a.scores.shape[:-1]:
        raise DataError("SHAP's plots add all scores to one base, and a similarity has one for each of its texts")
    if a.layers is not None:
        raise DataError("SHAP's plots know no layers; choose one with layer(...)")
    if a.completion is not None:
        raise DataError("SHAP's plots show the units of one text; of generated text take one token, as in a[0]")


def _token_texts(a: Attribution) -> list[str]:
    """Return the text of each token with the white space after it, so that all together are the text.

    Special tokens have empty texts. Where characters are not known, it is the token's name.
    """
    if a.offsets is None or a.text is None:
        return [f"{token} " for token in a.tokens]
    token_texts = [""] * len(a.tokens)
    for sequence, text in enumerate((a.text, a.text_pair or "")):
        tokens = [token for token, of_text in enumerate(a.units.sequence) if of_text == sequence]
        # Tokens that share characters may begin before the token before them.
        starts = list(accumulate((a.offsets[token][0] for token in tokens), max))
        edges = [0, *starts[1:], len(text)]  # each token reaches up to the next one
        # A second text that is not there has no tokens, but two edges.
        for token, (start, end) in zip(tokens, pairwise(edges), strict=False):
            token_texts[token] = text[start:end]
    return token_texts
