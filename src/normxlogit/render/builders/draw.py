"""What a result is drawn with: the blocks that fit what was explained."""

from ...results.attribution import Attribution
from ...results.base import Record
from ...results.citations import Citations
from ..blocks import Block
from .generation import generation_blocks
from .similarity import similarity_blocks
from .sources import citation_blocks, source_blocks
from .text import attribution_blocks


def blocks_of(result: Record, *, words: bool | None = None, cost: str = "") -> list[Block]:
    """Return what drawings of a result consist of.

    Args:
        result: The result.
        words: Whether to merge tokens to words, where single units are listed; by default where the result can tell.
        cost: What the method costs, in words.

    Raises:
        DataError: If words are asked for and the result has none.
    """
    if isinstance(result, Citations):
        return citation_blocks(result)
    a: Attribution = result  # type: ignore[assignment]  # what else is drawn
    if a.completion is not None:
        tokens = a.targets[0].kind == "token" and a.prompt_tokens is not None
        return generation_blocks(a) if tokens and a.generated else source_blocks(a)
    if a.quantity == "cosine" and "token" in a.units.kind:
        return similarity_blocks(a)
    return attribution_blocks(a, words=words, cost=cost)
