"""The blocks of generated text, or of words heard in a sound: each token or word with what it rests on."""

from dataclasses import replace

import numpy as np

from ...results.attribution import Attribution
from ...results.units.characters import quoted, visible
from ...results.units.media import Medium
from ..blocks import Block, Cell, Column, Fold, Links, Piece, Sentence, Sentences, Table, cell
from ..charts import Grid, Legend, number
from ..describe import header, meanings
from ..layout import NO_CHARACTER, Span, cut, tokens_as_text, written_direction
from ..verification import removals_table, verdict
from .media import coarser, media_block
from .text import bounded

STRONGEST = 5
"""Words of the context that stand beside each generated token."""

BINS = 48
"""Columns of a timeline; neighbouring moments are summed."""

HINT = (
    "Point at a generated token (the bold ones) to colour what it rests on; click to hold it. "
    "Keys: left and right arrow, Escape."
)

HEARD = (
    "Point at a word (the bold ones) to colour the moments that it rests on, or at a moment for its words; "
    "click to hold it. Keys: left and right arrow, Escape."
)


def generation_blocks(g: Attribution) -> list[Block]:
    """Return what drawings of generated text consist of: of tokens, or of words that rest on a sound alone.

    Args:
        g: The result; of several layers the last is drawn.
    """
    described = header([g], tested=verdict(g.verified))
    _, positive, negative = meanings(g)
    g = g if g.layers is None else g.layer(g.layers[-1])
    g = replace(g, scores=np.nan_to_num(g.scores, nan=0.0, posinf=0.0, neginf=0.0))
    in_words = g.has_words and any(word.tokens[-1] >= (g.prompt_tokens or 0) for word in g.words())
    spoken = g.group_targets("word") if g.audio and in_words else None
    heard = bool(g.audio) and not g.scores[:, : g.text_units].any()
    texts = {"transcript": _transcript(g, spoken)} if heard else _prompt_and_completion(g)
    linked = g if spoken is None or not heard else spoken
    media, scores = _linked(linked, 0 if heard else g.text_units)
    kinds = " and ".join([*(["patches"] if g.images else []), *(["moments"] if g.audio else [])])
    hint = HEARD if heard else HINT.replace("what it", f"the {kinds} and words that it") if media else HINT
    notes = ["each word by its own largest score"] if heard else ["each token's context by its own largest score"]
    notes += [f"{kinds} by the largest of theirs"] if media and not heard else []
    links = Links({"signed": g.signed, "scores": scores}, hint, negative or "less than 0")
    legend = Legend(positive, negative, notes=notes)
    blocks: list[Block] = [
        described,
        Sentences([Sentence(name, [(written_direction(text), text)]) for name, text in texts.items()]),
        *media,
        *([links] if spoken is not None or not heard else []),
        *([] if spoken is None else [block for sound in spoken.audio for block in _over_time(spoken, sound)]),
        *removals_table(g.verified),
    ]
    if heard:
        return [*blocks, legend]
    table = Fold("Each generated token and what it rests on", [_strongest(g, negative or "")], essential=True)
    return [*blocks, table, legend, Fold("All scores", [bounded(_matrix(g))])]


def _transcript(g: Attribution, spoken: Attribution | None) -> list[Piece]:
    """Return the words of an answer as linked pieces."""
    targets = () if spoken is None else spoken.targets
    spans = [
        Span(*target.span, Piece("", kind="strong", name=quoted(visible(target.name)), part=part))
        for part, target in enumerate(targets)
        if target.span is not None
    ]
    return cut(g.text or "", spans, min((span.start for span in spans), default=len(g.prompt or "")))


def _prompt_and_completion(g: Attribution) -> dict[str, list[Piece]]:
    """Return prompt and completion as linked pieces, with the text between them."""
    prompt_tokens, spans, pieces = g.prompt_tokens or 0, [], []
    if g.text is None or g.offsets is None:
        (text, *_), groups = tokens_as_text(g)
    else:
        text, groups = g.text, [((i,), *span) for i, span in enumerate(g.offsets)]
    for (i, *_), start, end in groups:
        special, part = g.special_tokens_mask[i], i - prompt_tokens
        kind = "special" if special else "strong" if part >= 0 else ""
        piece = Piece(g.tokens[i] if special else NO_CHARACTER, kind=kind, name=_name(g, i), source=i)
        if part >= 0:
            piece = piece._replace(number=_chance(g, part), details=_likelier(g, part), part=part)
        spans.append(Span(start, end, piece))
    placeholders: dict[int | None, str] = {token: medium.name for medium in g.media for token in medium.tokens}
    repeated = {token for medium in g.media for token in medium.tokens if token - 1 in medium.tokens}
    for piece in cut(text, spans):
        if piece.source not in placeholders:
            pieces.append(piece)
        elif piece.source not in repeated:  # one name in the place of all of them
            pieces.append(Piece(f"[{placeholders[piece.source]}]", kind="special"))
    first = next((k for k, piece in enumerate(pieces) if piece.part is not None), len(pieces))
    return {"prompt": pieces[:first], "completion": pieces[first:]}


