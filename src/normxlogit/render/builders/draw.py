"""What a result is drawn with: the blocks that fit what was explained."""

from ...results.attribution import Attribution
from ...results.units.words import Merge
from ..blocks import Block
from .generation import generation_blocks
from .similarity import similarity_blocks
from .sources import source_blocks
from .text import attribution_blocks


def blocks_of(a: Attribution, *, words: bool | None = None, merge: Merge | None = None, cost: str = "") -> list[Block]:
    """Return what drawings of a result consist of.

    Args:
        a: The result.
        words: Whether to merge tokens to words, where single units are listed; by default where the result can tell.
        merge: How.
        cost: What the method costs, in words.

    Raises:
        DataError: If words are asked for and the result has none.
    """
    if a.completion is not None:
        tokens = a.targets[0].kind == "token" and a.prompt_tokens is not None
        return generation_blocks(a) if tokens and a.generated else source_blocks(a)
    if a.quantity == "cosine" and "token" in a.units.kind:
        return similarity_blocks(a)
    return attribution_blocks(a, words=words, merge=merge, cost=cost)
