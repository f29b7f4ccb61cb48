"""The blocks of an answer and its sources, linked to each other."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..results.attribution import Attribution
from ..results.storage.schema import FloatArray
from ..results.units.media import overlap
from ..results.units.spans import earlier_parts
from ..results.verification import LEAST_LOSS, likelihood_text
from .blocks import Block, Box, Column, Fold, Header, Links, Piece, Sentence, Sentences, Table, Ways, cell
from .charts import Grid, Legend
from .describe import LARGER, method_of, model_text, removals_table, verdict
from .layout import answer_pieces, cut

SHOWN, WAYS, LEAST = 8, 3, 0.1
"""Most sources that are listed; most ways back to the prompt from a part of the answer, and the least share of one."""

SHARE = "share of the sources' total support for {} part of the answer"

HINT = (
    "Point at a part of the answer to colour what it rests on, or at a source to colour what rests on it; "
    "click to hold, Escape to let go."
)


def source_blocks(s: Attribution) -> list[Block]:
    """Return the blocks of an answer and its sources."""
    count = len(s.units.sources)
    rows, links = [], links_of(s)
    for source in s.top(SHOWN):
        name = "" if source.name == source.text else source.name
        nats = None if s.verified is None else s.verified.loss(source.position)
        rows.append((name, source.text, source.share, nats))
    return [
        Header("", facts_of(s), s.notes, verdict(s.verified)),
        as_sentences(answer_pieces(s)),
        links,
        *ways_of(s, links.data["shares"]),
        *removals_table(s.verified, LARGER),
        source_table(rows, f"The {len(rows)} strongest of {count} sources" if count > len(rows) else "Sources"),
        Legend(SHARE.format("a")),
        prompt_fold(s),
    ]


def shares_grid(s: Attribution) -> Grid:
    """Return the grid of each source's share of each part of the answer."""
    return sources_grid(s, np.nan_to_num(s.shares), label=SHARE.format("each"), signed=False)


def sources_grid(s: Attribution, values: FloatArray, **options: Any) -> Grid:
    """Return a grid of the sources' columns of values of all units, (K, U), or (U,) for a single part."""
    names = [s.units.text[i] or s.units.names[i] for i in s.units.sources]
    return Grid([t.name for t in s.targets], names, np.atleast_2d(values)[:, s.units.sources], **options)


def facts_of(s: Attribution) -> list[tuple[str, str]]:
    """Return the method and the model, as a header names them."""
    return [("method", method_of(s)), ("model", model_text(s.model))]


def as_sentences(pieces: Sequence[Piece], *, small: bool = False) -> Sentences:
    """Return the pieces of one text as a block."""
    return Sentences([Sentence("", [pieces])], small=small)


def links_of(s: Attribution, verdicts: Sequence[str] = (), direct: Attribution | None = None) -> Links:
    """Return the links between parts of the answer, sources and earlier parts, by their shares.

    The sources' shares are those of `s`, the earlier parts' and what is left to all sources those of `direct` or `s`.
    """
    direct = s if direct is None else direct
    sources, unit_of_part = s.units.sources, earlier_parts(direct)
    parts = list(unit_of_part.values())
    positive = np.maximum(np.atleast_2d(direct.scores), 0)  # (K, U)
    starts = np.array([(target.span or (0, 0))[0] for target in direct.targets])  # (K,)
    own_and_later = starts[:, None] <= np.array([start for start, _ in unit_of_part], int)  # (K, P)
    positive[:, parts] = np.where(own_and_later, 0, positive[:, parts])
    total = positive[:, [*sources, *parts]].sum(-1, keepdims=True)  # (K, 1)
    earlier = np.divide(positive[:, parts], total, out=np.zeros((len(total), len(parts))), where=total > 0)  # (K, P)
    rows = np.hstack([shares_grid(s).scores * (1 - earlier.sum(-1, keepdims=True)), earlier])  # (K, S + P)
    is_read = np.hstack([np.ones((len(rows), len(sources)), bool), ~own_and_later])  # (K, S + P)
    pairs = [zip(row.tolist(), known, strict=True) for row, known in zip(rows, is_read.tolist(), strict=True)]
    shares = [[float(f"{share:.3g}") if is_known else None for share, is_known in row] for row in pairs]
    return Links({"shares": shares} | ({"verdicts": list(verdicts)} if verdicts else {}), HINT)