def _linked(g: Attribution, first: int) -> tuple[list[Block], list[list[float | None]]]:
    """Return pictures and sounds as linked blocks, and the scores of what each target has seen, as a page reads them.

    Args:
        g: The result.
        first: How many units of the text are linked, in front of the parts of pictures and sounds.
    """
    blocks: list[Block] = []
    seen = [min(first, (g.prompt_tokens or 0) + k) for k in range(len(g))]
    # The shortest digits that are the score: whoever shows fewer rounds once.
    scores: list[list[float | None]] = [
        [float(str(s)) for s in row[:count]] for row, count in zip(g.scores, seen, strict=True)
    ]
    for medium in map(coarser, (*g.images, *g.audio)):  # scores: (G, h, w) or (G, n)
        summed = medium.scores.sum(0)
        blocks.append(media_block(medium, summed, signed=g.signed, first=first, alone=len(g.images) == 1))
        for row, parts in zip(scores, medium.scores.reshape(len(g), -1), strict=True):
            row += [None] * (first - len(row))
            row += [float(str(s)) for s in parts]
        first += summed.size
    return blocks, scores


def _name(g: Attribution, index: int) -> str:
    """Return a token as it stands in the text; by its own name where it has no character of its own."""
    start, end = (0, 0) if g.text is None or g.offsets is None else g.offsets[index]
    return quoted(visible((g.text or "")[start:end] or g.tokens[index]))


def _chance(g: Attribution, part: int) -> str:
    chance = g.generated[part].probability
    return "" if chance is None else f"{100 * chance:.1f}%"


def _likelier(g: Attribution, part: int) -> str:
    """Return what the model found more likely than a generated token, if anything."""
    best = g.predictions[part]
    if best.id == g.generated[part].id:
        return ""
    chance = "" if best.probability is None else f" {100 * best.probability:.1f}%"
    return f"more likely: {visible(best.label)}{chance}"


def _strongest(g: Attribution, negative: str) -> Table:
    """Return a row for each generated token, with the words of the largest magnitude, as far as it has seen them."""
    rows = []
    for part, one in enumerate(g):
        scored = (
            [(word.text, float(word.score)) for word in one.words()]
            if one.has_words
            else [
                (token, float(score))
                for token, score, special in zip(one.tokens, one.scores, one.special_tokens_mask, strict=False)
                if not special
            ]
        )
        scored = sorted(filter(lambda pair: pair[1], scored), key=lambda pair: -abs(pair[1]))[:STRONGEST]
        scale = abs(scored[0][1]) if scored else 1.0
        words = tuple(
            Piece(
                quoted(visible(text)),
                score / scale,
                number=number(score, scale, signed=g.signed),
                details=negative if score < 0 else "",
            )
            for text, score in scored
        )
        name = Piece(_name(g, (g.prompt_tokens or 0) + part), kind="strong")
        rows.append([Cell((name,)), cell(_chance(g, part), g.generated[part].probability), Cell(words)])
    return Table([Column("token"), Column("probability", numbers=True), Column("rests on, strongest first")], rows)


def _matrix(g: Attribution) -> Grid:
    """Return the scores of all tokens that each generated token has seen."""
    prompt_tokens, placeholders = g.prompt_tokens or 0, {token for medium in g.media for token in medium.tokens}
    columns = [i for i in range(g.text_units - 1) if i not in placeholders]
    is_context = np.array(columns) < prompt_tokens + np.arange(len(g))[:, None]  # (G, columns)
    return Grid(
        rows=[_name(g, prompt_tokens + part) for part in range(len(g))],
        columns=[_name(g, i) for i in columns],
        scores=np.where(is_context, g.scores[:, columns], np.nan),
        caption="Rows: generated tokens; columns: what they have seen",
        signed=g.signed,
        kinds=["special" if g.special_tokens_mask[i] else "" for i in columns],
        relative=True,
    )


def _over_time(spoken: Attribution, sound: Medium) -> list[Block]:
    """Return the strongest moment of a sound for each word, and all of them over time."""
    names, rows = [visible(target.name) for target in spoken.targets], []
    for name, scores in zip(names, sound.scores, strict=True):  # (n,)
        start, end = sound.times[int(scores.argmax())].tolist()
        share = float(scores.max(initial=0) / max(scores.clip(min=0).sum(), 1e-12))
        moment = cell(f"{start:.2f} to {end:.2f} s", start)
        rows.append([cell(name), moment, cell(f"{100 * share:.0f}%", share, strength=share)])
    columns = [Column("word"), Column("strongest moment", numbers=True), Column("of its positive sum", numbers=True)]
    coarse = sound.coarser(BINS)
    grid = Grid(
        rows=names,
        columns=[f"{start:.2f}" for start in coarse.times[:, 0].tolist()],
        scores=coarse.scores,
        caption=f"What each word rests on, over the seconds of {visible(sound.name)}",
        label="each word by its own largest score",
        relative=True,
    )
    supports = Table(columns, rows, f"When {visible(sound.name)} supports each word")
    return [supports, Fold("Every word over time", [grid])]
