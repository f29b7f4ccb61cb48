"""Hand-made results for the tests: no model, no tokenizer."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from normxlogit.results.attribution import Attribution
from normxlogit.results.targets import Prediction, Target
from normxlogit.results.units.units import Units

MOVIE = "The movie is mediocre, maybe even bad."
LABELS = ("negative", "positive")
BOTH = (Target("label", "negative", 0), Target("label", "positive", 1))


def units_of_tokens(tokens: Sequence[str], special: Sequence[bool], ids: Sequence[int], **columns: Any) -> Units:
    """Return tokens as units, all of the first text unless their sequences are given."""
    columns = {"sequence": [None if is_special else 0 for is_special in special], **columns}
    columns |= {"kind": ["token"] * len(tokens), "text": tokens, "special": special, "ids": ids}
    return Units(**{name: tuple(values) for name, values in columns.items()})


def make_attribution(
    pieces: Sequence[str] = ("The", "movie", "is", "medi", "ocre", ",", "maybe", "even", "bad", "."),
    scores: Any = (0.1, -0.2, 0.0, 1.5, 0.7, 0.05, 0.4, 0.3, 3.0, -0.6),
    *,
    text: str | None = MOVIE,
    text_pair: str | None = None,
    pair_pieces: Sequence[str] = (),
    special: bool = True,
    special_score: float = 9.0,
    **changes: Any,
) -> Attribution:
    """Build a result from the tokens of a text, found in it one after the other, and those of a second text.

    Scores are those of both, leading axes allowed; [CLS] and [SEP] are put around with a score of their own.
    """
    array = np.asarray(scores, dtype=np.float32)
    rows: list[tuple[str, tuple[int, int], int | None]] = [("[CLS]", (0, 0), None)] if special else []
    for sequence, (source, group) in enumerate([(text, pieces), (text_pair, pair_pieces)]):
        if sequence == 1 and not group:
            break
        source, end = MOVIE if source is None else source, 0
        for piece in group:
            start = source.index(piece, end)
            joined = start > 0 and source[start - 1].isalnum() and piece[:1].isalnum() and start == end
            end = start + len(piece)
            rows.append((piece if not joined else f"##{piece}", (start, end), sequence))
        rows += [("[SEP]", (0, 0), None)] if special else []
    tokens, offsets, sequence_ids = zip(*rows, strict=True)
    is_special = np.array([s is None for s in sequence_ids])
    every = np.full((*array.shape[:-1], len(rows)), special_score, np.float32)
    ids = range(100, 100 + len(tokens))
    every[..., ~is_special] = array
    values: dict[str, Any] = {
        "scores": every,
        "units": units_of_tokens(tokens, is_special.tolist(), ids, sequence=sequence_ids, spans=offsets),
        "text": text,
        "text_pair": text_pair,
        "predictions": (Prediction("negative", 0, 3.25, 0.982),),
        "targets": (Target("label", "negative", 0),),
        "method": "normxlogit",
        "settings": {"norm_of": "embedding_output"},
        "model": "tiny-sst2",
        "signed": True,
        "version": "0.1.0",
    }
    return _with(values, changes)


COLUMNS = {"tokens": "text", "token_ids": "ids", "offsets": "spans", "special_tokens_mask": "special"}
"""The columns of units, by the names that a result has for those of its tokens."""


def _with(values: dict[str, Any], changes: dict[str, Any]) -> Attribution:
    for name in ("prediction", "target"):
        if name in changes:
            changes[name + "s"] = (changes.pop(name),)
    columns = {COLUMNS[name]: changes.pop(name) for name in list(changes) if name in COLUMNS}
    units = changes.get("units", values["units"])
    if "text" in columns and len(columns["text"]) != len(units):
        units = units_of_tokens(columns["text"], special=columns.pop("special"), ids=columns.pop("ids"))
    return Attribution(**(values | changes | {"units": replace(units, **columns)}))


def all_labels() -> Attribution:
    base = make_attribution()
    scores = np.stack([base.scores, -0.5 * base.scores])
    return make_attribution(scores=scores[:, 1:-1], targets=BOTH)


def all_layers(count: int = 3) -> Attribution:
    """Scores of several layers, each ten times the one below."""
    base = make_attribution()
    scores = np.stack([base.scores * 10.0**layer for layer in range(count)])
    return make_attribution(scores=scores[:, 1:-1], layers=tuple(range(1, count + 1)))


def labels_and_layers() -> Attribution:
    layered = all_layers().scores[:, 1:-1]
    return make_attribution(scores=np.stack([layered, -0.5 * layered]), targets=BOTH, layers=(1, 2, 3))


def pair() -> Attribution:
    return make_attribution(
        ("A", "man", "sleeps", "."),
        (0.1, 0.2, 1.0, 0.0, 0.1, -0.3, -2.0, 0.0),
        text="A man  sleeps.",
        text_pair="A man runs.",
        pair_pieces=("A", "man", "runs", "."),
    )


GENERATED = ("<s>", "the", " cat", "'s", " mat", " is", " red.")


def make_generation(pieces: Sequence[str] = GENERATED, prompt: int = 4, **changes: Any) -> Attribution:
    """Build a result of the tokens generated after a prompt, the first of all a special one."""
    ids, ends = range(100, 100 + len(pieces)), np.cumsum([len(piece) for piece in pieces]).tolist()
    spans = list(zip([0, *ends[:-1]], ends, strict=True))
    scores = np.array([[9, 0.5, -1, 2, 0, 0, 0], [9, 0.25, 1, 0, -3, 0, 0], [9, 0, 0, 0, 0, 1, 0]], np.float32)
    generated = tuple(Prediction(piece.strip(), 100 + i, 2.0, 0.5) for i, piece in enumerate(pieces) if i >= prompt)
    values: dict[str, Any] = {
        "scores": scores,
        "units": units_of_tokens(pieces, [place == 0 for place in range(len(pieces))], ids, spans=spans),
        "text": "".join(pieces),
        "completion": "".join(pieces[prompt:]),
        "prompt_tokens": prompt,
        "predictions": generated,
        "generated": generated,
        "targets": tuple(
            Target("token", p.label, p.id, position=prompt - 1 + g, span=spans[prompt + g])
            for g, p in enumerate(generated)
        ),
        "method": "normxlogit",
        "settings": {},
        "model": "a model",
        "signed": True,
        "version": "0.1.0",
        "diagnostics": {"convergence_error": (0.0, 0.5, -0.25)},
    }
    return _with(values, changes)
