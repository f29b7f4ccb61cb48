"""Texts of a run with words put in or left out, and the model's logits of them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import product

from torch import Tensor

from ...errors import DataError, InputError
from ...explainer import Explainer
from ...inputs.encoding import Encoding
from ...inputs.texts import SplitText, Text
from ...leave_out.outcomes import Outcomes, in_batches
from ...long_runs.model_identity import identity_of
from ...model.task_model import TaskModel
from ...pipeline.progress import progress_bar
from ...results.units.units import word_groups
from ...text.same import word_key
from .run_tables import RunTables

Words = tuple[str, ...]
"""The words of a text, each with the white space before it; of the last one also with what follows."""

Parts = tuple[Words, ...]
"""A text, or a pair of them."""


PartsOfRows = Mapping[int, Parts]
"""The words of texts by the numbers of their rows."""


Place = tuple[int, int]
"""Where a word stands: the number of the text, 1 of the second of a pair, and that of the word in it."""

Change = tuple[Parts, Parts]
"""Texts before and after a change."""


def places_of(terms: Sequence[str], parts: Parts) -> tuple[Place, ...]:
    """Return where a text has a word first, or where two words stand nearest to each other in their order.

    Args:
        terms: The word, or two different ones, of which the second stands behind the first. As tables write them.
        parts: The words of the text.

    Returns:
        A place for each term; () if the text does not have them.
    """
    combinations = product(*(_all_places(term, parts) for term in terms))
    # A single word has one place, which is the first and the last; the places of different words are never equal.
    in_order = (places for places in combinations if places[0] <= places[-1])
    return min(in_order, key=_distance, default=())


def _all_places(term: str, parts: Parts) -> list[Place]:
    """Return all places where a text has a word."""
    key = word_key(term)
    return [
        (sequence, index)
        for sequence, words in enumerate(parts)
        for index, word in enumerate(words)
        if word_key(word.strip()) == key
    ]


def _distance(places: tuple[Place, ...]) -> Place:
    """Return how many texts, and words, are from the first place to the last."""
    return places[-1][0] - places[0][0], places[-1][1] - places[0][1]


def text_with(terms: Sequence[str], parts: Parts, example: Parts) -> Parts | None:
    """Return a text with one or two words, about where another text has them; None if that text does not have them.

    Args:
        terms: The words, as tables write them.
        parts: The words of the text.
        example: Those of the other one.
    """
    places = places_of(terms, example)
    if not places:
        return None
    texts = list(parts)
    for sequence in {sequence for sequence, _ in places}:
        indices = [index for sequence_of_place, index in places if sequence_of_place == sequence]
        texts[sequence] = _inserted(parts[sequence], example[sequence], indices)
    return tuple(texts)


def _inserted(words: Words, example: Words, indices: Sequence[int]) -> Words:
    """Return words with one or two of another text put between them, about where they stand there.

    Args:
        words: The words of a text.
        example: Those of the other one.
        indices: Which of these are put in. As many words as there stand between two of them, if there are so many.
    """
    gap = _gap([example])
    distance = indices[-1] - indices[0]  # 0 of a single word
    words_between = min(distance - len(indices) + 1, len(words))
    last_start = len(example) - 1 - distance  # where the first of them could stand at most
    share_before = indices[0] / max(last_start, 1)
    first = round(share_before * (len(words) - words_between))
    changed = list(words)
    insert_at = [first, first + words_between][: len(indices)]
    for index, place in reversed([*zip(indices, insert_at, strict=True)]):  # from the end, so that places stay
        word = example[index].strip()
        changed.insert(place, word + gap if place == 0 else gap + word)
    return tuple(changed)


def texts_without(terms: Sequence[str], rows: Sequence[int], parts: PartsOfRows) -> list[Change]:
    """Return texts before and after words are left out, wherever they stand; none that would be left empty.

    Args:
        terms: The words, as tables write them.
        rows: The rows of the texts.
        parts: The words of texts by row.
    """
    keys = set(map(word_key, terms))
    changes = [(parts[row], tuple(_without(keys, words) for words in parts[row])) for row in rows]
    return [(before, after) for before, after in changes if all(after)]


def _without(keys: Collection[str], words: Words) -> Words:
    """Return words without those that have one of some keys, see `word_key`."""
    return tuple(word for word in words if word_key(word.strip()) not in keys)


def check_model(run: RunTables, explainer: Explainer) -> TaskModel:
    """Return the model of a run, to ask it for other texts."""
    model, task = explainer.task_model, explainer.task_model.task
    task.check_input(model, "one text")
    gives_one_label = task.position.pooled and task.outputs.outcomes == "exclusive" and task.outputs.labels
    if run.unit != "words" or not gives_one_label:
        advice = "attribute them so, without words=False or --no-words"
        raise InputError(f"verify= tests the words of texts that get one of several labels: {advice}")
    if not run.manifest.identity.is_same(identity_of(model)):
        raise DataError(f"{run.folder.location} was made by {run.manifest.model}, or by another state of it")
    if "text" not in run.column_types:
        raise DataError(f"{run.folder.location} holds no texts to change: it was made with --no-keep-text")
    return model


def whole_texts(run: RunTables, model: TaskModel) -> str:
    """Return the condition, in SQL, that a text has words and that the model read all of it."""
    limit = model.encoder.limit
    return "len(words) > 0" + ("" if limit is None else f" AND len(units) <= {limit}")


def logits_of(run: RunTables, model: TaskModel, texts: Iterable[Parts]) -> Mapping[Parts, Tensor]:
    """Return the model's logits, (C,), of each of the texts, which are read in batches and once each.

    Args:
        run: The tables of the run.
        model: Its model.
        texts: The words of each text, or pair.
    """
    distinct = list(dict.fromkeys(texts))
    if not distinct:
        return {}
    are_split = "word_spans" in run.column_types  # the caller has split the words
    encodings = model.encoder([text_of(parts, split=are_split) for parts in distinct], long_text="truncate")
    encoding_of = dict(zip(distinct, encodings, strict=True))

    def measure(batch: list[Encoding], _: list[Parts]) -> Iterable[Tensor]:
        logits = model.run(model.batch(batch)).logits  # (B, C)
        return logits.float().cpu().unbind()

    progress = partial(progress_bar, show=None, description="reading changed texts")
    logits: Outcomes[Parts, Tensor] = Outcomes(in_batches(model, encoding_of.__getitem__, measure), progress)
    return dict(zip(distinct, logits(distinct), strict=True))


def parts_of_rows(run: RunTables, rows: Iterable[int]) -> PartsOfRows:
    """Return the words of the texts, or pairs, of some rows as the model has read them.

    Args:
        run: The tables of the run.
        rows: The numbers of the rows.
    """
    pair, split = (name if name in run.column_types else "NULL" for name in ("text_pair", "word_spans"))
    texts = run.ask(
        f"""
        SELECT row, sequence_ids, spans, {split}, list_filter([text, {pair}], lambda part: part IS NOT NULL)
        FROM shards WHERE row IN (SELECT unnest(?)) ORDER BY row
        """,  # noqa: S608  # columns' names
        sorted(rows),
    )
    parts: dict[int, Parts] = {}
    for row, sequences, spans, word_spans, pair_or_text in texts:
        parts[row] = ()
        for sequence, text in enumerate(pair_or_text):
            tokens = [token for token, sequence_of_token in enumerate(sequences) if sequence_of_token == sequence]
            if word_spans is None:
                words = _words_of(text, [(token, *spans[token]) for token in tokens])
            else:
                words = _split_words_of(text, {tuple(word_spans[token]) for token in tokens})
            parts[row] = (*parts[row], words)
    return parts


def _split_words_of(text: str, spans: Collection[tuple[int, int]]) -> Words:
    """Return the words of a text that the caller has split, by their characters."""
    return tuple(text[start:end] for start, end in sorted(spans))


def _words_of(text: str, tokens: list[tuple[int, int, int]]) -> Words:
    """Return a text cut where the words of its tokens, (index, start, end), end."""
    ends = [end for _, end, _ in word_groups(text, tokens)]
    if ends:
        ends[-1] = len(text)  # what follows the last word belongs to it
    starts = [0, *ends[:-1]]
    return tuple(text[start:end] for start, end in zip(starts, ends, strict=False))


def text_of(parts: Parts, *, split: bool) -> Text:
    """Return the text or the pair of some words; `split` says that the caller has split the words.

    Args:
        parts: The words of a text, or of two.
        split: Whether the caller has split the words.
    """
    texts = [SplitText(part) if split else "".join(part) for part in parts]
    return (texts[0], texts[1]) if len(texts) == 2 else texts[0]


def joined(texts: Sequence[Parts]) -> Parts:
    """Return texts, or pairs of them, as one: the first texts of pairs behind each other, and so the second ones."""
    joined_parts: list[Words] = []
    for first, *later in zip(*texts, strict=True):  # the first texts of pairs, then the second ones
        gap = _gap([first, *later])
        all_words = list(first)
        for words in later:
            all_words += [gap + words[0].lstrip(), *words[1:]]
        joined_parts.append(tuple(all_words))
    return tuple(joined_parts)


def _gap(texts: Sequence[Words]) -> str:
    """Return what stands between the words of texts: a space, or nothing."""
    return " " if any(word[:1].isspace() for words in texts for word in words[1:]) else ""
