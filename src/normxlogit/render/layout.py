"""The layout of a text: its pieces with their scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..results.attribution import Attribution
from ..results.storage.schema import Indices
from ..results.targets import prediction_text
from ..results.units.characters import quoted, visible
from ..results.units.units import UnitScore
from .blocks import Piece, Pieces, Sentence
from .charts import Grid, Legend
from .cutting import PlacedPiece, cut
from .describe import UNKNOWN, WITHOUT, meanings, score_label, without_text
from .token_groups import overlapping_groups, tokens_as_text

NO_CHARACTER = "·"
"""The sign for a token without characters."""

ALONE = "the head at this token alone"
READ_HERE = "The answer is read at this token: its score says that an answer is due there, not which"
READ_AS = "unknown to the tokenizer, and read as"
SINK = "an attention sink: what it contributes besides is in no score"

SUMMARY = 4
"""Words that the slider names for a layer."""

Facts = Mapping[str, Sequence[str]]
"""What was measured of each column of a layout, by what it is called."""

NOTHING = "no word has a score here: what there is belongs to special tokens"
"""What the slider says of a layer without any."""


@dataclass(frozen=True)
class Layout:
    """A text, or a pair of texts, cut into pieces with scores.

    Attributes:
        unit: What a column is, such as "token" or "word".
        texts: The pieces of each text.
        tokens: The tokens of each column.
        facts: What was measured of each column, by what it is called; empty if it was not.
        grid: A row for each label and layer, labels outermost, named as far as there are several.
    """

    unit: str
    texts: Sequence[Pieces]
    tokens: Sequence[Indices]
    facts: Facts
    grid: Grid

    def sentence(self, row: int = 0, caption: str = "") -> Sentence:
        """Return the text coloured by a row of scores.

        Args:
            row: The index of the row.
            caption: What stands above the text; empty for the name of the row.
        """
        scored_columns = self.grid.pieces(row)
        texts = [[_scored_piece(piece, scored_columns) for piece in pieces] for pieces in self.texts]
        strongest = ", ".join(f"{piece.text} {piece.number}" for piece in self.grid.strongest_pieces(row, SUMMARY))
        return Sentence(caption or self.grid.rows[row], texts, strongest or NOTHING)

    def legend(self, a: Attribution) -> Legend:
        """Return the legend of a result's colours."""
        meaning = meanings(a)
        has_unread_text = any(piece.kind == "rest" for pieces in self.texts for piece in pieces)
        legend = Legend(meaning.positive, meaning.negative, grid=self.grid, unread=has_unread_text)
        if a.layers is None:
            return legend
        without_scores = [name for row, name in enumerate(self.grid.rows) if not self.grid.strongest(row, 1)]
        facts = [f"{name}: {NOTHING}" for name in without_scores]
        # Facts, as a layer without a score is worth saying where nothing is coloured too.
        return replace(legend, notes=["each layer by its own largest score"], facts=facts)


def _scored_piece(piece: Piece, scored_columns: Sequence[Piece]) -> Piece:
    """Return a piece of a text with the score and colour of its column; one between the columns has none."""
    return piece if piece.column is None else scored_columns[piece.column]._replace(text=piece.text)


class _DescribedColumn(NamedTuple):
    """What is drawn of a column."""

    text_index: int  # which of the texts it stands in
    kind: str  # see `Piece.kind`
    name: str  # as a tooltip and a chart name it
    details: str  # the lines of its tooltip
    piece: PlacedPiece


def layout(a: Attribution, *, words: bool | None = None) -> Layout:
    """Cut the text of a result into scored pieces.

    Args:
        a: The result.
        words: Whether pieces are words, not tokens; by default where the result can tell words.
    """
    in_words = a.has_words if words is None else words
    texts, columns = (_texts(a), a.words()) if in_words else _columns_of_tokens(a)
    facts = _facts(a, columns)
    described = _described_columns(a, texts, columns, facts)
    pieces = [
        cut(text, [column.piece for column in described if column.text_index == text_index], between="rest")
        for text_index, text in enumerate(texts)
    ]
    return Layout(
        unit="word" if in_words else _unit_of_tokens(a),
        texts=pieces,
        tokens=[column.tokens for column in columns],
        facts=facts,
        grid=_grid(a, columns, described),
    )


def _unit_of_tokens(a: Attribution) -> str:
    """Return what a single unit is called: of a picture or sound what its parts are, which are the last units."""
    return a.units.kind[-1] if a.media else "token"


def _texts(a: Attribution) -> list[str]:
    return [a.text or ""] if a.text_pair is None else [a.text or "", a.text_pair]


