"""The self-test of an installation: one text explained by the model in the package, and two comparisons."""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from ..explainer import Explainer

TEXT = "The movie is mediocre, maybe even bad."
METHOD = "frozen-gradient"


@dataclass(frozen=True)
class SelfTest:
    """What the self-test measured.

    Attributes:
        text: The text that was explained.
        method: The method.
        device: The device that the model ran on.
        dtype: The type of its logits.
        label: The label that the model predicts.
        probability: Its probability.
        words: The words of the text with their scores.
        scores: The sum of all scores, those of special tokens included.
        sink: What attention sinks contribute; 0 without sinks.
        bias: What the model's constants contribute.
        logit: The logit of the label, by a call of the model without the library.
        tolerance: The largest difference of the sum and the logit that rounding explains.
        round_trip: Whether the result, saved to a file and loaded again, is the same.
        seconds: How long it took, without the imports.
    """

    text: str
    method: str
    device: str
    dtype: str
    label: str
    probability: float
    words: tuple[tuple[str, float], ...]
    scores: float
    sink: float
    bias: float
    logit: float
    tolerance: float
    round_trip: bool
    seconds: float

    @property
    def total(self) -> float:
        """Scores, sink and bias, which add up to the logit."""
        return self.scores + self.sink + self.bias

    @property
    def passed(self) -> bool:
        """Whether the total is the logit within rounding, and the result was loaded as it was saved."""
        return abs(self.total - self.logit) <= self.tolerance and self.round_trip


def run_self_test() -> SelfTest:
    """Explain a text, compare the sum of its scores with the model's logit, and save and load the result.

    The explanation itself is refused where the proofs of the model's head and of its frozen network do not hold.

    Raises:
        Exception: Whatever an installation that does not work raises.
    """
    import numpy as np

    from ..explainer import Explainer
    from ..parts.proofs import tolerance_for_given
    from ..results.collection import load

    start = time.perf_counter()
    explainer = Explainer.from_pretrained()
    result = explainer(TEXT, method=METHOD)  # by name: as a default it would give way to another
    logits = _logits(explainer)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "result.json"
        result.save(file)
        is_same = load(file) == result
    return SelfTest(
        text=TEXT,
        method=METHOD,
        device=str(logits.device),
        dtype=str(logits.dtype).removeprefix("torch."),
        label=result.prediction.label,
        probability=result.prediction.probability or 0.0,  # a classifier has one: 0.0 is for the type alone
        words=tuple((word.text, word.score) for word in result.words()),
        scores=float(np.sum(result.scores, dtype=np.float64)),
        sink=float(0.0 if result.sink is None else result.sink),
        bias=float("nan" if result.bias is None else result.bias),  # without one the scores do not add up: a failure
        logit=float(logits[0, result.target.id]),
        tolerance=tolerance_for_given(logits),
        round_trip=is_same,
        seconds=time.perf_counter() - start,
    )


def _logits(explainer: "Explainer") -> "Tensor":
    """Return the logits of the text, (1, C), as a user of transformers computes them."""
    import torch

    inputs = explainer.tokenizer(TEXT, return_tensors="pt").to(explainer.model.device)
    with torch.inference_mode():
        logits: Tensor = explainer.model(**inputs).logits  # (1, C)
    return logits
