"""A call with a result of its own: how far the answer to a text stays the same in other spellings of it."""

from dataclasses import dataclass
from typing import Any, ClassVar

from normxlogit import Attribution, Explainer
from normxlogit.render.blocks import Block, Column, Header, Table, cell
from normxlogit.results.base import Record

SPELLINGS = {"lower case": str.lower, "upper case": str.upper, "one more full stop": "{}.".format}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Stability(Record):
    """The answers to other spellings of a text.

    Attributes:
        attribution: The explanation of the text as it is.
        spellings: What was changed.
        labels: The predicted label of each spelling.
    """

    kind: ClassVar = "stability"
    described: ClassVar = "a stability"

    attribution: Attribution
    spellings: tuple[str, ...]
    labels: tuple[str, ...]

    @property
    def scored(self) -> Attribution:
        """The attribution that the result holds."""
        return self.attribution

    @property
    def share(self) -> float:
        """The share of spellings with the same answer."""
        return self.labels.count(self.attribution.prediction.label) / len(self.labels)

    def _shown(self) -> str:
        return f"{self.share:.0%} of {len(self.labels)} spellings"

    def _heading(self) -> str:
        return self.attribution.text or ""

    def _validate(self) -> None:
        if len(self.labels) != len(self.spellings):
            raise ValueError("labels: not one for each spelling")


def stability(explainer: Explainer, text: str, *, method: str | None = None) -> Stability:
    """Explain a text, and predict the label of other spellings of it.

    Args:
        text: The text.
        method: The method of the explanation.
    """
    spelled = [change(text) for change in SPELLINGS.values()]
    labels = tuple(result.prediction.label for result in explainer(spelled, method="input-norm"))
    return Stability(attribution=explainer(text, method=method), spellings=tuple(SPELLINGS), labels=labels)


def stability_blocks(result: Stability, **_: Any) -> list[Block]:
    """Return the blocks that terminals, pages and notebooks draw."""
    rows = [[cell(name), cell(label)] for name, label in zip(result.spellings, result.labels, strict=True)]
    answer = f"{result.attribution.prediction.label}, the answer to {result.share:.0%} of the spellings"
    return [
        Header(answer, [("text", result.attribution.text or "")]),
        Table([Column("spelling"), Column("label")], rows),
    ]
