"""The blocks of generated text, or of a transcript: each token or word with its scores."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..results.attribution import Attribution
from ..results.storage.schema import FloatArray, Indices
from ..results.targets import answer_number
from ..results.units.characters import quoted, visible
from ..results.units.units import merge_scores
from ..results.verification import verdict
from .blocks import Blocks, Cell, Column, Fold, Links, Piece, Pieces, Sentence, Sentences, Table, cell
from .charts import Grid, Legend
from .cutting import answer_pieces, cut
from .describe import header, meanings, removals_table
from .layout import NO_CHARACTER
from .text import bounded
from .token_groups import tokens_as_text

STRONGEST = 5
"""Words of the context in the row of each generated token."""

HINT = "Point at a generated token to colour {units} it rests on; click to hold it. Keys: left and right arrow, Escape."
"""How to use the links of a page; the units are "what" of a text, and those of pictures and sounds by their names."""

SCALE_OF_TOKENS = "each token's context by its own largest score"
SCALE_OF_WORDS = "each word by its own largest score"
"""How colours are scaled."""

NEGATIVE = "less than 0"
"""The meaning of a negative score of a method without signs."""

HEARD = (
    "Point at a word to colour the {parts} that it rests on, or at one of these for its words; "
    "click to hold it. Keys: left and right arrow, Escape."
)


def generation_blocks(g: Attribution) -> Blocks:
    """Return the blocks of generated text by tokens, or of a transcript by words; of several layers the last."""
    header_block = header([g], verdict(g.verified))
    meaning = meanings(g)
    if g.layers is not None:
        g = g.layer(g.layers[-1])
    # Infinite scores too have no colour, and would take it from the others.
    g = replace(g, scores=np.nan_to_num(g.scores, posinf=0.0, neginf=0.0))
    # Of a transcript the text has no scores: its words rest on the sound alone.
    is_transcript = bool(g.media) and not g.scores[:, : g.text_units].any()
    if is_transcript:
        legend = Legend(meaning.positive, meaning.negative, [SCALE_OF_WORDS])
        return [header_block, *_transcript(g, meaning.negative), legend]
    # Links lead from each generated token to the tokens before it, numbered from 0, and behind these to parts of media.
    media, scores_of_links = _media_blocks(g, first_part=g.text_units)
    parts = _names_of_media_parts(g)
    hint = HINT.format(units=f"the {parts} and words that" if media else "what")
    notes = [SCALE_OF_TOKENS, f"{parts} by the largest of theirs"] if media else [SCALE_OF_TOKENS]
    return [
        header_block,
        _sentences(_prompt_and_completion(g)),
        *media,
        Links({"signed": g.signed, "scores": scores_of_links}, hint, meaning.negative or NEGATIVE),
        *_blocks_over_time(_by_word(g)),
        *removals_table(g.verified),
        Fold("Each generated token and what it rests on", [_strongest(g, meaning.negative or "")], essential=True),
        Legend(meaning.positive, meaning.negative, notes),
        Fold("All scores", [bounded(_matrix(g))]),
    ]


def _transcript(g: Attribution, negative: str | None) -> Blocks:
    """Return the blocks of a transcript: its words, and the sound with what each word rests on.

    Args:
        g: The transcript, with its tokens as targets.
        negative: The meaning of a negative score; None of a method without signs.
    """
    by_word = _by_word(g)
    media, scores = _media_blocks(by_word or g, first_part=0)  # links end at parts of the sound alone
    words = answer_pieces(by_word, from_first=True) if by_word else []
    blocks: Blocks = [_sentences({"transcript": words}), *media]
    if by_word is not None:
        hint = HEARD.format(parts=_names_of_media_parts(g))
        blocks.append(Links({"signed": g.signed, "scores": scores}, hint, negative or NEGATIVE))
    return [*blocks, *_blocks_over_time(by_word), *removals_table(g.verified)]


def _by_word(g: Attribution) -> Attribution | None:
    """Return the words of a completion as targets, if they are of a sound; None otherwise."""
    if not g.has_words or not any(medium.is_over_time for medium in g.media):
        return None
    is_completion = any(word.tokens[-1] in g.answer_units for word in g.words())
    return g.group_targets("word") if is_completion else None


def _blocks_over_time(by_word: Attribution | None) -> Blocks:
    """Return what is drawn of each sound over time, beside the words that rest on it."""
    if by_word is None:
        return []
    names = [target.name for target in by_word.targets]
    return [block for medium in by_word.scored_media for block in medium.blocks_over_time(names)]


def _names_of_media_parts(g: Attribution) -> str:
    """Return what the parts of pictures and sounds are called, such as "patches and moments"."""
    return " and ".join(dict.fromkeys(medium.parts_name for medium in g.media))


def _sentences(pieces_by_name: Mapping[str, Pieces]) -> Sentences:
    return Sentences([Sentence(name, [pieces]) for name, pieces in pieces_by_name.items()])


def _prompt_and_completion(g: Attribution) -> dict[str, list[Piece]]:
    """Return the pieces of the prompt and of the completion: one for each token, and the text between tokens."""
    if g.text is None or g.offsets is None:
        texts, groups = tokens_as_text(g)
        text, spans = texts[0], [(group.start, group.end) for group in groups]  # one text, and groups of one token
    else:
        text, spans = g.text, list(g.offsets)
    placed_pieces = [(*span, _token_piece(g, token)) for token, span in enumerate(spans)]
    pieces = _with_named_media(g, cut(text, placed_pieces))
    generated = (place for place, piece in enumerate(pieces) if piece.part is not None)
    end_of_prompt = next(generated, len(pieces))  # where the first piece of a generated token stands
    return {"prompt": pieces[:end_of_prompt], "completion": pieces[end_of_prompt:]}


def _token_piece(g: Attribution, token: int) -> Piece:
    """Return the piece of a token; of a generated one with its probability, and the likeliest token if that differs.

    Args:
        g: The generated text.
        token: The index of the token among those of the prompt and the completion.
    """
    is_special = g.special_tokens_mask[token]
    piece = Piece(g.tokens[token] if is_special else NO_CHARACTER, name=_name(g, token), source=token)
    part = token - g.answer_units.start  # the place among the generated tokens
    if part < 0:
        return piece._replace(kind="special" if is_special else "")
    likeliest, generated = g.predictions[part], g.generated[part]
    details = ""
    if likeliest.id != generated.id:
        details = f"more likely: {visible(likeliest.label)} {answer_number(likeliest)}"
    kind = "special" if is_special else "strong"
    return piece._replace(kind=kind, number=answer_number(generated), details=details, part=part)


def _with_named_media(g: Attribution, pieces: Pieces) -> list[Piece]:
    """Return the pieces of a text with the name of a picture or sound in the place of its placeholders.

    Placeholders of one medium in a row, with the space between them, become one piece.
    """
    names: dict[int | None, str] = {token: medium.name for medium in g.media for token in medium.tokens}
    named: list[Piece] = []
    name_before = None
    for piece in pieces:
        name = names.get(piece.source)
        if name is None:
            named.append(piece)
            if piece.source is not None or piece.text.strip():  # white space does not end a row of placeholders
                name_before = None
        elif name != name_before:
            named.append(Piece(f"[{name}]", kind="special"))
            name_before = name
        # A further placeholder of the same medium is dropped.
        elif named[-1].source is None and named[-1].kind != "special":  # the space before this placeholder
            named.pop()
    return named


def _media_blocks(g: Attribution, first_part: int) -> tuple[Blocks, list[list[float | None]]]:
    """Return the blocks of pictures and sounds, and for a page's script a row of scores for each target.

    A row has the scores of the units of the text that links end at, and then of all parts of media. Units that were not
    read before the target have None, which is left out at the end of a row.

    Args:
        g: The generated text.
        first_part: The number of the first part of media among what links end at, behind the units of the text: 0 where
            no links end at these.
    """
    blocks: Blocks = []
    rows: list[list[float | None]] = []
    for target, scores in enumerate(g.scores):
        read_units = min(first_part, g.answer_units[target])
        unread_units = first_part - read_units if g.media else 0
        rows.append([*_short_numbers(scores[:read_units]), *[None] * unread_units])
    kinds = [medium.kind for medium in g.media]
    for medium in g.scored_media:
        # Parts of the only one of a kind need no name of it.
        block = medium.block(signed=g.signed, first=first_part, alone=kinds.count(medium.kind) == 1)
        for row, scores in zip(rows, block.medium.scores.reshape(len(g), -1), strict=True):
            row += _short_numbers(scores)
        blocks.append(block)
        first_part += len(block.parts)
    return blocks, rows


def _short_numbers(scores: FloatArray) -> list[float]:
    """Return float32 scores as floats with the fewest digits, so that a display rounds only once."""
    return [float(str(score)) for score in scores]


def _name(g: Attribution, *tokens: int) -> str:
    """Return the text of consecutive tokens; the name of a single token without a character of its own."""
    # Without a text its part is empty, and the token gives its name.
    spans = [(0, 0)] if g.text is None or g.offsets is None else [g.offsets[i] for i in tokens]
    text = (g.text or "")[min(start for start, _ in spans) : max(end for _, end in spans)]
    return quoted(visible(text or g.tokens[tokens[0]]))


def _strongest(g: Attribution, negative: str) -> Table:
    """Return a table of the strongest words of the prompt and earlier tokens for each generated token.

    Args:
        g: The generated text.
        negative: The meaning of a negative score, which stands beside words that have one.
    """
    grid = _grid_of_context(g)
    rows = []
    for part, token in enumerate(g.answer_units):
        generated = g.generated[part]
        strongest = [
            piece._replace(details=negative if piece.strength < 0 else "")
            for piece in grid.strongest_pieces(part, STRONGEST)
        ]
        name = Cell((Piece(_name(g, token), kind="strong"),))
        rows.append([name, cell(answer_number(generated), generated.probability), Cell(tuple(strongest))])
    return Table([Column("token"), Column("probability", numbers=True), Column("rests on, strongest first")], rows)


def _grid_of_context(g: Attribution) -> Grid:
    """Return the scores of the words of the prompt and of earlier tokens, with a row for each generated token."""
    scores = np.where(_is_read(g), g.scores[:, : g.text_units], 0.0)  # (G, T)
    groups = _context(g)
    # As the method merges tokens into words: their sum, or another.
    merged = np.array([merge_scores(scores[:, list(tokens)], g.merge) for tokens in groups])  # (words, G)
    return Grid(
        rows=[""] * len(g),
        columns=[_name(g, *tokens) for tokens in groups],
        scores=merged.reshape(-1, len(g)).T,  # (G, words), also for no words
        signed=g.signed,
        relative=True,
    )


def _context(g: Attribution) -> list[Indices]:
    """Return the words of the prompt and the earlier generated tokens, each by its tokens, without special ones.

    The last token is left out: nothing was generated after it.
    """
    start = g.answer_units.start
    tokens = [(token,) for token in range(g.text_units - 1) if not g.special_tokens_mask[token]]
    words = [word.tokens for word in g.words()] if g.has_words else tokens
    words_of_prompt = [word for word in words if word[-1] < start]
    generated_tokens = [token for token in tokens if token[0] >= start]
    return words_of_prompt + generated_tokens


def _is_read(g: Attribution) -> NDArray[np.bool_]:
    """Return which tokens the model had read before each generated one, (G, T)."""
    return np.asarray(np.arange(g.text_units) < np.array(g.answer_units)[:, None])


def _matrix(g: Attribution) -> Grid:
    """Return the matrix of scores of the tokens before each generated token."""
    # Pictures and sounds are drawn for themselves; and nothing is generated after the last token.
    placeholders = {token for medium in g.media for token in medium.tokens}
    columns = [token for token in range(g.text_units - 1) if token not in placeholders]
    return Grid(
        rows=[_name(g, token) for token in g.answer_units],
        columns=[_name(g, token) for token in columns],
        scores=np.where(_is_read(g)[:, columns], g.scores[:, columns], np.nan),  # (G, columns); NaN is an empty field
        caption="Rows: generated tokens; columns: what they have seen",
        signed=g.signed,
        kinds=["special" if g.special_tokens_mask[token] else "" for token in columns],
        relative=True,
    )
