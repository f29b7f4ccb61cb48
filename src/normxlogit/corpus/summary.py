"""The global explanation: what a model looks at over a corpus, in one streaming pass over its shards."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import DataError, InputError
from ..pipeline.arguments import checked_arguments
from ..results.columns import CORPUS_TEXTS
from ..results.gold import read_gold
from ..results.schema import plain
from .formats import arrow_module
from .run_tables import RunTables
from .units import Mass, Rate, Unit

__all__ = ["Summary", "summarize"]

Z = 1.96
"""Standard errors of a 95% interval."""

EXAMPLES = 3


@dataclass(frozen=True)
class Summary:
    """What a model looks at over a corpus.

    Attributes:
        folder: Where the results are.
        model: Name of the model.
        method: Name of the method.
        unit: "words" or "tokens".
        rows: Texts with a result.
        errors: Rows without one.
        complete: Whether the run was finished, so that these are all rows.
        labels: How often each label was predicted.
        highest: For each label the units with the largest mean score.
        totals: For each label those with the largest sum.
        against: Units that most often speak against the prediction; empty for methods without a sign.
        mass: Where the scores are.
        accuracy: Share of right answers, None without a gold column.
        mistakes: Units that tell wrong answers from right ones.
        texts: The texts of the examples by id, where they were kept.
        difference: What another run says differently, None without one.
    """

    folder: str
    model: str
    method: str
    unit: str
    rows: int
    errors: int
    complete: bool
    labels: dict[str, int]
    highest: list[Unit]
    totals: list[Unit]
    against: list[Unit]
    mass: list[Mass]
    accuracy: float | None
    mistakes: list[Rate]
    texts: dict[str, str]
    difference: dict[str, Any] | None

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        state: dict[str, Any] = plain(asdict(self))
        return state


@checked_arguments
def summarize(
    folder: str | Path,
    *,
    gold: str | None = None,
    against: str | Path | None = None,
    top: int = 20,
    min_count: int = 5,
) -> Summary:
    """Sum up a corpus run.

    Args:
        folder: What `attribute` wrote.
        gold: A kept column with the right labels, by name or index.
        against: Another run to compare with, of the same ids.
        top: Units in each list.
        min_count: Leave out units that stand at fewer places.

    Raises:
        DataError: If there is no such run, or a column is missing.
    """
    with closing(_Run(folder)) as run:
        if against is None:
            return run.summary(gold, None, top, min_count)
        with closing(_Run(against)) as other:
            return run.summary(gold, other, top, min_count)


class _Run(RunTables):
    """The sums over the shards of a run."""

    def collect(self, rows: str = "shards", right: str = "NULL::BOOLEAN") -> None:
        """Read the shards once: a table of units by label and right or wrong, and one of kinds of tokens.

        A row explains K labels at L layers; of the layers the last one counts.

        Args:
            rows: A FROM clause with the columns of the shards.
            right: The expression that says whether an answer is right.
        """
        units, scores = ("words", "word_scores") if self.unit == "words" else ("tokens", "scores")
        sequences = "list_transform(words, lambda x: 0)" if self.unit == "words" else "sequence_ids"
        n = f"len({units})"
        layers = f"greatest(len({scores}) // greatest({n} * len(target), 1), 1)"
        self.ask(
            f"""
            CREATE TEMP TABLE units AS
            WITH label AS (
                SELECT row, prediction, {right} AS correct, {units} AS units, {sequences} AS sequences,
                       {scores} AS scores, {n} AS n, {layers} AS layers, target,
                       unnest(range(len(target))) AS k
                FROM {rows}
            ), flat AS (
                SELECT row, prediction, correct, target[k + 1] AS label, unnest(units) AS text,
                       unnest(sequences) AS sequence,
                       unnest(scores[(k * layers + layers - 1) * n + 1 : (k * layers + layers) * n]) AS score
                FROM label
            )
            SELECT label, correct, label = prediction AS predicted,
                   sequence IS NULL AS special, lower(trim(text)) AS text,
                   count(*) AS count, sum(score) AS total, sum(score::DOUBLE * score) AS squares,
                   sum(abs(score)) AS mass, count(*) FILTER (score < 0) AS negative,
                   arg_max(row, score, {EXAMPLES}) AS examples, arg_max(score, score, {EXAMPLES}) AS best,
                   arg_min(row, score, {EXAMPLES}) AS others, arg_min(score, score, {EXAMPLES}) AS worst
            FROM flat GROUP BY ALL
            """  # noqa: S608  # names are quoted
        )

    def summary(self, gold: str | None, other: "_Run | None", top: int, least: int) -> Summary:
        """Return the summary."""
        joined = ("shards", "NULL::BOOLEAN") if gold is None else self._with_gold(gold)
        self.collect(*joined)
        labels = dict(self.ask("SELECT prediction, count(*) AS n FROM shards GROUP BY ALL ORDER BY n DESC"))
        accuracy: float | None = None
        mistakes: list[Rate] = []
        if gold is not None:
            accuracy, mistakes = self._mistakes(joined, top, least)
        names = self.ask("SELECT any_value(model), any_value(method) FROM shards")[0]
        highest = self._units("mean", top, least)
        totals = self._units("total", top, least)
        against: list[tuple[Unit, list[int]]] = []
        if self.common.get("signed"):
            share = "negative::DOUBLE / count"
            against = self._units(share, top, least, "predicted AND negative > 0", lowest=True)
        shown = {row for _, rows in [*highest, *totals, *against] for row in rows}
        texts = self._texts(sorted(shown))

        def named(units: list[tuple[Unit, list[int]]]) -> list[Unit]:
            return [replace(unit, examples=[texts[row][0] for row in rows]) for unit, rows in units]

        return Summary(
            folder=self.folder.place,
            model=names[0] or self.manifest.model["name"],
            method=names[1] or "",
            unit=self.unit,
            rows=sum(labels.values()),
            errors=sum(done.errors for done in self.done.values()),
            complete=self.manifest.complete and self.manifest.done.keys() <= self.done.keys(),
            labels=labels,
            highest=named(highest),
            totals=named(totals),
            against=named(against),
            mass=self._mass(),
            accuracy=accuracy,
            mistakes=mistakes,
            texts={name: text for name, text in texts.values() if text is not None},
            difference=None if other is None else self._difference(other, top, least),
        )

    def _units(
        self, order: str, top: int, least: int, where: str = "true", *, lowest: bool = False
    ) -> list[tuple[Unit, list[int]]]:
        """Return the first units of each label in some order, with the rows of their examples.

        Special tokens and signs are left out.
        """
        rows_of, values = ("others", "worst") if lowest else ("examples", "best")
        rows = self.ask(
            f"""
            WITH grouped AS (
                SELECT label, text, sum(count) AS count, sum(total) / sum(count) AS mean, sum(total) AS total,
                       sum(squares) AS squares, sum(negative) AS negative,
                       flatten(list({rows_of})) AS places, flatten(list({values})) AS best
                FROM units WHERE NOT special AND regexp_matches(text, '\\w') AND {where} GROUP BY label, text
            )
            SELECT label, text, count, mean, squares, total, negative, places, best FROM grouped WHERE count >= ?
            QUALIFY row_number() OVER (PARTITION BY label ORDER BY {order} DESC, text) <= ?
            ORDER BY label, {order} DESC, text
            """,  # noqa: S608  # no user's words
            least,
            top,
        )
        found = []
        for label, text, count, mean, squares, total, negative, shown, marks in rows:
            variance = max(squares / count - mean * mean, 0.0) * count / max(count - 1, 1)
            half = Z * (variance / count) ** 0.5
            share = negative / count if self.common.get("signed") else None
            ranked = [i for _, i in sorted(zip(marks, shown, strict=True), reverse=not lowest)]
            examples = list(dict.fromkeys(ranked))[:EXAMPLES]
            found.append((Unit(label, text, int(count), mean, mean - half, mean + half, total, share, []), examples))
        return found

    def _mass(self) -> list[Mass]:
        rows = self.ask(
            """
            SELECT CASE WHEN special THEN 'special' WHEN regexp_matches(text, '^[\\d.,:%]*\\d[\\d.,:%]*$') THEN 'number'
                        WHEN NOT regexp_matches(text, '\\w') THEN 'punctuation' ELSE 'word' END AS kind,
                   sum(count) AS count, sum(mass) AS mass
            FROM units GROUP BY kind ORDER BY mass DESC
            """
        )
        tokens = sum(row[1] for row in rows) or 1
        mass = sum(row[2] for row in rows) or 1.0
        return [Mass(kind, count / tokens, own / mass) for kind, count, own in rows]

    def _with_gold(self, gold: str) -> tuple[str, str]:
        """Return the shards joined with what a column of right labels says, and whether an answer is right.

        The first is a FROM clause, the second an expression, NULL where a row has no right label.
        """
        self._check_gold(gold)
        column = f"shards.{self.with_kept(gold)}"
        values = self.ask(f"SELECT CAST({column} AS VARCHAR), any_value({column}) FROM shards GROUP BY 1")  # noqa: S608
        labels = self.ask("SELECT DISTINCT prediction_id, prediction FROM shards WHERE prediction IS NOT NULL")
        named = self.common.get("labels")  # not in shards of older versions
        labels += enumerate(map(str, named)) if isinstance(named, list) else ()
        try:
            read = read_gold([value for _, value in values], labels, tokens=self.common["target"]["kind"] == "token")
        except InputError as error:
            raise DataError(f"column {gold!r}: {error}") from None
        arrow = arrow_module()
        table = {
            "value": arrow.array([text for text, _ in values], arrow.string()),
            "name": arrow.array([label.name for label in read], arrow.string()),
            "id": arrow.array([label.id for label in read], arrow.int64()),
        }
        self.register("right_labels", arrow.table(table))
        named, at = "prediction = right_labels.name", "prediction_id = right_labels.id"
        right = f"CASE WHEN right_labels.name IS NULL THEN {at} ELSE {named} END"
        return f"shards LEFT JOIN right_labels ON right_labels.value = CAST({column} AS VARCHAR)", right

    def _check_gold(self, gold: str) -> None:
        """Refuse a column that can hold no right labels."""
        arrow = arrow_module()
        if gold not in self.kinds:
            raise DataError(f"no column {gold!r} in the results; keep it with --keep {gold}")
        if gold in CORPUS_TEXTS:
            raise DataError(f"column {gold!r} is one of the run's own; right labels stand in a column of the input")
        if arrow.types.is_nested(self.kinds[gold]):
            raise DataError(f"column {gold!r} holds {self.kinds[gold]}; right labels are names or numbers")
        if self.common["target"]["kind"] == "value":
            raise DataError(f"a regression has no right and wrong labels; leave out --gold {gold}")

    def _mistakes(self, joined: tuple[str, str], top: int, least: int) -> tuple[float | None, list[Rate]]:
        """Return the share of right answers, and the units that tell wrong ones; rows without a label do not count."""
        rows_of, right = joined
        accuracy = self.ask(f"SELECT avg(({right})::INT) FROM {rows_of}")[0][0]  # noqa: S608
        rows = self.ask(
            """
            WITH rates AS (
                SELECT text, sum(count) FILTER (NOT correct) AS wrong, sum(count) FILTER (correct) AS good,
                       sum(total) FILTER (NOT correct) AS total_wrong, sum(total) FILTER (correct) AS total_good
                FROM units WHERE NOT special AND regexp_matches(text, '\\w') GROUP BY text
            ), every AS (
                SELECT sum(count) FILTER (NOT correct) / sum(count) AS share
                FROM units WHERE NOT special AND correct IS NOT NULL
            )
            SELECT text, coalesce(wrong, 0) AS wrong, coalesce(good, 0) AS good, total_wrong, total_good, share
            FROM rates, every WHERE coalesce(wrong, 0) + coalesce(good, 0) >= ?
            """,
            least,
        )
        found = []
        for text, wrong, good, total_wrong, total_good, share in rows:
            count, rate = wrong + good, wrong / (wrong + good)
            spread = (max((share or 0) * (1 - (share or 0)), 1e-12) / count) ** 0.5
            means = (total_wrong / wrong if wrong else None, total_good / good if good else None)
            found.append(Rate(text, int(wrong), int(good), rate, *means, z=(rate - (share or 0)) / spread))
        return accuracy, sorted(found, key=lambda rate: (-rate.z, rate.text))[:top]

    def _texts(self, rows: Sequence[int]) -> dict[int, tuple[str, str | None]]:
        """Return what some rows are called, and their texts where they were kept.

        Of rows that share an id each is called by its number too.
        """
        if not rows:
            return {}
        text = "text" if "text" in self.kinds else "NULL"
        found = self.ask(f"SELECT row, id, {text} FROM shards WHERE row IN (SELECT unnest(?))", list(rows))  # noqa: S608
        shared = self.ask(
            "SELECT id FROM shards WHERE id IN (SELECT unnest(?)) GROUP BY id HAVING count(*) > 1",
            list({name for _, name, _ in found}),
        )
        several = {name for (name,) in shared}
        return {row: (f"{name} (row {row})" if name in several else name, text) for row, name, text in found}

    def _difference(self, other: "_Run", top: int, least: int) -> dict[str, Any]:
        """Return how another run differs: in its answers, and in its units."""
        if other.unit != self.unit:
            raise DataError(f"{other.folder.place} has {other.unit} and {self.folder.place} has {self.unit}")
        # Of rows that share an id the first belongs to the first, and so on.
        each = "SELECT row, id, prediction, row_number() OVER (PARTITION BY id ORDER BY row) AS place FROM"
        self.register_other("others", other)
        joined = f"({each} shards) AS a JOIN ({each} others) AS b ON a.id = b.id AND a.place = b.place"
        both, same = self.ask(f"SELECT count(*), sum((a.prediction = b.prediction)::INT) FROM {joined}")[0]  # noqa: S608
        moved = self.ask(
            f"SELECT a.prediction, b.prediction, count(*) AS n, list(a.row ORDER BY a.row)[1:{EXAMPLES}] FROM {joined} "  # noqa: S608
            "WHERE a.prediction <> b.prediction GROUP BY ALL ORDER BY n DESC LIMIT ?",
            top,
        )
        texts = self._texts([row for *_, rows in moved for row in rows])
        other.collect()
        query = (
            "SELECT label, text, sum(count) AS count, sum(total) / sum(count) AS mean FROM units "
            "WHERE NOT special AND regexp_matches(text, '\\w') GROUP BY label, text HAVING sum(count) >= ?"
        )
        theirs = {row[:2]: row[2:] for row in other.ask(query, least)}
        shifts = [
            {"label": row[0], "text": row[1], "here": row[3], "there": theirs[row[:2]][1], "count": int(row[2])}
            for row in self.ask(query, least)
            if row[:2] in theirs
        ]
        shifts.sort(key=lambda row: (-abs(row["here"] - row["there"]), row["text"]))
        return {
            "folder": other.folder.place,
            "model": other.manifest.model["name"],
            "texts in both": both,
            "same answer": None if not both else same / both,
            "changed answers": [
                {"here": a, "there": b, "texts": n, "examples": [texts[row][0] for row in rows]}
                for a, b, n, rows in moved
            ],
            "shifts": shifts[:top],
        }
