"""Wrong reasons: what turns answers by itself, whatever else the texts say, measured with the model."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import NamedTuple

from ...errors import DataError, InputError
from ...explainer import Explainer
from ...inputs.encoding import Encoding
from ...inputs.texts import SplitText, Text
from ...leave_out.outcomes import Outcomes, in_batches
from ...long_runs.model_identity import identity_of
from ...model.task_model import TaskModel
from ...results.units.units import word_groups
from .run_tables import RunTables
from .units import Reason, Z, share_of

SAMPLE = 400
"""Most texts of each prediction, drawn at random, into which something is put."""

PUT_INTO = 30
"""Texts into which each candidate is put: fewer would leave the interval too wide to call anything wrong."""

JOINED, LENGTHENED = 4, 60
"""How many texts of one answer are read as one text, and how often: to see what the length of a text decides."""

UNSURE = 4
"""A text is lengthened with those of one in so many texts that have its answer by the lowest probability.

More of what is surely said would outweigh the length.
"""

LONGER = "(more words than most)"
"""The name of a length as a reason; with two labels the other one is for short texts."""

Words = tuple[str, ...]
"""The words of a text, each with the white space before it; of the last one also with what follows."""

Parts = tuple[Words, ...]
"""A text, or a pair of them."""

Answered = tuple[int, str, float]
"""A row, its prediction and the probability of this."""

Changes = list[tuple[Parts, Parts]]
"""Texts before and after a change."""


@dataclass(frozen=True)
class Phrase:
    """One word, or words that follow each other."""

    name: str  # how tables call it: in lower case
    words: int = 1  # how many words

    def holds(self, parts: Parts) -> bool:
        """Return whether a text has it."""
        return any(map(self._places, parts))

    def put(self, parts: Parts, example: Parts) -> Parts | None:
        """Return a text with it, about where another text has it; None if that has not."""
        places = [(sequence, place) for sequence, words in enumerate(example) for place in self._places(words)]
        if not places:
            return None
        sequence, index = places[0]
        written, words = example[sequence], parts[sequence]
        at = round(index / max(len(written) - self.words, 1) * len(words))
        gap = _gap([written])
        added = [word.strip() for word in written[index : index + self.words]]
        inserted = tuple(word + gap if at == 0 else gap + word for word in added)
        return (*parts[:sequence], (*words[:at], *inserted, *words[at:]), *parts[sequence + 1 :])

    def without(self, parts: Parts) -> Parts | None:
        """Return a text without it, wherever it stands; None if nothing is left."""
        remaining: list[Words] = []
        for words in parts:
            taken = {place + offset for place in self._places(words) for offset in range(self.words)}
            remaining.append(tuple(word for place, word in enumerate(words) if place not in taken))
        return tuple(remaining) if all(remaining) else None

    def _places(self, words: Words) -> list[int]:
        """Return the words of a text at which it begins."""
        names, count = [word.strip().lower() for word in words], self.words
        return [i for i in range(len(names) - count + 1) if " ".join(names[i : i + count]) == self.name]


class Candidate(NamedTuple):
    """Words, or a length, that may decide for a label."""

    label: str
    phrase: Phrase  # the words; none of a length
    texts: int  # how many texts have it
    answered: float  # the share of them that are predicted to have the label
    score_share: float | None  # their mean share of the scores of these; None of a length
    rows: Sequence[int]  # some of these, drawn at random; none of a length


def check_model(run: RunTables, explainer: Explainer) -> TaskModel:
    """Return the model of a run, to ask it for other texts."""
    model, task = explainer.task_model, explainer.task_model.task
    is_of_texts = run.unit == "words" and task.position.at == "text" and task.reads != "texts"
    if not is_of_texts or task.outputs.outcomes != "exclusive" or not task.outputs.labels:
        advice = "attribute them so, without words=False or --no-words"
        raise InputError(f"verify= tests the words of texts that get one of several labels: {advice}")
    if not run.manifest.identity.is_same(identity_of(model)):
        raise DataError(f"{run.folder.location} was made by {run.manifest.model}, or by another state of it")
    if "text" not in run.kinds:
        raise DataError(f"{run.folder.location} holds no texts to change: it was made with --no-keep-text")
    return model


def find_reasons(run: RunTables, model: TaskModel, layer: int, top: int, least: int, count: int) -> list[Reason]:
    """Return what turns most answers when it is put into texts with another answer, the surest first.

    Candidates are the words, and pairs of neighbouring words, that the scores or the counts connect most surely with a
    prediction, and the lengths of texts. Each is taken out of at most `count` texts, and put into `PUT_INTO`.
    """
    limit = model.encoder.limit
    where = "len(words) > 0" + ("" if limit is None else f" AND len(units) <= {limit}")
    sampled = run.ask(
        f"""
        SELECT row, prediction, probability FROM shards WHERE {where}
        QUALIFY row_number() OVER (PARTITION BY prediction ORDER BY hash(row), row) <= {SAMPLE}
        ORDER BY hash(row), row
        """  # noqa: S608  # numbers
    )
    usual = dict(run.ask("SELECT prediction, count(*) / sum(count(*)) OVER () FROM shards GROUP BY prediction"))
    candidates = [*_phrases(run, where, layer, top, least, count), *_lengths(run)]
    rows = {row for row, *_ in sampled}.union(*(candidate.rows for candidate in candidates))
    parts = parts_of_rows(run, rows)
    lengthened = _lengthened(sampled, parts)
    put = [_put(each, sampled, parts) if each.phrase.words else lengthened for each in candidates]
    taken = [
        [(parts[row], left) for row in each.rows if (left := each.phrase.without(parts[row])) is not None]
        for each in candidates
    ]
    changed_texts = (text for changes in (*put, *taken) for change in changes for text in change)
    answers = _answers(model, changed_texts, split="word_spans" in run.kinds)
    reasons = []
    for each, added, removed in zip(candidates, put, taken, strict=True):
        turned = share_of([answers[after] == each.label for before, after in added if answers[before] != each.label])
        changed = share_of([answers[b] != each.label for a, b in removed if answers[a] == each.label])
        if turned is not None:
            shares = each.answered, usual[each.label], each.score_share, turned, changed
            reasons.append(Reason(each.label, each.phrase.name, each.texts, *shares, each.phrase.words))
    return _distinct(sorted(reasons, key=lambda reason: (-reason.turned.low, -reason.texts)))[:top]


def _phrases(run: RunTables, where: str, layer: int, top: int, least: int, count: int) -> list[Candidate]:
    """Return the words and pairs of words that are most surely connected with a prediction, punctuation too."""
    run.ask(
        f"""
        CREATE TEMP TABLE phrases AS
        WITH scored AS (
            SELECT row, prediction, words,
                   word_scores[{layer} * len(words) + 1 : {layer + 1} * len(words)] AS scores
            FROM shards WHERE {where} AND target[1] = prediction
        ), flat AS (
            SELECT row, prediction, unnest(words) AS word, unnest(list_append(words[2:], NULL)) AS next,
                   unnest(scores) AS score, unnest(list_append(scores[2:], 0)) AS next_score,
                   list_sum(list_transform(scores, lambda x: abs(x))) AS total
            FROM scored
        ), each AS (
            SELECT row, prediction, 1 AS size, lower(trim(word)) AS name, score / total AS share FROM flat
            UNION ALL
            SELECT row, prediction, 2, lower(trim(word)) || ' ' || lower(trim(next)), (score + next_score) / total
            FROM flat WHERE next IS NOT NULL
        )
        SELECT row, prediction, size, name, avg(share) AS share FROM each GROUP BY ALL
        """  # noqa: S608  # numbers
    )
    rows = run.ask(
        f"""
        WITH labels AS (SELECT prediction, count(*) / sum(count(*)) OVER () AS usual FROM shards GROUP BY prediction),
        texts AS (SELECT size, name, count(*) AS n FROM phrases GROUP BY ALL HAVING n >= ?),
        counted AS (
            SELECT prediction, size, name, n, count(*) / n AS answered, avg(share) AS mean,
                   mean - {Z} * coalesce(stddev_samp(share), 1) / sqrt(count(*)) AS surest,
                   (answered - usual) / sqrt(usual * (1 - usual) / n) AS deviation,
                   list_slice(list(row ORDER BY hash(row), row), 1, ?) AS rows
            FROM phrases JOIN texts USING (size, name) JOIN labels USING (prediction)
            WHERE usual < 1 GROUP BY prediction, size, name, n, usual
        )
        SELECT prediction, size, name, n, answered, mean, rows FROM counted WHERE deviation > 0
        QUALIFY row_number() OVER (PARTITION BY prediction, size ORDER BY surest DESC, name) <= ?
             OR row_number() OVER (PARTITION BY prediction, size ORDER BY deviation DESC, name) <= ?
        ORDER BY prediction, size, name
        """,  # noqa: S608  # numbers
        least,
        count,
        top,
        top,
    )
    return [
        Candidate(label, Phrase(name, size), texts, answered, share, drawn)
        for label, size, name, texts, answered, share, drawn in rows
    ]


def _answers(model: TaskModel, texts: Iterable[Parts], *, split: bool) -> Mapping[Parts, str]:
    """Return the label that a model predicts of each text; `split` says that the caller has split the words."""
    distinct = list(dict.fromkeys(texts))
    if not distinct:
        return {}
    encodings = model.encoder([text_of(parts, split=split) for parts in distinct], long_text="truncate")

    def measure(batch: list[Encoding], _: list[Parts]) -> Iterable[int]:
        labels: list[int] = model.run(model.batch(batch, list(range(len(batch))))).logits.argmax(-1).tolist()  # (B,)
        return labels

    by_parts = dict(zip(distinct, encodings, strict=True))
    answers: Outcomes[Parts, int] = Outcomes(in_batches(model, by_parts.__getitem__, measure))
    return {text: model.task.outputs.labels[label] for text, label in zip(distinct, answers(distinct), strict=True)}


def _put(candidate: Candidate, sampled: Sequence[Answered], parts: Mapping[int, Parts]) -> Changes:
    """Return texts with another answer, without and with the words."""
    phrase = candidate.phrase
    changed: Changes = []
    for row, prediction, _ in sampled:
        if prediction == candidate.label or phrase.holds(parts[row]) or len(changed) == PUT_INTO:
            continue
        example = parts[candidate.rows[len(changed) % len(candidate.rows)]]
        after = phrase.put(parts[row], example)
        if after is not None and phrase.holds(after):
            changed.append((parts[row], after))
    return changed


def _lengths(run: RunTables) -> list[Candidate]:
    """Return for each label the length of the texts with more words than half of them have."""
    longer = "len(words) > (SELECT median(len(words)) FROM shards)"
    counts = run.ask(f"SELECT prediction, count(*) FILTER ({longer}) FROM shards GROUP BY ALL ORDER BY 1")  # noqa: S608
    texts = sum(count for _, count in counts)
    return [Candidate(label, Phrase(LONGER, 0), texts, count / texts, None, ()) for label, count in counts if texts]


def _lengthened(sampled: Sequence[Answered], parts: Mapping[int, Parts]) -> Changes:
    """Return texts before and after unsure ones of their prediction are joined to them: that should not change it."""
    changed: Changes = []
    for label in dict.fromkeys(prediction for _, prediction, _ in sampled):
        rows = [(probability, row) for row, prediction, probability in sampled if prediction == label]
        unsure = cycle(parts[row] for _, row in sorted(rows)[: max(len(rows) // UNSURE, 1)])
        for _, row in rows[:LENGTHENED]:
            changed.append((parts[row], joined([parts[row], *islice(unsure, JOINED - 1)])))
    return changed


def _distinct(reasons: Sequence[Reason]) -> list[Reason]:
    """Return reasons without groups of words of which one word turns as many answers by itself."""
    alone = {(reason.label, reason.name): reason.turned.value for reason in reasons if reason.words == 1}
    return [
        reason
        for reason in reasons
        if reason.words < 2
        or reason.turned.low > max(alone.get((reason.label, word), 0.0) for word in reason.name.split(" "))
    ]


def parts_of_rows(run: RunTables, rows: Iterable[int]) -> dict[int, Parts]:
    """Return the words of the texts, or pairs, of some rows as the model has read them."""
    pair, split = (name if name in run.kinds else "NULL" for name in ("text_pair", "word_spans"))
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
            tokens = [i for i, of in enumerate(sequences) if of == sequence]
            if word_spans is not None:
                words = tuple(text[start:end] for start, end in sorted({tuple(word_spans[i]) for i in tokens}))
            else:
                ends = [end for _, end, _ in word_groups(text, [(i, *spans[i]) for i in tokens])]
                ends[-1:] = [len(text)] if ends else []
                words = tuple(text[start:end] for start, end in zip([0, *ends], ends, strict=False))
            parts[row] = (*parts[row], words)
    return parts


def text_of(parts: Parts, *, split: bool) -> Text:
    """Return the text or the pair of some words; `split` says that the caller has split the words."""
    texts = [SplitText(part) if split else "".join(part) for part in parts]
    return (texts[0], texts[1]) if len(texts) == 2 else texts[0]


def joined(texts: Sequence[Parts]) -> Parts:
    """Return texts, or pairs of them, as one: the first texts of pairs behind each other, and so the second ones."""
    together: list[Words] = []
    for written in zip(*texts, strict=True):
        gap = _gap(written)
        later = [word for words in written[1:] for word in (gap + words[0].lstrip(), *words[1:])]
        together.append((*written[0], *later))
    return tuple(together)


def _gap(texts: Sequence[Words]) -> str:
    """Return what stands between the words of texts: a space, or nothing."""
    return " " if any(word[:1].isspace() for words in texts for word in words[1:]) else ""
