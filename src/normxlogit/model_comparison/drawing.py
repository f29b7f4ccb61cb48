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
    name = visible(d.target.name)
    contrast = visible(d.target.contrast or "")
    rows = [layout(d).sentence(caption="difference")]
    notes = []
    if d.scores_of_each is not None:  # of coarser units they are not kept
        rows += [layout(d.before).sentence(caption="before"), layout(d.after).sentence(caption="after")]
        notes = ["each line by its own largest score"]
    blocks: list[Block] = []
    for block in attribution_blocks(d):  # of the scores as of any result, with what a difference shows instead
        if isinstance(block, Header):
            block = _header(d, f"{name} rather than {contrast}" if contrast else name)
        elif isinstance(block, Sentences):
            block = replace(block, rows=rows)
        elif isinstance(block, Legend):
            away = f"towards {contrast}" if contrast else f"away from {name}"
            block = replace(block, positive=f"towards {name}", negative=away, notes=notes, grid=None)
        blocks.append(block)
    return blocks


def _header(d: ModelDifference, explained: str) -> Header:
    """Return the header of a difference, with what both models answered in the place of a prediction.

    Args:
        d: The difference.
        explained: What is explained, such as "positive rather than negative".
    """
    # A completion is given to both models, which then have no answers: its log-probability by each is shown.
    answers = [prediction_text(answer) for answer in d.answers] or [
        f"{log_probability:.2f} nats" for log_probability in d.measured
    ]
    described = header([d], verdict(d.verified))
    facts = [
        ("explained", f"{explained}, after minus before"),
        ("before", model_text(d.models[0])),
        ("after", model_text(d.models[1])),
        *(fact for fact in described.facts if fact[0] == "method"),  # the others are replaced by those above
    ]
    return replace(described, prediction=" → ".join(answers), facts=facts)
