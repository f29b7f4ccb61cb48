"""The summary of a corpus, computed in one streaming pass over its shards."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import DataError, InputError
from ...inputs.texts import positive_integer
from ...pipeline.arguments import checked_arguments
from ...render.layout import layout
from ...results.attribution import Attribution
from ...results.gold import read_gold
from ...results.layers import last_visible
from ...results.storage.columns import CORPUS, result_states
from ...results.storage.schema import plain
from ..rows.formats import arrow_module
from .answers import AnswerSummary, summarize_answers
from .conversations import ConversationSummary, summarize_conversations
from .run_tables import RunTables
from .units import NAMES, SIGNALS, Mass, Rate, RowNote, Unit, WrongAnswer, Z

if TYPE_CHECKING:
    from ...explainer import Explainer

EXAMPLES = 3

CHANCE = 0.05
"""Significance level for listing a unit as frequent in wrong answers."""

LISTED = 5
"""Most labels that an error lists."""

NO_PUNCTUATION = "[\\p{L}\\p{N}\\p{So}_]"
"""Letters and digits of any script, emoji and the like, for DuckDB, whose \\w knows English letters only."""


@dataclass(frozen=True)
class Summary:
    """The summary of a corpus run: which words speak for which labels, and in which answers the model is wrong.

    Attributes:
        folder: Where the results are.
        model: Name of the model.
        method: Name of the method.
        layer: The layer whose scores these are: of several the last with scores outside special tokens that can be
            seen; None if layers were not asked for.
        unit: "words", "tokens", or of pictures "patches" and of sounds "frames", each of them at one place.
        rows: Texts, pictures or sounds with a result.
        errors: Rows without one.
        failures: Why they have none, the most frequent reasons first.
        notes: What is noted of results, such as a text that was cut or is unknown to the tokenizer, in the same order.
        min_count: Least places of a unit in the lists.
        rare: Units that stand at fewer places.
        complete: Whether the run was finished, so that these are all rows.
        labels: How often each label was predicted.
        highest: For each label the units that speak for it most surely: of a mean score above 0, those whose 95%
            interval begins highest.
        against: For each label those that speak against its predictions most surely; empty for methods without a sign.
        mass: Where the scores are.
        accuracy: Share of right answers, None without a gold column.
        right: For each label the share of its predictions that are right; empty without a gold column.
        unknown: Right labels that the model does not have, with their rows; each of these rows counts as wrong.
        wrong: Rows with a wrong answer, those of the highest probability first.
        mistakes: Units that are in wrong answers more often than chance would have it.
        tried: Units that were compared for `mistakes`.
        texts: The texts of the examples by id, where they were kept.
        difference: The differences to another run, None without one.
        grids: How many different grids the patches form; 0 for texts and sounds.
    """

    folder: str
    model: str
    method: str
    layer: int | None
    unit: str
    rows: int
    errors: int
    failures: list[RowNote]
    notes: list[RowNote]
    min_count: int
    rare: int
    complete: bool
    labels: dict[str, int]
    highest: list[Unit]
    against: list[Unit]
    mass: list[Mass]
    accuracy: float | None
    right: dict[str, float]
    unknown: dict[str, int]
    wrong: list[WrongAnswer]
    mistakes: list[Rate]
    tried: int
    texts: dict[str, str]
    difference: dict[str, Any] | None
    grids: int

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        state: dict[str, Any] = plain(self)
        return state


@checked_arguments()
def summarize(
    folder: str | Path,
    *,
    gold: str | None = None,
    against: str | Path | None = None,
    top: int = 15,
    min_count: int = 5,
    verify: int | None = None,
    explainer: "Explainer | None" = None,
) -> Summary | AnswerSummary | ConversationSummary:
    """Sum up a corpus run.

    Of answers (`attribute` with `answer_column`) the summary says which documents they use and which of their
    sentences rest on them, contradict them or do not rest on them; of conversations (`messages_column`) on which kinds
    of messages and which tools they rest.

    Args:
        folder: The folder that `attribute` wrote.
        gold: A kept column with the right labels, by name or index.
        against: Another run to compare with, of the same ids.
        top: Units in each list.
        min_count: Leave out units that stand at fewer places.
        verify: Delete each listed word from at most so many of the texts, and say what that changes.
        explainer: The model that the run was made by, for `verify`.

    Raises:
        DataError: If there is no such run, a column is missing, or the model is another.
        InputError: If answers are to be compared with labels or another run, or `verify` has no model or no words.
    """
    if (verify is None) != (explainer is None):
        raise InputError("verify= is how often each word is deleted, and explainer= the model that is asked: give both")
    count = None if verify is None else positive_integer(verify, "verify")
    with closing(_Run(folder)) as run:
        if run.of_answers:
            if gold is not None or against is not None:
                raise InputError("gold and against are for texts with labels, not for answers")
            if verify is not None:
                raise InputError("answers are tested when they are attributed: attribute(..., verify='auto')")
            return (summarize_conversations if "message_kinds" in run.kinds else summarize_answers)(run, top)
        if against is None:
            summary = run.summary(gold, None, top, min_count)
        else:
            with closing(_Run(against)) as compared_run:
                if compared_run.of_answers:
                    raise DataError(f"{against}: answers, which have no words to compare with")
                summary = run.summary(gold, compared_run, top, min_count)
        if explainer is None or count is None:
            return summary
        from .effects import check_model, with_effects  # which import torch

        model = check_model(run, explainer)
        lists = with_effects(run, model, [summary.highest, summary.against], count)
        return replace(summary, highest=lists[0], against=lists[1])


class _Run(RunTables):
    """The queries over the shards of a run."""

    def collect(
        self,
        layer: int,
        rows: str = "shards",
        right: str = "NULL::BOOLEAN",
        into: str = "units",
        unit: str | None = None,
    ) -> None:
        """Read the shards once into a table: sums of each unit by label and by right or wrong answers.

        A row explains K labels at L layers; of the layers `layer` counts.

        Args:
            layer: Which of the layers, counted from 0.
            rows: A FROM clause with the columns of the shards.
            right: The expression of a query that says whether an answer is right.
            into: The name of the table; with `_words` behind it a view of the units that are neither special tokens nor
                punctuation.
            unit: "words" or "tokens"; by default that of the run.
        """
        words = (unit or self.unit) == "words"
        units, scores = ("words", "word_scores") if words else ("units", "scores")
        sequences = "list_transform(words, lambda x: 0)" if words else "sequence_ids"
        n = f"len({units})"
        layers = f"greatest(len({scores}) // greatest({n} * len(target), 1), 1)"
        self.ask(
            f"""
            CREATE TEMP TABLE {into} AS
            WITH label AS (
                SELECT row, prediction, {right} AS correct, {units} AS units, {sequences} AS sequences,
                       {scores} AS scores, {n} AS n, {layers} AS layers, target,
                       unnest(range(len(target))) AS k
                FROM {rows}
            ), flat AS (
                SELECT row, prediction, correct, target[k + 1] AS label, unnest(units) AS text,
                       unnest(sequences) AS sequence,
                       unnest(scores[(k * layers + {layer}) * n + 1 : (k * layers + {layer + 1}) * n]) AS score
                FROM label
            )
            SELECT label, correct, label = prediction AS predicted,
                   sequence IS NULL AS special, lower(trim(text)) AS text,
                   count(*) AS count, sum(score) AS total, sum(score::DOUBLE * score) AS squares,
                   sum(abs(score)) AS mass, count(*) FILTER (score < 0) AS negative,
                   list_zip(arg_max(score, score, {EXAMPLES}), arg_max(row, score, {EXAMPLES})) AS highest,
                   list_zip(arg_min(score, score, {EXAMPLES}), arg_min(row, score, {EXAMPLES})) AS lowest
            FROM flat GROUP BY ALL
            """  # noqa: S608  # names are quoted
        )
        self.ask(
            f"""
            CREATE TEMP VIEW {into}_words AS
            SELECT * FROM {into} WHERE NOT special AND regexp_matches(text, '{NO_PUNCTUATION}')
            """  # noqa: S608
        )

    def layer_index(self) -> int:
        """Return the index of the summarised layer: the last one with non-zero scores outside special tokens."""
        if self.manifest.settings["layers"] is None:
            return 0
        sums = self.ask(
            """
            WITH block AS (
                SELECT scores, sequence_ids, len(units) AS n, len(target) AS labels,
                       unnest(range(len(scores) // greatest(n, 1))) AS place
                FROM shards
            ), flat AS (
                SELECT place % (len(scores) // (n * labels)) AS layer, unnest(sequence_ids) AS sequence,
                       abs(unnest(scores[place * n + 1 : (place + 1) * n])) AS size
                FROM block
            )
            SELECT coalesce(sum(size) FILTER (sequence IS NOT NULL), 0), sum(size)
            FROM flat GROUP BY layer ORDER BY layer
            """
        )
        outside_special, total = np.array(sums).T  # (L,) each
        return last_visible(outside_special, total)

    def summary(self, gold: str | None, compared_run: "_Run | None", top: int, least: int) -> Summary:
        """Return the summary.

        Args:
            gold: The column of the right labels, None without one.
            compared_run: The run to compare with.
            top: Units in each list.
            least: Least places of a unit in the lists.
        """
        rows, is_right = ("shards", "NULL::BOOLEAN") if gold is None else self._with_gold(gold)  # parts of queries
        layer = self.layer_index()
        self.collect(layer, rows, is_right)
        if self.unit == "words":
            self.collect(layer, into="tokens_of_all", unit="tokens")  # words leave special tokens out
        labels = dict(self.ask("SELECT prediction, count(*) AS n FROM shards GROUP BY ALL ORDER BY n DESC"))
        (model, method), *_ = self.ask("SELECT any_value(model), any_value(method) FROM shards")
        highest = self._units(top, least)
        against = self._units(top, least, against=True) if self.common.get("signed") else []
        texts = self._texts(sorted({row for _, rows in (*highest, *against) for row in rows}))  # (id, text) by row

        def with_examples(units: Sequence[tuple[Unit, list[int]]]) -> list[Unit]:
            return [replace(unit, examples=[texts[row][0] for row in rows]) for unit, rows in units]

        counts = "SELECT label, text, sum(count) AS n FROM units_words GROUP BY label, text"
        count_of_grids = 'SELECT count(DISTINCT ("rows", "columns")) FROM shards'
        compared_with_gold: dict[str, Any] = {
            "accuracy": None,
            "right": {},
            "unknown": {},
            "wrong": [],
            "mistakes": [],
            "tried": 0,
        }
        if gold is not None:
            mistakes, tried = self._mistakes(top, least)
            compared_with_gold = {
                "accuracy": self.ask(f"SELECT avg(({is_right})::INT) FROM {rows}")[0][0],  # noqa: S608
                "right": self._right(rows, is_right),
                "unknown": self._unknown(rows),
                "wrong": self._wrong(rows, is_right, layer, top),
                "mistakes": mistakes,
                "tried": tried,
            }
        return Summary(
            folder=self.folder.location,
            model=model or self.manifest.model["name"],
            method=method or "",
            layer=self.common["layers"][layer] if self.common.get("layers") else None,
            unit=self.unit,
            rows=sum(labels.values()),
            errors=sum(shard.errors for shard in self.written.values()),
            failures=self._failures(top),
            notes=self._notes(top),
            min_count=least,
            rare=self.ask(f"SELECT count(*) FROM ({counts}) WHERE n < ?", least)[0][0],  # noqa: S608  # constant
            complete=self.manifest.complete and self.manifest.written.keys() <= self.written.keys(),
            labels=labels,
            highest=with_examples(highest),
            against=with_examples(against),
            mass=self._mass("tokens_of_all" if self.unit == "words" else "units"),
            **compared_with_gold,
            texts={name: text for name, text in texts.values() if text is not None},
            difference=None if compared_run is None else self._difference(compared_run, top, least),
            grids=self.ask(count_of_grids)[0][0] if self.unit == "patches" else 0,
        )

    def _units(self, top: int, least: int, against: bool = False) -> list[tuple[Unit, list[int]]]:
        """Return the units with the most certain effect for (or against) each label, with rows as examples.

        They are ordered by the end of their confidence interval that is nearer to 0, because an order by the mean would
        put rare units first. Units at a single place have no interval, and come last.
        """
        negative = "sum(negative) / n" if self.common.get("signed") else "NULL"
        sign, where, extremes, order = (-1, "predicted", "lowest", "ASC") if against else (1, "true", "highest", "DESC")
        rows = self.ask(
            f"""
            WITH grouped AS (
                SELECT label, text, sum(count)::BIGINT AS n, sum(total) AS total, sum(total) / n AS mean,
                       {Z} * sqrt(greatest(sum(squares) / n - mean * mean, 0) / greatest(n - 1, 1)) AS half,
                       {negative} AS against, flatten(list({extremes})) AS places
                FROM units_words WHERE {where} GROUP BY label, text
            )
            SELECT label, text, n, mean, mean - half, mean + half, total, against, []::VARCHAR[],
                   list_sort(places, '{order}')
            FROM grouped WHERE n >= ? AND {sign} * mean > 0
            QUALIFY row_number() OVER (PARTITION BY label ORDER BY n > 1 DESC, {sign} * mean - half DESC, text) <= ?
            ORDER BY label, n > 1 DESC, {sign} * mean - half DESC, text
            """,  # noqa: S608  # no user's words
            least,
            top,
        )
        return [(Unit(*row), list(dict.fromkeys(i for _, i in places))[:EXAMPLES]) for *row, places in rows]

    def _failures(self, top: int) -> list[RowNote]:
        """Return the reasons for rows without a result, the most frequent first."""
        ids: dict[str, list[str]] = {}
        for _, name, reason in self.folder.failures(self.written):
            ids.setdefault(reason, []).append(name)
        failures = [RowNote(reason, len(names), names[:EXAMPLES]) for reason, names in ids.items()]
        return sorted(failures, key=lambda failure: -failure.rows)[:top]

    def _notes(self, top: int) -> list[RowNote]:
        """Return the notes on results, the most frequent first."""
        rows = self.ask(
            f"""
            SELECT arg_min(note, row), count(DISTINCT row), list_slice(list(id ORDER BY row), 1, {EXAMPLES})
            FROM (SELECT row, id, unnest(notes) AS note FROM shards)
            GROUP BY regexp_replace(note, '\\d+', '0', 'g') ORDER BY 2 DESC, 1 LIMIT ?
            """,  # noqa: S608  # no user's words
            top,
        )
        return [RowNote(*row) for row in rows]

    def _mass(self, units: str) -> list[Mass]:
        """Return each kind of token with its share of the tokens and of the magnitude of all scores."""
        place = f"WHEN true THEN '{NAMES[self.unit][0]}'" if self.unit in SIGNALS.values() else ""
        rows = self.ask(
            f"""
            SELECT CASE WHEN special THEN 'special' {place}
                        WHEN regexp_matches(text, '^[\\d.,:%]*\\d[\\d.,:%]*$') THEN 'number'
                        WHEN NOT regexp_matches(text, '{NO_PUNCTUATION}') THEN 'punctuation' ELSE 'word' END AS kind,
                   sum(count) / sum(sum(count)) OVER () AS tokens,
                   coalesce(sum(mass) / nullif(sum(sum(mass)) OVER (), 0), 0) AS mass
            FROM {units} GROUP BY kind ORDER BY mass DESC
            """  # noqa: S608  # a table of this class
        )
        return [Mass(*row) for row in rows]

    def _with_gold(self, gold: str) -> tuple[str, str]:
        """Return the shards joined with the gold labels of each row, and whether the answer is right.

        The first is a FROM clause, the second an expression, NULL where a row has no right label.
        """
        self._check_gold(gold)
        column = f"shards.{self.with_kept(gold)}"
        key = f"CAST({column} AS VARCHAR)"
        values = dict(self.ask(f"SELECT {key}, any_value({column}) FROM shards GROUP BY 1"))  # noqa: S608
        answers = self.ask(f"SELECT DISTINCT {key}, prediction, prediction_id FROM shards")  # noqa: S608
        label_names = self.common.get("labels")  # not a list of a vocabulary
        labels = list(enumerate(map(str, label_names))) if isinstance(label_names, list) else []
        labels += [(index, name) for _, name, index in answers if name is not None and index is not None]
        try:
            read = read_gold([*values.values()], set(labels), tokens=self.common["target"]["kind"] == "token")
        except InputError as error:
            raise DataError(f"column {gold!r}: {error}") from None
        outside = [of.id for gold_labels in read for of in gold_labels if (of.id or 0) >= len(label_names or ())]
        if isinstance(label_names, list) and outside:
            raise DataError(
                f"column {gold!r} holds {min(outside)}, and the model has {len(label_names)} labels, counted from 0: "
                f"{', '.join(map(str, label_names[:LISTED]))}{', ...' if len(label_names) > LISTED else ''}"
            )
        names, gold_of = dict(labels), dict(zip(values, read, strict=True))
        rows = [
            {
                "value": value,
                "answer": name,
                "answer_id": index,
                "correct": gold_of[value].agrees(name, index),
                "shown": [names.get(of.id, str(of.id)) if of.name is None else of.name for of in gold_of[value]],
            }
            for value, name, index in answers
        ]
        arrow = arrow_module()
        kinds = (arrow.string(), arrow.string(), arrow.int64(), arrow.bool_(), arrow.list_(arrow.string()))
        table = arrow.Table.from_pylist(rows, arrow.schema([*zip(rows[0], kinds, strict=True)]))
        self.register("right_labels", table)
        same = "right_labels.answer = prediction AND right_labels.answer_id IS NOT DISTINCT FROM prediction_id"
        return f"shards LEFT JOIN right_labels ON right_labels.value = {key} AND {same}", "right_labels.correct"

    def _check_gold(self, gold: str) -> None:
        """Refuse a column that cannot hold gold labels."""
        arrow = arrow_module()
        if gold not in self.kinds:
            raise DataError(f"no column {gold!r} in the results; keep it with --keep {gold}")
        if gold in CORPUS["text"]:
            raise DataError(f"column {gold!r} is one of the run's own; right labels stand in a column of the input")
        kind = self.kinds[gold]
        if arrow.types.is_nested(getattr(kind, "value_type", kind)):
            raise DataError(f"column {gold!r} holds {kind}; right labels are names or numbers, or lists of them")
        if self.common["target"]["kind"] == "value":
            raise DataError(f"a regression has no right and wrong labels; leave out --gold {gold}")

    def _right(self, rows: str, right: str) -> dict[str, float]:
        """Return the share of each label's predictions that are right."""
        shares = self.ask(f"SELECT prediction, avg(({right})::INT) FROM {rows} GROUP BY 1")  # noqa: S608  # quoted names
        return {label: share for label, share in shares if share is not None}

    def _unknown(self, rows: str) -> dict[str, int]:
        """Return the right labels that the model does not have, the most frequent first."""
        labels = self.common.get("labels")
        if not isinstance(labels, list):  # a vocabulary
            return {}
        counts = self.ask(
            f"SELECT unnest(right_labels.shown) AS label, count(*) FROM {rows} GROUP BY label ORDER BY 2 DESC, 1"  # noqa: S608  # quoted names
        )
        label_texts = set(map(str, labels))
        return {label: n for label, n in counts if label not in label_texts}

    def _wrong(self, from_rows: str, is_right: str, layer: int, top: int) -> list[WrongAnswer]:
        """Return the wrong answers with the highest probabilities.

        Args:
            from_rows: The FROM clause of the rows with their right labels.
            is_right: The expression of a query that says whether an answer is right.
            layer: The index of the layer whose scores are shown.
            top: Most answers.
        """
        answers = self.ask(
            f"SELECT row, prediction, probability, array_to_string(right_labels.shown, ', ') FROM {from_rows} "  # noqa: S608
            f"WHERE NOT ({is_right}) ORDER BY probability DESC NULLS LAST, row LIMIT ?",
            top,
        )
        wrong_rows = [row for row, *_ in answers]
        ids, texts = self._texts(wrong_rows), self._coloured_texts(wrong_rows, layer)
        return [
            WrongAnswer(ids[row][0], label, probability, gold, texts.get(row, []))
            for row, label, probability, gold in answers
        ]

    def _coloured_texts(self, rows: Sequence[int], layer: int) -> dict[int, list[list[tuple[str, float | None]]]]:
        """Return the texts of some rows, by row; nothing for pictures and sounds.

        A row has one text or a pair; each is a list of pieces with their scores, None between the scored units.
        """
        if not rows or self.unit in SIGNALS.values():
            return {}
        table = self.read_rows(rows)
        texts_by_row = {}
        for row, state in zip(table["row"].to_pylist(), result_states(table), strict=True):
            laid_out = layout(Attribution.from_dict(state))
            scores: list[float] = laid_out.grid.scores[layer].tolist()
            texts_by_row[row] = [
                [(piece.text, None if piece.column is None else scores[piece.column]) for piece in pieces]
                for pieces in laid_out.texts
            ]
        return texts_by_row

    def _mistakes(self, top: int, least: int) -> tuple[list[Rate], int]:
        """Return the units that stand in wrong answers significantly often, and how many were tested.

        If each of n places is in a wrong answer with probability p, then a share of q or more is wrong with a
        probability of at most exp(-n KL(q || p)), by Chernoff's bound, which holds for small n too. The bound is
        multiplied by the number of tested units (Bonferroni). Rows without a gold label do not count.
        """
        rows = self.ask(
            """
            WITH every AS (
                SELECT coalesce(sum(count) FILTER (NOT correct) / sum(count), 0) AS share
                FROM units WHERE NOT special AND correct IS NOT NULL
            ), rates AS (
                SELECT text, sum(count)::BIGINT AS n, coalesce(sum(count) FILTER (NOT correct), 0)::BIGINT AS wrong,
                       wrong / n AS rate, sum(total) FILTER (NOT correct) / wrong AS mean_wrong,
                       sum(total) FILTER (correct) / (n - wrong) AS mean_right
                FROM units_words WHERE correct IS NOT NULL GROUP BY text HAVING n >= ?
            ), tested AS (
                SELECT *, count(*) OVER () AS tried,
                       CASE WHEN rate <= share THEN 0 WHEN rate = 1 THEN -n * ln(share)
                            ELSE n * (rate * ln(rate / share) + (1 - rate) * ln((1 - rate) / (1 - share)))
                       END AS divergence
                FROM rates, every
            )
            SELECT text, wrong, n - wrong, rate, mean_wrong, mean_right, least(tried * exp(-divergence), 1), tried
            FROM tested ORDER BY divergence DESC, text
            """,
            least,
        )
        tried = rows[0][-1] if rows else 0
        rates = [Rate(*row) for *row, _ in rows]
        return [rate for rate in rates if rate.chance <= CHANCE][:top], tried

    def _texts(self, rows: Sequence[int]) -> dict[int, tuple[str, str | None]]:
        """Return the ids of some rows, and their texts if the run kept them.

        Of rows that share an id each is called by its number too.
        """
        if not rows:
            return {}
        text = "text" if "text" in self.kinds else "NULL"
        row_id_text = self.ask(f"SELECT row, id, {text} FROM shards WHERE row IN (SELECT unnest(?))", list(rows))  # noqa: S608
        repeated = self.ask(
            "SELECT id FROM shards WHERE id IN (SELECT unnest(?)) GROUP BY id HAVING count(*) > 1",
            list({name for _, name, _ in row_id_text}),
        )
        repeated_ids = {name for (name,) in repeated}
        return {row: (f"{name} (row {row})" if name in repeated_ids else name, text) for row, name, text in row_id_text}

    def _difference(self, compared_run: "_Run", top: int, least: int) -> dict[str, Any]:
        """Return the differences to another run: in its answers, and in the scores of units."""
        if compared_run.unit != self.unit:
            raise DataError(
                f"{compared_run.folder.location} has {compared_run.unit} and {self.folder.location} has {self.unit}"
            )
        # Of rows that share an id the first belongs to the first, and so on.
        numbered_rows = "SELECT row, id, prediction, row_number() OVER (PARTITION BY id ORDER BY row) AS place FROM"
        self.register("others", compared_run.shards())
        joined = (
            f"({numbered_rows} shards) AS a JOIN ({numbered_rows} others) AS b ON a.id = b.id AND a.place = b.place"
        )
        counts = f"SELECT count(*), sum((a.prediction = b.prediction)::INT) FROM {joined}"  # noqa: S608
        texts_in_both, same_answers = self.ask(counts)[0]
        changed_predictions = self.ask(
            f"SELECT a.prediction, b.prediction, count(*) AS n, list(a.row ORDER BY a.row)[1:{EXAMPLES}] FROM {joined} "  # noqa: S608
            "WHERE a.prediction <> b.prediction GROUP BY ALL ORDER BY n DESC LIMIT ?",
            top,
        )
        texts = self._texts([row for *_, rows in changed_predictions for row in rows])
        self.collect(compared_run.layer_index(), "others", into="other_units")
        means = "(SELECT label, text, sum(count)::BIGINT AS n, sum(total) / n AS mean FROM {} GROUP BY label, text)"
        shifts = self.ask(
            f"SELECT label, text, a.mean, b.mean, a.n FROM {means.format('units_words')} AS a "  # noqa: S608
            f"JOIN {means.format('other_units_words')} AS b USING (label, text) WHERE a.n >= ? AND b.n >= ? "
            "ORDER BY abs(a.mean - b.mean) DESC, text LIMIT ?",
            least,
            least,
            top,
        )
        return {
            "folder": compared_run.folder.location,
            "model": compared_run.manifest.model["name"],
            "texts in both": texts_in_both,
            "same answer": None if not texts_in_both else same_answers / texts_in_both,
            "changed answers": [
                {"here": a, "there": b, "texts": n, "examples": [texts[row][0] for row in rows]}
                for a, b, n, rows in changed_predictions
            ],
            "shifts": [dict(zip(("label", "text", "here", "there", "count"), row, strict=True)) for row in shifts],
        }
