"""The layout of a text: its pieces with their scores."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..results.attribution import Attribution
from ..results.units.characters import quoted, visible
from ..results.units.spans import earlier_parts
from ..text.boundaries import trimmed
from .blocks import Piece, Sentence
from .charts import Grid, Legend
from .describe import UNKNOWN, WITHOUT, meanings, prediction_text, score_label, without_text

PlacedPiece = tuple[int, int, Piece]
"""A piece with its start and end in the text; both are equal for a piece with a text of its own."""

Group = tuple[tuple[int, ...], int, int]
"""Tokens, with the start and end of their text; (0, 0) for tokens without characters."""

SPACE, NO_CHARACTER, _STARTS = Piece(" "), "·", "Ġ▁"
"""The space around special tokens, the sign for a token without characters, and marks of tokens that begin a word."""

ALONE = "the head at this token alone"
READ_HERE = "The answer is read at this token: its score says that an answer is due there, not which"
SINK = "an attention sink: what it contributes besides is in no score"
UNREAD = "no token covers this text: the model did not read it"

SUMMARY, NOTHING = 4, "no word has a score here: what there is belongs to special tokens"
"""Words that the slider names for a layer, and what it says without any."""


def cut(
    text: str, spans: Iterable[PlacedPiece], start: int = 0, end: int | None = None, between: str = ""
) -> list[Piece]:
    """Cut a text at the spans of pieces, in their order; special tokens without characters are set apart by spaces."""
    pieces: list[Piece] = []

    def add(between_pieces: str) -> None:
        if between_pieces[:1].isspace() and pieces and pieces[-1] == SPACE:
            pieces.pop()  # white space of the text replaces the space after a special token
        plain = Piece(between_pieces, kind=between, details=UNREAD if between == "rest" else "")
        pieces.extend([plain if plain.text.strip() else Piece(plain.text)] if plain.text else [])

    for first, last, piece in spans:
        first, last = trimmed(text, max(first, start), last)
        if last > first:
            add(text[start:first])
            body, start = text[first:last], last
            signs = "".join({"\n": "↵\n", "\t": "⇥"}.get(c, "␣") for c in body)  # white space that has a score
            pieces.append(piece._replace(text=body if body.strip() else signs))
        elif piece.kind == "special":
            pieces += [*([SPACE] if pieces and not pieces[-1].text[-1:].isspace() else []), piece, SPACE]
        else:
            pieces.append(piece)
    add(text[start:end].rstrip())  # such as a text beyond the model's length
    while pieces and pieces[-1].column is None and not pieces[-1].text.strip():
        pieces.pop()
    return pieces


def answer_pieces(a: Attribution, *, from_first: bool = False) -> list[Piece]:
    """Return the parts of an answer, its targets, as linked pieces, with the text between and before them."""
    sources = {span: len(a.units.sources) + place for place, span in enumerate(earlier_parts(a))}
    spans = [t.span or (0, 0) for t in a.targets]
    parts = [(span, Piece("", kind="strong", part=k, source=sources.get(span))) for k, span in enumerate(spans)]
    parts.sort(key=lambda part: part[0])
    start = parts[0][0][0] if from_first else len(a.prompt or "")
    return cut(a.text or "", ((first, last, piece) for (first, last), piece in parts), start)


@dataclass(frozen=True)
class Layout:
    """A text, or a pair of texts, cut into pieces with scores."""

    unit: str  # what a column is, such as "token" or "word"
    texts: Sequence[Sequence[Piece]]
    tokens: Sequence[tuple[int, ...]]  # of each column
    facts: Mapping[str, Sequence[str]]  # what was measured of each column, by what it is called; empty if it was not
    grid: Grid  # a row for each label and layer, labels outermost, named as far as there are several

    def sentence(self, row: int = 0, caption: str = "") -> Sentence:
        """Return the text coloured by a row of scores, under the row's name or a caption."""
        scored = self.grid.pieces(row)
        texts = [[p if p.column is None else scored[p.column]._replace(text=p.text) for p in of] for of in self.texts]
        strongest = ", ".join(f"{piece.text} {piece.number}" for piece in self.grid.named(row, SUMMARY))
        return Sentence(caption or self.grid.rows[row], texts, strongest or NOTHING)

    def legend(self, a: Attribution) -> Legend:
        """Return the legend of a result's colours."""
        grid, notes, facts = self.grid, [], []
        if a.layers is not None:
            silent = [name for row, name in enumerate(grid.rows) if not grid.strongest(row, 1)]
            notes, facts = ["each layer by its own largest score"], [f"{name}: {NOTHING}" for name in silent]
        unread = any(piece.kind == "rest" for pieces in self.texts for piece in pieces)
        _, positive, negative = meanings(a)
        return Legend(positive, negative, notes, facts, grid=grid, unread=unread)