def ways_of(s: Attribution, shares: Sequence[Sequence[float | None]]) -> list[Block]:
    """Return the ways from an answer through its reasoning to the prompt, in three columns; none without reasoning.

    The shares, (K, S + P), are of sources and earlier parts in each part; None for parts that it cannot read.
    """
    sources, parts, shift = s.units.sources, earlier_parts(s), len(s.prompt or "")
    if not any(first < end for first, end in s.reasoning) or not parts or not s.has_target_axis:
        return []
    spans = [target.span or (0, 0) for target in s.targets]
    thoughts = [(shift + start, shift + end) for start, end in s.reasoning]
    is_thought = [any(overlap(span, thought) for thought in thoughts) for span in spans]
    labels = [f"S{i + 1}" for i in range(len(sources))]  # of sources, then of earlier parts
    labels += [f"{'R' if is_thought[spans.index(span)] else 'A'}{i + 1}" for i, span in enumerate(parts)]
    columns: dict[str, list[Box]] = {"Answer": [], "Reasoning": []}
    used: set[int] = set()
    for k, span in enumerate(spans):
        ranked = sorted(((share, j) for j, share in enumerate(shares[k]) if share and share >= LEAST), reverse=True)
        ways = [(labels[j], share) for share, j in ranked[:WAYS]]
        used |= {j for _, j in ranked[:WAYS] if j < len(sources)}
        place = list(parts).index(span) if span in parts else None
        loss = None if s.verified is None or place is None else s.verified.loss(parts[span])
        changes_nothing = loss is not None and loss < LEAST_LOSS
        note = "" if loss is None else f"the answer is {likelihood_text(-loss)} without it"
        source = None if place is None else len(sources) + place
        piece = Piece(s.targets[k].name, kind="grey" if changes_nothing else "strong", part=k, source=source)
        label = f"A{k + 1}" if source is None else labels[source]
        columns["Reasoning" if is_thought[k] else "Answer"].append(Box(label, piece, note, ways))
    pieces = {j: Piece(s.units.text[sources[j]] or s.units.names[sources[j]], kind="strong", source=j) for j in used}
    return [Ways({**columns, "What it rests on": [Box(labels[j], pieces[j]) for j in sorted(used)]})]


def prompt_fold(s: Attribution) -> Fold:
    """Return the prompt with its sources as linked pieces, and the text between them in grey."""
    placed_pieces, shares, spans = [], s.whole().shares, s.units.spans or ((0, 0),) * len(s.units)
    for source, i in enumerate(s.units.sources):
        name = s.units.names[i] if s.units.names[i] != s.units.text[i] else ""
        # A region of a picture whose place is taken has its name there.
        piece = Piece(f"[{name}]" if name else "", name=name, number=f"{shares[i]:.0%}", source=source)
        placed_pieces.append((*spans[i], piece))
    pieces = cut(s.text or "", sorted(placed_pieces, key=lambda span: span[:2]), 0, len(s.prompt or ""), between="grey")
    return Fold("What the model was given", [as_sentences(pieces, small=True)], opened=True)


def source_table(rows: Sequence[tuple[str, str, float, float | None]], caption: str) -> Table:
    """Return a table of sources: name, text, share, and the loss of the answer without each, given in nats."""
    has_names, has_losses = any(name for name, *_ in rows), any(nats is not None for *_, nats in rows)
    largest = max(share for _, _, share, _ in rows) or 1.0
    columns = [Column("source"), Column("text"), Column("share", numbers=True), Column("without it", numbers=True)]
    shown = slice(not has_names, 3 + has_losses)
    body = []
    for name, text, share, nats in rows:
        share_cell = cell(f"{share:.0%}", share, strength=max(share, 0.0) / largest)
        loss = cell("" if nats is None else likelihood_text(-nats), nats)
        body.append([cell(name), cell(text), share_cell, loss][shown])
    return Table(columns[shown], body, caption, stacked=True)