def _columns_of_tokens(a: Attribution) -> tuple[list[str], list[UnitScore]]:
    """Return the texts and their tokens; without a text, one that is made of the tokens."""
    if a.text is None or a.offsets is None:
        texts, groups = tokens_as_text(a)
    else:
        texts = _texts(a)
        groups = overlapping_groups(a, a.offsets)
    return texts, [
        # Its text is cut out of `texts` by its span.
        UnitScore("", group.tokens, a.scores[..., list(group.tokens)].sum(-1), start=group.start, end=group.end)
        for group in groups
    ]


def _facts(a: Attribution, columns: Sequence[UnitScore]) -> dict[str, list[str]]:
    """Return what was measured of each column, by what it is called.

    Args:
        a: The result.
        columns: The words, or groups of tokens, that are drawn.
    """
    # What the head predicts at a token by itself: a word of several tokens has no such prediction.
    predictions = [prediction_text(prediction) for prediction in a.token_predictions or ()]
    alone = [predictions[column.tokens[0]] if predictions and len(column.tokens) == 1 else "" for column in columns]
    without = [without_text(a, column.tokens) for column in columns]
    return {WITHOUT: without, READ_AS: [_unknown_token(a, column.tokens) for column in columns], ALONE: alone}


def _unknown_token(a: Attribution, tokens: Sequence[int]) -> str:
    """Return the token for unknown words if some tokens have it, otherwise ""."""
    return next((a.units.text[token] for token in tokens if a.units.text[token] in UNKNOWN), "")


def _described_columns(
    a: Attribution, texts: Sequence[str], columns: Sequence[UnitScore], facts: Facts
) -> list[_DescribedColumn]:
    """Return what is drawn of each column, and in which text.

    Args:
        a: The result.
        texts: The text, or the two of a pair.
        columns: The words, or groups of tokens, that are drawn.
        facts: What was measured of each column.
    """
    described = []
    text_index = 0
    for number, column in enumerate(columns):
        first = column.tokens[0]
        sequence = a.units.sequence[first]
        if sequence is not None:  # a special token stands in the text of the token before it
            text_index = min(sequence, len(texts) - 1)  # the second text of a pair may not be known
        kind = _kind(a, column.tokens)
        characters = texts[text_index][column.start : column.end] or a.units.text[first]
        # Where the column has characters in the text, `cut` puts them in the place of the piece's own.
        piece = Piece(characters if kind == "special" else NO_CHARACTER, kind=kind, column=number)
        measured = {name: fact_column[number] for name, fact_column in facts.items()}
        described.append(
            _DescribedColumn(
                text_index,
                kind,
                name=quoted(visible(a.unit_names[first] or characters)),
                details=_details(a, column.tokens, measured),
                piece=(column.start, column.end, piece),
            )
        )
    return described


def _details(a: Attribution, tokens: Sequence[int], measured: Mapping[str, str]) -> str:
    """Return the lines of the tooltip of some tokens: what was measured of them, and what is special of them.

    Args:
        a: The result.
        tokens: The indices of the tokens.
        measured: What was measured of them, by what it is called; empty where nothing was.
    """
    lines = [f"{name}: {fact}" for name, fact in measured.items() if fact]
    if a.reads_at in tokens:
        lines.append(READ_HERE)
    if not set(a.sinks).isdisjoint(tokens):
        lines.append(SINK)
    return "\n".join(lines)


def _kind(a: Attribution, tokens: Sequence[int]) -> str:
    """Return the kind of a piece of some tokens: "special", "read", "sink", or "" for ordinary ones."""
    are_special = a.units.special[tokens[0]] and a.units.special[tokens[-1]]
    if are_special:
        return "special"
    if a.reads_at in tokens:
        return "read"
    return "" if set(a.sinks).isdisjoint(tokens) else "sink"


def _grid(a: Attribution, columns: Sequence[UnitScore], described: Sequence[_DescribedColumn]) -> Grid:
    """Return the scores of the columns, with a row for each label and layer.

    Args:
        a: The result.
        columns: The words, or groups of tokens, with their scores for each label and layer.
        described: What is drawn of each of them.
    """
    rows = _row_names(a)
    scores = np.zeros((len(rows), 0), np.float32)  # a text without words has no columns
    if columns:
        # Labels and layers of a score become rows, in the order of `_row_names`.
        scores = np.stack([column.score for column in columns], -1).reshape(len(rows), -1)  # (rows, columns)
    return Grid(
        rows=rows,
        columns=[column.name for column in described],
        scores=np.nan_to_num(scores, posinf=0.0, neginf=0.0).astype(np.float32),
        label=score_label(a) if a.layers is None else "score / largest of the layer",
        signed=a.signed,
        kinds=[column.kind for column in described],
        details=[column.details for column in described],
        steps=len(a.layers or ()),
    )


def _row_names(a: Attribution) -> list[str]:
    """Return the names of the rows, of labels and layers as far as there are several."""
    layers = [f"layer {layer}" for layer in a.layers or ()] or [""]
    labels = [target.name for target in a.targets] if a.has_target_axis else [""]
    return [", ".join(filter(None, [label, layer])) for label in labels for layer in layers]
