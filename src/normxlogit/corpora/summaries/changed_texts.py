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
"""The words of a text, each with the white space before it; the last one also with what follows it.

Words that the caller has split have no white space.
"""

Parts = tuple[Words, ...]
"""The words of a text, (1,), or of both texts of a pair, (2,)."""

PartsOfRows = Mapping[int, Parts]
"""The words of texts by the numbers of their rows."""

Place = tuple[int, int]
"""Where a word stands: the index of its text, which is 1 for the second one of a pair, and its index in that text."""

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


def _distance(places: tuple[Place, ...]) -> tuple[int, int]:
    """Return how many texts the last place is behind the first, and how many words."""
    return places[-1][0] - places[0][0], places[-1][1] - places[0][1]


def text_with(terms: Sequence[str], parts: Parts, example: Parts) -> Parts | None:
    """Return a text into which one or two words are put, about where an example has them.

    Args:
        terms: The words that are put in, as tables write them.
        parts: The words of the text.
        example: The words of another text, which has the terms.

    Returns:
        The words of the changed text; None if the example does not have the terms.
    """
    places = places_of(terms, example)
    if not places:
        return None
    texts = list(parts)
    for sequence in {sequence for sequence, _ in places}:  # of a pair each of two words may be in one text
        indices = [index for sequence_of_place, index in places if sequence_of_place == sequence]
        texts[sequence] = _inserted(parts[sequence], example[sequence], indices)
    return tuple(texts)


def _inserted(words: Words, example: Words, indices: Sequence[int]) -> Words:
    """Return words with one or two of an example put between them, about where they stand in the example.

    The first comes as far from the beginning, in relation to the number of words, as in the example. Between two of
    them as many words stand as in the example, if there are so many.

    Args:
        words: The words of a text.
        example: The words of the example.
        indices: The indices of the words of the example that are put in, one or two in their order.
    """
    gap = _gap([example])
    distance = indices[-1] - indices[0]  # 0 of a single word
    words_between = min(distance - len(indices) + 1, len(words))  # one less than the distance; 0 of a single word
    last_start = len(example) - 1 - distance  # the largest index that the first of them could have in the example
    share_before = indices[0] / max(last_start, 1)
    first_place = round(share_before * (len(words) - words_between))
    places = [first_place, first_place + words_between][: len(indices)]  # before which of the words each is inserted
    changed = list(words)
    for index, place in reversed([*zip(indices, places, strict=True)]):  # from the end, so that places stay
        word = example[index].strip()
        changed.insert(place, word + gap if place == 0 else gap + word)
    return tuple(changed)


def texts_without(terms: Sequence[str], rows: Sequence[int], parts: PartsOfRows) -> list[Change]:
    """Return texts before and after words are left out wherever they stand, without texts that would become empty.

    Args:
        terms: The words, as tables write them.
        rows: The rows of the texts.
        parts: The words of texts by row.
    """
    keys = set(map(word_key, terms))
    changes = [(parts[row], tuple(_without(keys, words) for words in parts[row])) for row in rows]
    return [(before, after) for before, after in changes if all(after)]


def _without(keys: Collection[str], words: Words) -> Words:
    """Return the words that have none of some keys, see `word_key`."""
    return tuple(word for word in words if word_key(word.strip()) not in keys)


def check_model(run: RunTables, explainer: Explainer) -> TaskModel:
    """Return the model of a run, after checking that it can be run on changed texts.

    Args:
        run: The tables of the run.
        explainer: The explainer with the run's model.

    Raises:
        InputError: If the results are not words of texts that get one of several labels.
        DataError: If the run was made by another model, or holds no texts.
    """
    model = explainer.task_model
    task = model.task
    task.check_input(model, "one text")
    has_one_answer = task.position.pooled  # for the whole text, and not for each token
    gives_one_label = has_one_answer and task.outputs.outcomes == "exclusive" and task.outputs.labels
    if run.unit != "words" or not gives_one_label:
        advice = "attribute them so, without words=False or --no-words"
        raise InputError(f"verify= tests the words of texts that get one of several labels: {advice}")
    if not run.manifest.identity.is_same(identity_of(model)):
        raise DataError(f"{run.folder.location} was made by {run.manifest.model}, or by another state of it")
    if "text" not in run.column_types:
        raise DataError(f"{run.folder.location} holds no texts to change: it was made with --no-keep-text")
    return model


