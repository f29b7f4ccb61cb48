"""The ways from an answer through its reasoning back to the prompt, in three columns."""

from collections.abc import Sequence

from ..results.attribution import Attribution
from ..results.units.spans import earlier_parts
from ..results.units.through import overlap
from ..results.verification import LEAST_LOSS, likelihood_text
from .blocks import Block, Box, Piece, Ways

STRONGEST, LEAST = 3, 0.1
"""Most ways that begin at a part of the answer, and the least share of one."""


def ways_of(s: Attribution, shares: Sequence[Sequence[float | None]]) -> list[Block]:
    """Return the block of an answer that holds reasoning, of other answers none.

    Args:
        s: The attribution of the answer's parts.
        shares: The shares of sources and earlier parts in each part, (K, S + P); None for parts that it cannot read.
    """
    sources, parts, shift = s.units.sources, earlier_parts(s), len(s.prompt or "")
    if not s.reasoning or not parts or not s.has_target_axis:
        return []
    spans = [target.span or (0, 0) for target in s.targets]
    thoughts = [(shift + start, shift + end) for start, end in s.reasoning]
    is_thought = [any(overlap(span, thought) for thought in thoughts) for span in spans]
    labels = [f"S{i + 1}" for i in range(len(sources))]  # of sources, then of earlier parts
    labels += [f"{'R' if is_thought[spans.index(span)] else 'A'}{i + 1}" for i, span in enumerate(parts)]
    answer: list[Box] = []
    reasoning: list[Box] = []
    used: set[int] = set()
    for k, span in enumerate(spans):
        ranked = sorted(((share, j) for j, share in enumerate(shares[k]) if share and share >= LEAST), reverse=True)
        ways = [(labels[j], share) for share, j in ranked[:STRONGEST]]
        used |= {j for _, j in ranked[:STRONGEST] if j < len(sources)}
        place = list(parts).index(span) if span in parts else None
        loss = None if s.verified is None or place is None else s.verified.loss(parts[span])
        changes_nothing = loss is not None and loss < LEAST_LOSS
        note = "" if loss is None else f"the answer is {likelihood_text(-loss)} without it"
        source = None if place is None else len(sources) + place
        piece = Piece(s.targets[k].name, kind="grey" if changes_nothing else "strong", part=k, source=source)
        box = Box(f"A{k + 1}" if place is None else labels[len(sources) + place], piece, note, ways)
        (reasoning if is_thought[k] else answer).append(box)
    given = [
        Box(labels[j], Piece(s.units.text[sources[j]] or s.units.names[sources[j]], kind="strong", source=j))
        for j in sorted(used)
    ]
    return [Ways({"Answer": answer, "Reasoning": reasoning, "What it rests on": given})]
