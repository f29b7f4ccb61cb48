"""Results as SHAP's explanations, on which its plots work."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from ..errors import DataError
from ..results.attribution import Attribution
from ..results.base import Record
from ..results.storage.tables import optional_module


def to_shap(results: Record | Sequence[Record]) -> Any:
    """Return the units of one text, or of several with a row for each, as a `shap.Explanation`."""
    if not results:
        raise DataError("no results to show")
    shap = optional_module("shap", "SHAP's explanations need shap: pip install shap")
    if isinstance(results, Record):
        values, base, features, names = _shap_fields(results)
        return shap.Explanation(values, base if names else float(base), np.array(features, object), output_names=names)
    texts = [_shap_fields(result) for result in results]
    all_values, bases, all_features, all_names = zip(*texts, strict=True)
    # Texts with different numbers of labels have no common array; the None keeps numpy from making one.
    alike = len({base.shape for base in bases}) == 1
    base = np.stack(bases) if alike else np.array([*bases, None], object)[:-1]  # (B,) or (B, C)
    # Names of the features let SHAP average a word over texts of different lengths.
    data = {
        "data": np.array([*(np.array(features, object) for features in all_features), None], object)[:-1],
        "feature_names": [[feature.strip() for feature in features] for features in all_features],
        "output_names": all_names[0] if all(names == all_names[0] for names in all_names) else None,
    }
    return shap.Explanation(np.array([*all_values, None], object)[:-1], base, **data)


def _shap_fields(result: Record) -> tuple[Any, Any, list[str], list[str] | None]:
    """Return the scores, (T,) or (T, C) of several labels, what they add up from, the T features, and the labels."""
    a = result.scored
    if a is not result:
        raise DataError(f"SHAP's plots show the units of one text, not {result.described}")
    if a.layers is not None:
        raise DataError("SHAP's plots know no layers; choose one with layer(...)")
    if a.completion is not None:
        raise DataError("SHAP's plots show the units of one text; of generated text take one token, as in a[0]")
    if len(a.units) > a.text_units or a.units.kind[0] != "token":
        features = [f"{name or text} " for name, text in zip(a.units.names, a.units.text, strict=True)]
    else:
        features = _token_texts(a)
    base = np.zeros(a.scores.shape[:-1])  # () or (C,)
    for constant in (a.bias, a.sink):
        base = base + constant if constant is not None and constant.shape == base.shape else base
    return a.scores.T.astype(np.float64), base, features, [t.name for t in a.targets] if a.has_target_axis else None


def _token_texts(a: Attribution) -> list[str]:
    """Cut texts into one string for each token, with the white space after it; special tokens have empty ones."""
    if a.offsets is None or a.text is None:
        return [f"{token} " for token in a.tokens]
    strings = [""] * len(a.tokens)
    for sequence, text in enumerate((a.text, a.text_pair or "")):
        indices = [i for i, s in enumerate(a.units.sequence) if s == sequence]
        starts = list(accumulate((a.offsets[i][0] for i in indices), max))  # tokens that share characters may go back
        for index, start, end in zip(indices, [0, *starts[1:]], [*starts[1:], len(text)], strict=False):
            strings[index] = text[start:end]
    return strings
