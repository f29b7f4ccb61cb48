"""The blocks of a difference of two models."""

from dataclasses import replace

from ..render.blocks import Block, Header, Sentences
from ..render.charts import Legend
from ..render.describe import header, model_text
from ..render.layout import layout
from ..render.text import attribution_blocks
from ..results.targets import prediction_text
from ..results.units.characters import visible
from ..results.verification import verdict
from .result import ModelDifference


def difference_blocks(d: ModelDifference, *, words: bool | None = None) -> list[Block]:
    """Return the blocks of a difference: both answers, the words that carry it, and the words of each model."""
    name, contrast = visible(d.target.name), visible(d.target.contrast or "")
    answers = [prediction_text(answer) for answer in d.answers] or [f"{nats:.2f} nats" for nats in d.measured]
    described = header([d], verdict(d.verified))
    facts = [
        ("explained", f"{name}{f' rather than {contrast}' if d.target.contrast else ''}, after minus before"),
        ("before", model_text(d.models[0])),
        ("after", model_text(d.models[1])),
        *(fact for fact in described.facts if fact[0] == "method"),
    ]
    rows = [layout(d).sentence(caption="difference")]
    if d.scores_of_each is not None:
        rows += [layout(a).sentence(caption=c) for a, c in ((d.before, "before"), (d.after, "after"))]
    away = f"towards {contrast}" if d.target.contrast else f"away from {name}"
    blocks: list[Block] = []
    for block in attribution_blocks(d):
        if isinstance(block, Header):
            block = replace(described, prediction=" → ".join(answers), facts=facts)
        elif isinstance(block, Sentences):
            block = replace(block, rows=rows)
        elif isinstance(block, Legend):
            notes = ["each line by its own largest score"] if d.scores_of_each is not None else []
            block = replace(block, positive=f"towards {name}", negative=away, notes=notes, grid=None)
        blocks.append(block)
    return blocks
