"""Hand-made results for the tests: no model, no tokenizer."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from normxlogit.results.attribution import Attribution
from normxlogit.results.generation import GenerationAttribution
from normxlogit.results.media import AudioScores, ImageScores
from normxlogit.results.signals import AudioAttribution, ImageAttribution
from normxlogit.results.targets import Prediction, TargetInfo

MOVIE = "The movie is mediocre, maybe even bad."
LABELS = ("negative", "positive")


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
    """Build a result from the tokens of a text, found in it one after the other.

    Args:
        pieces: Tokens as they stand in the text, a leading space included.
        scores: Their scores, leading axes allowed, without the special tokens'.
        text: The text; None for an input that was already encoded.
        text_pair: The second text.
        pair_pieces: Its tokens; their scores follow the first text's.
        special: Whether [CLS] and [SEP] are put around.
        special_score: Their score.
        changes: Fields to set to something else.
    """
    tokens: list[str] = []
    offsets: list[tuple[int, int]] = []
    word_ids: list[int | None] = []
    sequence_ids: list[int | None] = []
    array = np.asarray(scores, dtype=np.float32)
    parts = []

    def add_special(name: str) -> None:
        if special:
            tokens.append(name)
            offsets.append((0, 0))
            word_ids.append(None)
            sequence_ids.append(None)
            parts.append(np.full((*array.shape[:-1], 1), special_score, dtype=np.float32))

    used = 0
    add_special("[CLS]")
    for sequence, (source, group) in enumerate([(text, pieces), (text_pair, pair_pieces)]):
        if sequence == 1 and not group:
            break
        source = MOVIE if source is None else source
        position, word = 0, -1
        for piece in group:
            start = source.index(piece, position)
            end = start + len(piece)
            joined = start > 0 and source[start - 1].isalnum() and piece[:1].isalnum() and start == position
            word += not joined
            tokens.append(piece if not joined else f"##{piece}")
            offsets.append((start, end))
            word_ids.append(word)
            sequence_ids.append(sequence)
            parts.append(array[..., used : used + 1])
            used, position = used + 1, end
        add_special("[SEP]")
    assert used == array.shape[-1]
    values: dict[str, Any] = {
        "scores": np.concatenate(parts, -1),
        "tokens": tuple(tokens),
        "token_ids": tuple(range(100, 100 + len(tokens))),
        "offsets": tuple(offsets),
        "word_ids": tuple(word_ids),
        "sequence_ids": tuple(sequence_ids),
        "special_tokens_mask": tuple(s is None for s in sequence_ids),
        "text": text,
        "text_pair": text_pair,
        "prediction": Prediction("negative", 0, 3.25, 0.982),
        "target": TargetInfo("label", ("negative",), (0,)),
        "layers": None,
        "token_predictions": None,
        "method": "normxlogit",
        "settings": {"norm_of": "embedding_output"},
        "model": "tiny-sst2",
        "signed": True,
        "notes": (),
        "version": "0.1.0",
    }
    return Attribution(**(values | changes))


def all_labels() -> Attribution:
    """Scores of both labels, opposite in sign."""
    base = make_attribution()
    scores = np.stack([base.scores, -0.5 * base.scores])
    return make_attribution(scores=scores[:, 1:-1], target=TargetInfo("label", LABELS, (0, 1)))


def all_layers(count: int = 3) -> Attribution:
    """Scores of several layers, each ten times the one below."""
    base = make_attribution()
    scores = np.stack([base.scores * 10.0**layer for layer in range(count)])
    return make_attribution(scores=scores[:, 1:-1], layers=tuple(range(1, count + 1)))


def labels_and_layers() -> Attribution:
    """Scores of two labels at three layers."""
    layered = all_layers().scores[:, 1:-1]
    return make_attribution(
        scores=np.stack([layered, -0.5 * layered]), target=TargetInfo("label", LABELS, (0, 1)), layers=(1, 2, 3)
    )


def pair() -> Attribution:
    """A premise and a hypothesis."""
    return make_attribution(
        ("A", "man", "sleeps", "."),
        (0.1, 0.2, 1.0, 0.0, 0.1, -0.3, -2.0, 0.0),
        text="A man  sleeps.",
        text_pair="A man runs.",
        pair_pieces=("A", "man", "runs", "."),
    )


def make_generation(**changes: Any) -> GenerationAttribution:
    """Build a result of two tokens written after a prompt of four."""
    text, pieces = "<s>the cat's mat is red.", ("<s>", "the", " cat", "'s", " mat", " is", " red.")
    ends = np.cumsum([len(piece) for piece in pieces]).tolist()
    count, prompt = len(pieces), 4
    scores = np.array([[9, 0.5, -1, 2, 0, 0, 0], [9, 0.25, 1, 0, -3, 0, 0], [9, 0, 0, 0, 0, 1, 0]], np.float32)
    said = tuple(Prediction(piece.strip(), 104 + g, 2.0, 0.5) for g, piece in enumerate(pieces[prompt:]))
    values: dict[str, Any] = {
        "scores": scores,
        "tokens": pieces,
        "token_ids": tuple(range(100, 100 + count)),
        "offsets": tuple(zip([0, *ends[:-1]], ends, strict=True)),
        "special_tokens_mask": tuple(piece == "<s>" for piece in pieces),
        "text": text,
        "completion": " mat is red.",
        "prompt_tokens": prompt,
        "predictions": said,
        "generated": said,
        "targets": tuple(TargetInfo("token", (p.label,), (p.id,), position=3 + g) for g, p in enumerate(said)),
        "layers": None,
        "method": "normxlogit",
        "settings": {},
        "model": "a model",
        "signed": True,
        "notes": (),
        "version": "0.1.0",
        "diagnostics": {"convergence_error": (0.0, 0.5, -0.25)},
    }
    return GenerationAttribution(**(values | changes))


def make_media() -> GenerationAttribution:
    """Build a result of two tokens written after a picture of four patches and a sound of three moments."""
    random = np.random.default_rng(0)
    grid = np.array([[[0, 0, 8, 6], [8, 0, 16, 6]], [[0, 6, 8, 12], [8, 6, 16, 12]]], np.float32)
    picture = ImageScores(
        scores=random.normal(size=(3, 2, 2)).astype(np.float32), name="cat.png", boxes=grid, width=16, height=12
    )
    sound = AudioScores(
        scores=random.normal(size=(3, 3)).astype(np.float32),
        name="cat.wav",
        times=np.array([[0, 0.5], [0.5, 1], [1, 1.5]], np.float32),
        seconds=1.5,
        loudness=np.array([0, 1, 0.5], np.float32),
    )
    return make_generation(images=(picture,), audio=(sound,))


def make_image() -> ImageAttribution:
    """Build a result of four patches behind a class token."""
    names = ("[0]", "0,0", "0,1", "1,0", "1,1")
    values = vars(make_attribution(("a", "b", "c", "d"), (1, -2, 3, 0), text="a b c d"))
    own = {"tokens": names, "token_ids": (), "offsets": None, "word_ids": None, "text": None}
    cut = {name: values[name][:5] for name in ("scores", "sequence_ids", "special_tokens_mask")}
    return ImageAttribution(**(values | own | cut), rows=2, columns=2, first=1)


def make_audio() -> AudioAttribution:
    """Build a result of five frames."""
    values = {name: value for name, value in vars(make_image()).items() if name not in ("rows", "columns", "first")}
    return AudioAttribution(**values, times=tuple((0.5 * i, 0.5 * i + 0.5) for i in range(5)))
