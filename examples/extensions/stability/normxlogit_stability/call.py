"""The call: `explainer.stability(text)`."""

from collections.abc import Sequence
from typing import Any

from normxlogit import Explainer
from normxlogit_stability.result import Stability

SPELLINGS = {"lower case": str.lower, "upper case": str.upper, "one more full stop": "{}.".format}


def stability(
    explainer: Explainer,
    text: str,
    *,
    spellings: Sequence[str] = tuple(SPELLINGS),
    method: str | None = None,
    verify: Any = None,
) -> Stability:
    """Explain a text, and predict the label of other spellings of it.

    Args:
        text: The text.
        spellings: What is changed, by default everything in `SPELLINGS`.
        method: The method of the explanation.
        verify: What of the text is left out, as in a call of the explainer.
    """
    spelled = [SPELLINGS[name](text) for name in spellings]
    labels = tuple(result.prediction.label for result in explainer(spelled, method="input-norm"))
    attribution = explainer(text, method=method, verify=verify)
    share = labels.count(attribution.prediction.label) / len(labels)
    return Stability(attribution=attribution, spellings=tuple(spellings), labels=labels, share=share)
