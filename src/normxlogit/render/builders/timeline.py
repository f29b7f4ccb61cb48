"""The blocks of a sound beside the words heard in it: which moments each word rests on."""

from ...results.attribution import Attribution
from ...results.units.characters import direction, quoted, visible
from ...results.units.media import Medium
from ..blocks import Block, Column, Fold, Links, Piece, Sentence, Sentences, Table, cell
from ..charts import Grid
from ..describe import Facts
from ..layout import cut_pieces
from ..media import merge_neighbours
from .media import coarser, media_block
from .verification import removals_table

BINS = 48
"""Columns of a timeline; neighbouring moments are summed."""


HINT = (
    "Point at a word (the bold ones) to colour the moments that it rests on, or at a moment for its words; "
    "click to hold it. Keys: left and right arrow, Escape."
)


def heard_blocks(g: Attribution, described: Facts) -> list[Block]:
    """Return what drawings show of words that rest on a sound alone."""
    spoken, text = _by_word(g), g.text or ""
    audio = coarser((g if spoken is None else spoken).audio[0])  # scores: (words, n)
    words = [] if spoken is None else [(*t.span, t.name) for t in spoken.targets if t.span is not None]
    pieces = [
        (start, end, Piece("", kind="strong", name=quoted(visible(name)), part=part))
        for part, (start, end, name) in enumerate(words)
    ]
    heard = cut_pieces(text, min((start for start, _, _ in words), default=len(g.prompt or "")), len(text), pieces)
    data = {"signed": g.signed, "scores": [[float(str(score)) for score in row] for row in audio.scores]}
    return [
        Sentences([Sentence("transcript", [(direction(text), heard)])]),
        media_block(audio, audio.scores.sum(0), signed=g.signed, first=0),
        *([Links(data, HINT, described.negative or "less than 0")] if words else []),
        *timeline_blocks(g),
        *removals_table(g.verified),
    ]


def timeline_blocks(g: Attribution) -> list[Block]:
    """Return what drawings list of the sounds of a result: each word's strongest moment, and all of them over time."""
    spoken = _by_word(g) if g.audio else None
    blocks: list[Block] = []
    for audio in () if spoken is None else spoken.audio:
        names = [visible(target.name) for target in spoken.targets] if spoken is not None else []
        blocks += [_strongest(audio, names), Fold("Every word over time", [_over_time(audio, names)])]
    return blocks


def _by_word(g: Attribution) -> Attribution | None:
    """Return a result with a target for each word of the answer; None where it has no words."""
    words = g.words() if g.has_words else []
    return g.group_targets("word") if any(word.tokens[-1] >= (g.prompt_tokens or 0) for word in words) else None


def _strongest(audio: Medium, names: list[str]) -> Table:
    rows = []
    for name, scores in zip(names, audio.scores, strict=True):  # (n,)
        positive = scores.clip(min=0)
        start, end = audio.times[int(scores.argmax())].tolist()
        share = float(positive.max(initial=0) / max(positive.sum(), 1e-12))
        moment = cell(f"{start:.2f} to {end:.2f} s", start)
        rows.append([cell(name), moment, cell(f"{100 * share:.0f}%", share, strength=share)])
    columns = [Column("word"), Column("strongest moment", numbers=True), Column("of its positive sum", numbers=True)]
    return Table(columns, rows, f"When {visible(audio.name)} supports each word")


def _over_time(audio: Medium, names: list[str]) -> Grid:
    """Return words x time."""
    coarse = merge_neighbours(audio, BINS)
    return Grid(
        rows=names,
        columns=[f"{start:.2f}" for start in coarse.times[:, 0].tolist()],
        scores=coarse.scores,
        caption=f"What each word rests on, over the seconds of {visible(audio.name)}",
        label="each word by its own largest score",
        relative=True,
    )
