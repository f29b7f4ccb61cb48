"""The summary of a corpus: what was predicted, what is right, and which words speak for which label."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import InputError
from ...inputs.texts import positive_integer
from ...pipeline.arguments import checked_arguments
from .citations import CitationSummary, summarize_citations
from .right_answers import compare_with_gold
from .run_tables import RunSummary, RunTables
from .slices import slices_by
from .units import LabelAnswers, Reason, RowNote, Share, Slice, Unit, WrongAnswer
from .words import EXAMPLES, rare_units, sum_up_units, surest_units, visible_layer

if TYPE_CHECKING:
    from ...explainer import Explainer

TESTED = 2
"""How many times as many words are tested as are listed, because those that do not pass are left out."""


@dataclass(frozen=True, kw_only=True)
class Summary(RunSummary):
    """The summary of a corpus run: which words speak for which labels, and in which answers the model is wrong.

    Words are counted by texts: a word that stands twenty times in a text, or in twenty rows of the same text, counts
    once.

    Attributes:
        outputs: What the model answers with: a "label", a "value" or a "token".
        layer: The layer whose scores these are: of several the last with scores outside special tokens that can be
            seen; None if layers were not asked for.
        unit: "words", "tokens", or of pictures "patches" and of sounds "frames", each of them at one place.
        failures: Why they have none, the most frequent reasons first.
        notes: What is noted of results, such as a text that was cut or is unknown to the tokenizer, in the same order.
        min_texts: Least texts of a unit in the lists.
        rare: Units that stand in fewer texts.
        labels: How often each label was predicted.
        highest: For each label the units that speak for it most surely: of a mean score above 0, those whose 95%
            interval begins highest. With `verify` those alone without which the label's logit falls.
        against: For each label those that speak against its predictions most surely; empty for methods without a sign.
        untrue: With `verify`, units that by their scores would be in these lists, and whose removal changes the logit
            by less than a tenth of their score, or not surely.
        tested: Whether the units were left out to see what the model answers without them.
        accuracy: Share of right answers, None without a gold column.
        right: The same share with how many answers it is of, and its 95% interval.
        matrix: The answers by right label: how many texts of each label get which prediction; empty without a gold
            column, or where a text has several right labels.
        unlabelled: Rows whose right label is missing or left out by `gold_labels`; they are neither right nor wrong.
        unknown: Right labels that the model does not have, with their rows; each of these rows counts as wrong.
        wrong: Rows with a wrong answer, those of the highest probability first.
        slices: The rows by the values of the columns that `by` names.
        reasons: What turns most answers when it is put into texts with another one, the surest first; empty if that was
            not measured.
        texts: The texts of the examples by id, where they were kept.
    """

    outputs: str
    layer: int | None
    unit: str
    failures: list[RowNote]
    notes: list[RowNote]
    min_texts: int
    rare: int
    labels: dict[str, int]
    highest: list[Unit]
    against: list[Unit]
    untrue: list[Unit]
    tested: bool
    texts: dict[str, str]
    accuracy: float | None = None
    right: Share | None = None
    matrix: list[LabelAnswers] = field(default_factory=list)
    unlabelled: int = 0
    unknown: dict[str, int] = field(default_factory=dict)
    wrong: list[WrongAnswer] = field(default_factory=list)
    slices: list[Slice] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)


@checked_arguments()
def summarize(
    folder: str | Path,
    *,
    gold: str | None = None,
    gold_labels: Any = None,
    by: str | Sequence[str] = (),
    top: int = 15,
    min_texts: int = 5,
    verify: int | None = None,
    explainer: "Explainer | None" = None,
) -> Summary | CitationSummary:
    """Sum up a corpus run.

    Of answers and conversations the summary says how many of their sentences the sources support, with an interval,
    and which answers have others.

    Args:
        folder: The folder that `attribute` wrote.
        gold: A kept column with the right labels: names of labels, booleans, or numbers that stand in the names of
            labels (3 is "3 stars") or are classes of a data set.
        gold_labels: What other values of that column mean: a mapping to labels such as {1: "negative", 5: "positive",
            3: None}, where None leaves rows out; the names of whole numbers from 0 on, as in a `ClassLabel`; or
            "id2label" if numbers count the labels of the model.
        by: Kept columns by whose values answers are counted, such as a language; "length" is that of the texts.
        top: Units in each list.
        min_texts: Leave out units that stand in fewer texts.
        verify: Leave each listed word out of at most so many of the texts that have it, list those alone that the
            answer rests on, and find words that decide by themselves.
        explainer: The model that the run was made by, for `verify`.

    Raises:
        DataError: If there is no such run, a column is missing, or the model is another.
        InputError: If answers are to be compared with labels, `gold_labels` cannot be read, or `verify` has no model or
            no words.
    """
    _check_pairs_of_arguments(gold, gold_labels, verify, explainer)
    count = None if verify is None else positive_integer(verify, "verify")
    columns = [by] if isinstance(by, str) else list(by)
    with closing(RunTables(folder)) as run:
        if run.of_answers:
            _check_for_answers(gold, columns, count)
            return summarize_citations(run, top)
        run.make_distinct_texts()
        run.make_spellings()
        layer = visible_layer(run)
        sum_up_units(run, layer)
        of_gold = {} if gold is None else compare_with_gold(run, gold, gold_labels, layer, top)
        if explainer is None or count is None:  # both or neither, see `_check_pairs_of_arguments`
            of_words = _words(run, top, min_texts)
        else:
            of_words = _tested_words(run, explainer, layer, top, min_texts, count)
        return Summary(
            **run.described(),
            **of_words,
            **of_gold,
            texts=_texts_of_examples(run, of_words),
            outputs=run.common["outputs"],
            layer=run.common["layers"][layer] if run.common.get("layers") else None,
            unit=run.unit,
            failures=_failures(run, top),
            notes=_notes(run, top),
            min_texts=min_texts,
            rare=rare_units(run, min_texts),
            labels=dict(run.ask("SELECT prediction, count(*) AS n FROM shards GROUP BY ALL ORDER BY n DESC, 1")),
            slices=slices_by(run, columns, compared=gold is not None),
        )


def _check_pairs_of_arguments(gold: Any, gold_labels: Any, verify: Any, explainer: Any) -> None:
    """Refuse an argument that goes with another one, without it."""
    if (verify is None) != (explainer is None):
        raise InputError("verify= is how often a word is taken out, and explainer= the model that is asked: give both")
    if gold is None and gold_labels is not None:
        raise InputError("gold_labels= says what the values of the column gold= mean: give both")


def _check_for_answers(gold: str | None, columns: Sequence[str], verify: int | None) -> None:
    """Refuse what is for texts with labels and not for answers."""
    if gold is not None:
        raise InputError("gold= is for texts with labels, not for answers")
    if columns:
        raise InputError("by= counts the labels of texts, and answers have none")
    if verify is not None:
        raise InputError("answers are tested when they are attributed: attribute(..., verify='auto')")


def _words(run: RunTables, top: int, min_texts: int) -> dict[str, Any]:
    """Return the fields of `Summary` on words, by their scores alone."""
    return {
        "highest": surest_units(run, top, min_texts),
        "against": surest_units(run, top, min_texts, against=True) if run.common.get("signed") else [],
        "untrue": [],
        "tested": False,
    }


def _tested_words(
    run: RunTables, explainer: "Explainer", layer: int, top: int, min_texts: int, count: int
) -> dict[str, Any]:
    """Return the fields of `Summary` on words that were tested, and on what decides by itself.

    Args:
        run: The tables of the run.
        explainer: The explainer with the run's model.
        layer: The index of the layer whose scores count, among those of the run.
        top: The most words of each list.
        min_texts: In how many texts a word stands at least.
        count: The most texts that each word is left out of.
    """
    from .changed_texts import check_model  # this and the others import torch
    from .reasons import find_reasons
    from .word_tests import tested_units

    model = check_model(run, explainer)
    words = _words(run, TESTED * top, min_texts)
    highest, untrue = _confirmed(tested_units(run, model, words["highest"], count, against=False), top)
    against, untrue_against = _confirmed(tested_units(run, model, words["against"], count, against=True), top)
    return {
        "highest": highest,
        "against": against,
        "untrue": [*untrue, *untrue_against],
        "tested": True,
        "reasons": find_reasons(run, model, layer, top, min_texts, count),
    }


def _confirmed(units: Sequence[Unit], top: int) -> tuple[list[Unit], list[Unit]]:
    """Return the units that may be listed, and those that did not pass their test.

    Args:
        units: The tested units, of each label the surest first.
        top: How many of each label are returned at most.

    Returns:
        Of each label the first units that passed, or could not be tested; and of its first units those that did not.
    """
    confirmed: list[Unit] = []
    untrue: list[Unit] = []
    for label in dict.fromkeys(unit.label for unit in units):
        of_label = [unit for unit in units if unit.label == label]
        passed = [unit for unit in of_label if _may_be_listed(unit)]
        confirmed += passed[:top]
        untrue += [unit for unit in of_label[:top] if not _may_be_listed(unit)]
    return confirmed, untrue


def _may_be_listed(unit: Unit) -> bool:
    """Return whether the answer falls without a unit, as its score says, or whether that could not be tested."""
    return unit.fall is None or unit.fall.is_confirmed


def _texts_of_examples(run: RunTables, of_words: dict[str, Any]) -> dict[str, str]:
    """Return the texts of the examples of words by id, where they were kept."""
    units: list[Unit] = [*of_words["highest"], *of_words["against"], *of_words["untrue"]]
    rows = sorted({row for unit in units for row in unit.example_rows})
    return {name: text for name, text in run.ids_and_texts(rows).values() if text is not None}


def _failures(run: RunTables, top: int) -> list[RowNote]:
    """Return the reasons for rows without a result, the most frequent first."""
    ids: dict[str, list[str]] = {}
    for _, name, reason in run.folder.failures(run.written):
        ids.setdefault(reason, []).append(name)
    failures = [RowNote(reason, len(names), names[:EXAMPLES]) for reason, names in ids.items()]
    return sorted(failures, key=lambda failure: -failure.rows)[:top]


def _notes(run: RunTables, top: int) -> list[RowNote]:
    """Return the notes on results, the most frequent first; those that differ in numbers alone count as one."""
    rows = run.ask(
        f"""
        SELECT arg_min(note, row), count(DISTINCT row), list_slice(list(id ORDER BY row), 1, {EXAMPLES})
        FROM (SELECT row, id, unnest(notes) AS note FROM shards)
        GROUP BY regexp_replace(note, '\\d+', '0', 'g') ORDER BY 2 DESC, 1 LIMIT ?
        """,  # noqa: S608  # no user's words
        top,
    )
    return [RowNote(*row) for row in rows]
