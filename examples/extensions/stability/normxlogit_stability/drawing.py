"""The drawing: the answer, and a row for each spelling."""

from typing import Any

from normxlogit.render.blocks import Block, Column, Header, Table, cell
from normxlogit_stability.result import Stability


def stability_blocks(result: Stability, **_: Any) -> list[Block]:
    """Return the blocks that terminals, pages and notebooks draw."""
    rows = [[cell(name), cell(label)] for name, label in zip(result.spellings, result.labels, strict=True)]
    answer = f"{result.attribution.prediction.label}, the answer to {result.share:.0%} of the spellings"
    return [
        Header(answer, [("text", result.attribution.text or "")]),
        Table([Column("spelling"), Column("label")], rows),
    ]