def _kind_of_piece(a: Attribution, tokens: Sequence[int]) -> str:
    """Return the kind of a piece of some tokens: "special", "read", "sink", "unknown", or "" for ordinary ones."""
    if a.units.special[tokens[0]] and a.units.special[tokens[-1]]:
        return "special"
    if a.reads_at in tokens:
        return "read"
    if all(a.units.text[token] in UNKNOWN for token in tokens):
        return "unknown"
    return "" if set(a.sinks).isdisjoint(tokens) else "sink"


def layout(a: Attribution, *, words: bool | None = None) -> Layout:
    """Cut the text of a result into scored pieces: words, by default where the result can tell them, or tokens."""
    texts = [a.text or "", *([] if a.text_pair is None else [a.text_pair])]
    in_words = a.has_words if words is None else words
    scored = a.words() if in_words else []
    if in_words:
        groups = [(word.tokens, word.start, word.end) for word in scored]
    elif a.text is None or a.offsets is None:
        texts, groups = tokens_as_text(a)
    else:
        groups = _group_overlapping(a, a.offsets)
    tokens = [group for group, *_ in groups]
    columns = [word.score for word in scored] if in_words else [a.scores[..., list(i)].sum(-1) for i in tokens]
    predictions = [prediction_text(p) for p in a.token_predictions or ()]
    facts = {
        WITHOUT: [without_text(a, group) for group in tokens],
        ALONE: [predictions[group[0]] if predictions and len(group) == 1 else "" for group in tokens],
    }
    unit_names = a.unit_names
    spans: list[list[PlacedPiece]] = [[] for _ in texts]
    names, kinds, details, current = [], [], [], 0
    for i, (group, start, end) in enumerate(groups):
        kind = _kind_of_piece(a, group)
        lines = [f"{name}: {measured[i]}" for name, measured in facts.items() if measured[i]]
        lines += [READ_HERE] * (a.reads_at in group) + [SINK] * (not set(a.sinks).isdisjoint(group))
        sequence = a.units.sequence[group[0]]
        current = current if sequence is None else min(sequence, len(texts) - 1)
        name = texts[current][start:end] or a.units.text[group[0]]
        piece = Piece(name if kind == "special" else NO_CHARACTER, kind=kind, column=i)
        spans[current].append((start, end, piece))
        names.append(quoted(visible(unit_names[group[0]] or name)))
        kinds.append(kind)
        details.append("\n".join(lines))
    layers = [f"layer {layer}" for layer in a.layers or ()] or [""]
    labels = [target.name for target in a.targets] if a.has_target_axis else [""]
    rows = [", ".join(filter(None, [label, layer])) for label in labels for layer in layers]
    scores = np.stack(columns, -1).reshape(len(rows), -1) if columns else np.zeros((len(rows), 0))  # (rows, columns)
    finite = np.nan_to_num(scores, nan=0.0, posinf=0.0, neginf=0.0).astype(np.float32)
    label = "score / largest of the layer" if a.layers is not None else score_label(a)
    steps = len(a.layers or ())
    grid = Grid(rows, names, finite, label=label, signed=a.signed, kinds=kinds, details=details, steps=steps)
    pieces = [cut(text, of_text, between="rest") for text, of_text in zip(texts, spans, strict=True)]
    return Layout("word" if in_words else a.units.kind[-1] if a.media else "token", pieces, tokens, facts, grid)


def _group_overlapping(a: Attribution, offsets: tuple[tuple[int, int], ...]) -> list[Group]:
    """Return the spans of tokens, with tokens that share characters, such as the bytes of one emoji, as one group."""
    groups: list[Group] = []
    for index, (start, end) in enumerate(offsets):
        tokens, first, covered = groups[-1] if groups else ((index,), start, start)
        same_text = a.units.sequence[index] == a.units.sequence[tokens[-1]]
        if end > start and max(first, start) < covered and same_text:
            groups[-1] = ((*tokens, index), first, max(covered, end))
        else:
            groups.append(((index,), start, end))
    return groups


def tokens_as_text(a: Attribution) -> tuple[list[str], list[Group]]:
    """Return texts made by joining the tokens at their word boundary markers, and the span of each token."""
    texts, current, spans = [""] * (1 + (1 in a.units.sequence)), 0, list[Group]()
    marked = any(token[:1] in _STARTS for token in a.tokens)
    for index, (token, sequence) in enumerate(zip(a.tokens, a.units.sequence, strict=False)):
        current = current if sequence is None else sequence
        if a.special_tokens_mask[index]:
            spans.append(((index,), 0, 0))
            continue
        glued = token.startswith("##") or (marked and token[:1] not in _STARTS)
        if not glued and texts[current]:
            texts[current] += " "
        start = len(texts[current])
        texts[current] += (token.removeprefix("##") if glued else token.lstrip(_STARTS)) or token
        spans.append(((index,), start, len(texts[current])))
    return texts, spans
