"""The blocks of generated text: each token with what it rests on."""

from dataclasses import replace
from itertools import accumulate

import numpy as np

from ...results.attribution import Attribution
from ...results.storage.schema import FloatArray
from ...results.units.characters import direction, quoted, visible
from ...results.units.words import merged
from ..blocks import Block, Cell, Column, Fold, Links, Paragraph, Piece, Sentence, Sentences, Table, cell
from ..charts import Grid, Legend, number
from ..describe import Facts, facts
from ..layout import cut_tokens, drawable, tokens_as_text
from .media import coarser, media_block
from .text import LARGEST
from .timeline import heard_blocks, timeline_blocks
from .verification import removals_table, verdict

STRONGEST = 5
"""Words of the context that stand beside each generated token."""

HINT = (
    "Point at a generated token (the bold ones) to colour what it rests on; click to hold it. "
    "Keys: left and right arrow, Escape."
)

NOTE = "each token's context by its own largest score"
"""What to know of the colours."""


def generation_blocks(g: Attribution) -> list[Block]:
    """Return what drawings of generated text consist of.

    Args:
        g: The result; of several layers the last is drawn.
    """
    described, start = _facts(g), g.prompt_tokens or 0
    g = g if g.layers is None else g.layer(g.layers[-1])
    g = replace(g, scores=np.nan_to_num(g.scores, nan=0.0, posinf=0.0, neginf=0.0))
    rows = g.scores[:, : g.text_units]  # (G, T)
    if g.audio and not rows.any():  # the words rest on the sound alone
        legend = Legend(described.positive, described.negative, notes=["each word by its own largest score"])
        return [
            replace(described.header(tested=verdict(g.verified)), prediction=""),
            *heard_blocks(g, described),
            legend,
        ]
    # The shortest digits that are the score: whoever shows fewer rounds once.
    context_scores: list[list[float | None]] = [[float(str(s)) for s in row[: start + i]] for i, row in enumerate(rows)]
    media: list[Block] = []
    first = len(g.tokens)
    for medium in map(coarser, (*g.images, *g.audio)):
        scores = medium.scores  # (G, h, w) or (G, n)
        media.append(media_block(medium, scores.sum(0), signed=g.signed, first=first, alone=len(g.images) == 1))
        for row_scores, parts in zip(context_scores, scores.reshape(len(g), -1), strict=True):
            row_scores += [None] * (first - len(row_scores))
            row_scores += [float(str(s)) for s in parts]
        first += scores[0].size
    kinds = " and ".join([*(["patches"] if g.images else []), *(["moments"] if g.audio else [])])
    hint = HINT.replace("what it", f"the {kinds} and words that it") if media else HINT
    notes = [NOTE, *([f"{kinds} by the largest of theirs"] if media else [])]
    data = {"prompt": start, "signed": g.signed, "scores": context_scores}
    prompt, written = _pieces(g)
    return [
        replace(described.header(tested=verdict(g.verified)), prediction=""),
        Sentences(
            [
                Sentence("prompt", [(_direction(prompt), prompt)]),
                Sentence("completion", [(_direction(written), written)]),
            ]
        ),
        *media,
        Links(data, hint, described.negative or "less than 0"),
        *timeline_blocks(g),
        *removals_table(g.verified),
        Fold("Each generated token and what it rests on", [_table(g, rows, described)], essential=True),
        Legend(described.positive, described.negative, notes=notes),
        Fold("All scores", [_matrix(g, rows)]),
    ]


def _facts(g: Attribution) -> Facts:
    names = {t.name for t in g.targets}
    itself = all(t.id == token.id for t, token in zip(g.targets, g.generated, strict=True))
    target = "each generated token" if itself else visible(names.pop()) if len(names) == 1 else "the tokens asked for"
    positive = "for the token" if itself else f"for {target}"
    contrast = g.targets[0].contrast
    against = "against it" if contrast is None else f"for {visible(contrast)}"
    if contrast is not None:
        target += f" rather than {visible(contrast)}"
    if g.layers is not None:
        target += f", layer {g.layers[-1]} shown"
    return replace(
        facts(g[0]),
        target=target,
        positive=positive if g.signed else "importance",
        negative=against if g.signed else None,
        notes=g.notes,
    )


def _token_name(g: Attribution, index: int) -> str:
    """Return a token as it stands in the text; by its own name where it has no character of its own."""
    if g.text is None or g.offsets is None:
        return quoted(visible(g.tokens[index]))
    start, end = g.offsets[index]
    return quoted(visible(g.text[start:end] or g.tokens[index]))


def _chance(g: Attribution, index: int) -> str:
    chance = g.generated[index].probability
    return "" if chance is None else f"{100 * chance:.1f}%"


