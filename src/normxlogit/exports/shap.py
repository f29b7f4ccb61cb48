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
    base: Any  # the explained quantity less the sum of the scores, () or (C,)
    features: list[str]  # the texts of the T units
    label_names: list[str] | None  # None for one label


def to_shap(results: Record | Sequence[Record]) -> Any:
    """Return the units of one text, or of several with a row for each, as a `shap.Explanation`.

    Args:
        results: A result of one text, or several of them.

    Raises:
        DataError: If there are none, or a result is of layers or of generated text.
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
    """Return an explanation with a row for each text."""
    bases = [text.base for text in texts]
    # Texts with different numbers of labels have no common array.
    alike = len({base.shape for base in bases}) == 1
    label_names = texts[0].label_names
    return shap.Explanation(
        _object_array([text.scores for text in texts]),
        np.stack(bases) if alike else _object_array(bases),  # (B,) or (B, C)
        data=_object_array([np.array(text.features, object) for text in texts]),
        # Names of the features let SHAP average a word over texts of different lengths.
        feature_names=[[feature.strip() for feature in text.features] for text in texts],
        output_names=label_names if all(text.label_names == label_names for text in texts) else None,
    )


def _object_array(values: Sequence[Any]) -> Any:
    """Return an array of arrays, which keep their own shapes; the None keeps numpy from making one of them."""
    return np.array([*values, None], object)[:-1]


def _shap_fields(result: Record) -> _ShapFields:
    """Return what SHAP shows of a result; refuse one that is not of the units of one text."""
    a = result.scored
    _check_shown(a, result)
    units = a.units
    has_media = len(units) > a.text_units
    if units.kind[0] == "token" and not has_media:
        features = _token_texts(a)
    else:  # words, and patches or moments, are no pieces that together make up the text
        features = [f"{name or text} " for name, text in zip(units.names, units.text, strict=True)]
    base = np.zeros(a.scores.shape[:-1])  # () or (C,)
    for constant in (a.bias, a.sink):
        if constant is not None and constant.shape == base.shape:
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
    if a.layers is not None:
        raise DataError("SHAP's plots know no layers; choose one with layer(...)")
    if a.completion is not None:
        raise DataError("SHAP's plots show the units of one text; of generated text take one token, as in a[0]")


def _token_texts(a: Attribution) -> list[str]:
    """Cut texts into one string for each token, with the white space after it; special tokens have empty ones.

    Where it is not known which characters a token has, its own string is returned.
    """
    if a.offsets is None or a.text is None:
        return [f"{token} " for token in a.tokens]
    strings = [""] * len(a.tokens)
    for number, text in enumerate((a.text, a.text_pair or "")):
        tokens = [token for token, sequence in enumerate(a.units.sequence) if sequence == number]
        # Tokens that share characters may begin before the token before them.
        starts = list(accumulate((a.offsets[token][0] for token in tokens), max))
        cuts = [0, *starts[1:], len(text)]  # each token reaches up to the next one
        for token, (start, end) in zip(tokens, pairwise(cuts), strict=False):  # of no tokens there is one piece
            strings[token] = text[start:end]
    return strings
