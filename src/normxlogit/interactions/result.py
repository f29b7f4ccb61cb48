"""`Pairs`: the joint effects of pairs of units, beside their single ones."""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from ..inputs.texts import numbered
from ..results.attribution import Attribution
from ..results.base import Record
from ..results.storage.schema import Float64Array, FloatArray, Index, Number, require
from ..results.storage.tables import Columns
from ..results.targets import Quantity
from ..results.units.characters import shortened, visible
from ..results.verification import LEAST_LOSS, Removal, Verification, answer_text

Kind = Literal["needed both", "either will do", "turns round", "together"]
"""What two units do together, see `kind_of`."""

SENTENCES: dict[Kind, str] = {
    "needed both": "The answer needs both {} and {}",
    "either will do": "Either {} or {} will do",
    "turns round": "{} and {} turn each other round",
    "together": "{} and {} act together, each adding {amount} beside the other",
}

LONGEST = 60
"""Most characters of a unit in a sentence."""


class Pair(NamedTuple):
    """Two units that were tested.

    Attributes:
        units: Their places among the units.
        joint: Their joint effect by the regression, or exactly.
        tested: Their joint effect in the whole input, measured: the quantity of the whole, less those without one and
            without the other, plus that without both.
        kind: What they do together.
        verified: The answers without one, without the other, and without both.
    """

    units: tuple[Index, Index]
    joint: Number
    tested: Number
    kind: Kind
    verified: Verification

    def __str__(self) -> str:
        first, second = (f'"{shortened(visible(removal.units[0]), LONGEST)}"' for removal in self.verified.single)
        without_first, without_second = (answer_text(removal, self.verified) for removal in self.verified.single)
        without_both = answer_text(self.verified.together, self.verified)
        amount = "more" if self.tested > 0 else "less"
        effect = SENTENCES[self.kind].format(first, second, amount=amount)
        measured = f"without {first} {without_first}, without {second} {without_second}, without both {without_both}"
        return f"{effect}: {measured}."


def largest_pairs(joint: FloatArray | Float64Array, count: int) -> list[tuple[int, int]]:
    """Return the places of the units of the largest joint effects, the largest first.

    Args:
        joint: The joint effect of each two of M units, (M, M), symmetric.
        count: How many pairs are returned at most.
    """
    first, second = np.triu_indices(len(joint), 1)  # each two once
    ranked = np.argsort(-np.abs(joint[first, second]), kind="stable")[:count]
    return list(zip(first[ranked].tolist(), second[ranked].tolist(), strict=True))


def k_shapley(single: FloatArray, joint: FloatArray) -> FloatArray:
    """Return the values of units in the k-Shapley interactions (k-SII) of order 2, (M,); joint effects stay.

    From the Shapley value of a unit half of each joint effect that it takes part in is taken off, so that units and
    pairs add up to the value of the whole input less that of the empty one (Bordt and von Luxburg, 2023, "From Shapley
    Values to Generalized Additive Models and back", theorem 4, where B_1 = -1/2).

    Args:
        single: Shapley values, (M,).
        joint: Shapley interactions, (M, M), zero on the diagonal.
    """
    return single - joint.sum(1) / 2


def kind_of(verified: Verification) -> Kind:
    """Return what two units do together, by the measured answers without them.

    The answer goes without a unit if the prediction is another one; of a completion if it loses `LEAST_LOSS` nats.
    Values, such as of a regression, have no answer that goes.

    Args:
        verified: The answers without one, the other, and both.
    """
    goes_without_first, goes_without_second = map(_answer_goes, verified.single)
    goes_without_both = _answer_goes(verified.together)
    if goes_without_both and goes_without_first and goes_without_second:  # either one alone is not enough
        return "needed both"
    if goes_without_both and not goes_without_first and not goes_without_second:
        return "either will do"
    if not goes_without_both and (goes_without_first or goes_without_second):  # what one did, the other undid
        return "turns round"
    return "together"  # the answers without them tell no more, as where one unit decides alone