def whole_text_condition(run: RunTables, model: TaskModel) -> str:
    """Return the condition for rows, in SQL, that their text has words and that the model read all of it."""
    limit = model.encoder.limit  # a text of just as many tokens may have been cut
    return "len(words) > 0" + ("" if limit is None else f" AND len(units) < {limit}")


def logits_of(run: RunTables, model: TaskModel, texts: Iterable[Parts]) -> Mapping[Parts, Tensor]:
    """Return the model's logits, (C,), of each text, by its words; the model reads texts in batches, each text once.

    Args:
        run: The tables of the run.
        model: Its model.
        texts: The words of each text, or pair.
    """
    distinct = list(dict.fromkeys(texts))
    if not distinct:
        return {}
    are_split = "word_spans" in run.column_types  # the caller has split the words
    # A text with words put in may be longer than the model reads; its end is cut off.
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
    # Runs without pairs, or of texts that the caller has not split, do not have these columns.
    second_text, word_spans = (name if name in run.column_types else "NULL" for name in ("text_pair", "word_spans"))
    rows_of_texts = run.ask(
        f"""
        SELECT row, sequence_ids, spans, {word_spans}, list_filter([text, {second_text}], lambda part: part IS NOT NULL)
        FROM shards WHERE row IN (SELECT unnest(?)) ORDER BY row
        """,  # noqa: S608  # columns' names
        sorted(rows),
    )
    parts: dict[int, Parts] = {}
    for row, sequence_ids, token_spans, word_span_of_token, texts in rows_of_texts:
        parts[row] = ()
        for sequence, text in enumerate(texts):
            tokens = [token for token, sequence_id in enumerate(sequence_ids) if sequence_id == sequence]
            if word_span_of_token is None:
                words = _words_of(text, [(token, *token_spans[token]) for token in tokens])
            else:
                words = _split_words_of(text, {tuple(word_span_of_token[token]) for token in tokens})
            parts[row] = (*parts[row], words)
    return parts


def _split_words_of(text: str, spans: Collection[tuple[int, int]]) -> Words:
    """Return the words of a text that the caller has split, by their characters."""
    return tuple(text[start:end] for start, end in sorted(spans))


def _words_of(text: str, tokens: list[tuple[int, int, int]]) -> Words:
    """Return the words of a text, which is cut at the end of each word.

    Args:
        text: The text.
        tokens: The index, start and end of each of its tokens, in characters.
    """
    ends = [end for _, end, _ in word_groups(text, tokens)]
    if ends:
        ends[-1] = len(text)  # what follows the last word belongs to it
    starts = [0, *ends[:-1]]
    return tuple(text[start:end] for start, end in zip(starts, ends, strict=False))  # none where there is no end


def text_of(parts: Parts, *, split: bool) -> Text:
    """Return a text, or a pair of texts, as the model reads it.

    Args:
        parts: The words of the text, or of both.
        split: Whether the caller has split the words.
    """
    texts = [SplitText(part) if split else "".join(part) for part in parts]
    return (texts[0], texts[1]) if len(texts) == 2 else texts[0]


def joined(texts: Sequence[Parts]) -> Parts:
    """Return texts, or pairs of them, joined into one: of pairs the first texts are joined, and the second ones."""
    joined_parts: list[Words] = []
    for first, *later in zip(*texts, strict=True):  # the first texts of pairs, then the second ones
        gap = _gap([first, *later])
        all_words = list(first)
        for words in later:
            all_words += [gap + words[0].lstrip(), *words[1:]]
        joined_parts.append(tuple(all_words))
    return tuple(joined_parts)


def _gap(texts: Sequence[Words]) -> str:
    """Return what stands between the words of texts: a space, or nothing, as in Chinese or where words were split."""
    return " " if any(word[:1].isspace() for words in texts for word in words[1:]) else ""