def _table(g: Attribution, rows: FloatArray, described: Facts) -> Table:
    """Return a row for each generated token, with the words of its context of the largest magnitude."""
    if g.text is None or g.offsets is None:
        groups: list[tuple[int, ...]] = [(i,) for i, special in enumerate(g.special_tokens_mask) if not special]
    else:
        groups = [word.tokens for word in g.words()]
    columns = [Column("token"), Column("probability", numbers=True), Column("rests on, strongest first")]
    body = []
    for index, row in enumerate(rows):
        name = Piece(_token_name(g, (g.prompt_tokens or 0) + index), kind="strong")
        strongest = Cell(_strongest(g, row, index, groups, described))
        body.append([Cell((name,)), cell(_chance(g, index), g.generated[index].probability), strongest])
    return Table(columns, body)


def _strongest(
    g: Attribution, row: FloatArray, index: int, groups: list[tuple[int, ...]], described: Facts
) -> tuple[Piece, ...]:
    """Return the words of the largest magnitude, as far as a generated token has seen them."""
    words = []
    for tokens in groups:
        context_tokens = [i for i in tokens if i < (g.prompt_tokens or 0) + index]
        if context_tokens and (score := float(merged(row[context_tokens], g.merge))):
            words.append((score, context_tokens))
    words.sort(key=lambda pair: -abs(pair[0]))
    scale = abs(words[0][0]) if words else 1.0
    pieces = []
    for score, context_tokens in words[:STRONGEST]:
        name = _token_name(g, context_tokens[0])
        if len(context_tokens) > 1 and g.text is not None and g.offsets is not None:
            name = quoted(
                visible(
                    g.text[min(g.offsets[i][0] for i in context_tokens) : max(g.offsets[i][1] for i in context_tokens)]
                )
            )
        side = (described.negative or "") if score < 0 else ""
        pieces.append(Piece(name, score / scale, number=number(score, scale, signed=g.signed), details=side))
    return tuple(pieces)


def _matrix(g: Attribution, rows: FloatArray) -> Block:
    """Return the scores of all tokens that each generated token has seen."""
    (count, total), start = rows.shape, g.prompt_tokens or 0
    if rows.size > LARGEST:
        return Paragraph(f"The matrix of {count} x {total} scores is too large for a page; the saved JSON has it.")
    is_context = np.arange(total - 1) < start + np.arange(count)[:, None]  # (G, T - 1)
    placeholders = {token for medium in g.media for token in medium.tokens}
    text_columns = [i for i in range(total - 1) if i not in placeholders]
    scores = np.where(is_context, rows[:, :-1], np.nan)[:, text_columns]
    return Grid(
        rows=[_token_name(g, start + i) for i in range(count)],
        columns=[_token_name(g, i) for i in text_columns],
        scores=scores,
        caption="Rows: generated tokens; columns: what they have seen",
        signed=g.signed,
        special=frozenset(k for k, i in enumerate(text_columns) if g.special_tokens_mask[i]),
        relative=True,
    )


def _pieces(g: Attribution) -> tuple[list[Piece], list[Piece]]:
    """Return prompt and completion as linked pieces, with the text between them."""
    if g.text is None or g.offsets is None:
        texts, spans = tokens_as_text(g)
    else:
        covered = [0, *accumulate((end for _, end in g.offsets), max)]  # up to each token
        texts, spans = [g.text], [((i,), max(start, covered[i]), end) for i, (start, end) in enumerate(g.offsets)]
    placeholders = {token: medium.name for medium in g.media for token in medium.tokens}
    pieces: tuple[list[Piece], list[Piece]] = ([], [])
    of_completion = False
    for segment in cut_tokens(g, texts, spans)[0][0]:
        if (i := segment.column) is None:
            pieces[of_completion].append(Piece(segment.text))
            continue
        part = i - (g.prompt_tokens or 0)
        of_completion = part >= 0
        if i in placeholders:  # one name in the place of all of them
            if placeholders[i] != placeholders.get(i - 1):
                pieces[of_completion].append(Piece(f"[{placeholders[i]}]", kind="special"))
            continue
        kind = "special" if g.special_tokens_mask[i] else "strong" if of_completion else ""
        piece = Piece(drawable(segment), kind=kind, name=_token_name(g, i), source=i)
        if of_completion:
            piece = piece._replace(number=_chance(g, part), details=_likelier(g, part), part=part)
        pieces[of_completion].append(piece)
    return pieces


def _direction(pieces: list[Piece]) -> str:
    return direction("".join(piece.text for piece in pieces if piece.kind != "special"))


def _likelier(g: Attribution, part: int) -> str:
    """Return what the model found more likely than a generated token, if anything."""
    best = g.predictions[part]
    if best.id == g.generated[part].id:
        return ""
    chance = "" if best.probability is None else f" {100 * best.probability:.1f}%"
    return f"more likely: {visible(best.label)}{chance}"