def _answer_goes(removal: Removal) -> bool:
    """Return whether the answer goes without the units of a removal."""
    if removal.quantity == "log-probability":
        return removal.original - removal.value >= LEAST_LOSS
    return removal.changed


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Pairs(Record):
    """The effects of an input's units on its answer: of each, and of each two together.

    Attributes:
        attribution: The explanation by a method, whose contributions are the prior of the regression.
        units: The text or the name of each of the M units, in their order.
        unit_tokens: The units of the attribution that each is made of.
        unit: What a unit is, such as "word".
        removed_by: What happens to units that are left out: words are "masked" or "deleted".
        quantity: What the effects are parts of, such as the log-odds of the explained label.
        single: float32, (M,): the effect of each unit, averaged over which others are present (its Shapley value).
        joint: float32, (M, M): the joint effect of each two (their Shapley interaction), symmetric.
        r2: R² on masks that were kept aside: how far single and joint effects explain the answers. NaN if the answers
            do not differ.
        exact: Whether all masks were asked, so that the effects are exact; then `r2` is of all masks.
        passes: How many inputs the model was asked, the whole one and the tests included.
        pairs: The pairs that were tested and confirmed, those of the largest joint effects first.
        rejected: How many pairs were tested and not confirmed.
    """

    kind: ClassVar = "pairs"
    described: ClassVar = "pairs of units"

    attribution: Attribution
    units: tuple[str, ...]
    unit_tokens: tuple[tuple[Index, ...], ...]
    unit: str
    removed_by: str
    quantity: Quantity
    single: FloatArray
    joint: FloatArray
    r2: Number
    exact: bool
    passes: Index
    pairs: tuple[Pair, ...]
    rejected: Index

    @property
    def names(self) -> tuple[str, ...]:
        """The units, with a number where the text stood before: "good (2)"."""
        return tuple(numbered(self.units))

    @property
    def scored(self) -> Attribution:
        """The explanation by a method."""
        return self.attribution

    def k_shapley(self) -> FloatArray:
        """Return the values of the units in the k-Shapley interactions (k-SII) of order 2, (M,); see `k_shapley`."""
        return k_shapley(self.single, self.joint)

    def top(self, count: int) -> list[tuple[str, str, float]]:
        """Return the pairs of the largest joint effects, tested or not: the names of both units, and the effect."""
        names = self.names
        pairs = largest_pairs(self.joint, count)
        return [(names[first], names[second], float(self.joint[first, second])) for first, second in pairs]

    def short_text(self) -> str:
        """Return the summary that `repr` shows."""
        return f"{len(self.pairs)} of {len(self.units)} units, R² {self.r2:.2f}, {self.passes} passes"

    def validate(self) -> None:
        """Check that there is an effect of each unit and each two, and that tested pairs are of these units."""
        super().validate()
        count = len(self.units)
        require(len(self.unit_tokens) == count, "unit_tokens: not one for each unit")
        require(self.single.shape == (count,), "single: not an effect of each unit")
        require(self.joint.shape == (count, count), "joint: not an effect of each two units")
        tokens = [token for tokens in self.unit_tokens for token in tokens]
        require(max(tokens, default=0) < len(self.attribution.units), "unit_tokens: a token that is not there")
        for pair in self.pairs:
            require(max(pair.units) < count, "pairs: a unit that is not there")
            require(len(pair.verified.single) == 2, "pairs: not the answers without one and without the other")
            pair.verified.validate(len(self.attribution.units))

    def _columns(self) -> Columns:
        """Return a table with a row for each tested pair."""
        names = self.names
        measured = [pair.verified for pair in self.pairs]
        return {
            "text": [self.attribution.prompt for _ in self.pairs],
            "first": [names[pair.units[0]] for pair in self.pairs],
            "second": [names[pair.units[1]] for pair in self.pairs],
            "kind": [pair.kind for pair in self.pairs],
            "joint": [pair.joint for pair in self.pairs],
            "tested": [pair.tested for pair in self.pairs],
            "original": [verified.original.value for verified in measured],
            "without_first": [verified.single[0].value for verified in measured],
            "without_second": [verified.single[1].value for verified in measured],
            "without_both": [verified.together.value for verified in measured],
        }
