"""The texts of a run as its model reads them, and what the model answers to others."""

from collections.abc import Iterable, Mapping, Sequence

from ...errors import DataError, InputError
from ...explainer import Explainer
from ...inputs.encoding import Encoding
from ...inputs.texts import SplitText, Text
from ...leave_out.outcomes import Outcomes, in_batches
from ...long_runs.model_identity import identity_of
from ...model.task_model import TaskModel
from .phrases import Parts, parts_of
from .run_tables import RunTables


def check_model(run: RunTables, explainer: Explainer) -> TaskModel:
    """Return the model of a run, to ask it for other texts.

    Raises:
        InputError: If the run is not of the words of texts with one of several labels each.
        DataError: If it was made by another model, or without its texts.
    """
    model = explainer.task_model
    task = model.task
    if (
        run.unit != "words"
        or task.position.at != "text"
        or task.reads == "texts"
        or task.outputs.outcomes != "exclusive"
        or not task.outputs.labels
    ):
        raise InputError(
            "verify= tests the words of texts that get one of several labels: attribute them so, "
            "without words=False or --no-words"
        )
    if not run.manifest.identity.is_same(identity_of(model)):
        raise DataError(f"{run.folder.location} was made by {run.manifest.model}, or by another state of it")
    if "text" not in run.kinds:
        raise DataError(f"{run.folder.location} holds no texts to change: it was made with --no-keep-text")
    return model


def answers_to(model: TaskModel, texts: Iterable[Text]) -> Mapping[Text, str]:
    """Return the label that a model predicts of each text."""
    distinct = list(dict.fromkeys(texts))
    encodings = dict(zip(distinct, model.encoder(distinct, long_text="truncate"), strict=True)) if distinct else {}

    def measure(batch: list[Encoding], _: list[Text]) -> Iterable[int]:
        labels: Iterable[int] = (
            model.run(model.batch(batch, list(range(len(batch))))).logits.argmax(-1).tolist()
        )  # (B,)
        return labels

    answers: Outcomes[Text, int] = Outcomes(in_batches(model, encodings.__getitem__, measure))
    return {text: model.task.outputs.labels[label] for text, label in zip(distinct, answers(distinct), strict=True)}


def parts_of_rows(run: RunTables, model: TaskModel, rows: Iterable[int]) -> dict[int, Parts]:
    """Return the words of some rows."""
    texts = texts_of(run, rows)
    encodings = model.encoder([*texts.values()], long_text="truncate") if texts else []
    return {row: parts_of(text, one) for (row, text), one in zip(texts.items(), encodings, strict=True)}


def texts_of(run: RunTables, rows: Iterable[int]) -> dict[int, Text]:
    """Return the texts, or pairs, of some rows as they were read."""
    pair, split = (name if name in run.kinds else "NULL" for name in ("text_pair", "word_spans"))
    text_rows = run.ask(
        f"SELECT row, text, {pair}, sequence_ids, {split} FROM shards WHERE row IN (SELECT unnest(?)) ORDER BY row",  # noqa: S608
        sorted(rows),
    )
    return {
        row: _as_read([text for text in (first, second) if text is not None], *read)
        for row, first, second, *read in text_rows
    }


def _as_read(parts: Sequence[str], sequences: Sequence[int | None], spans: Sequence[Sequence[int]] | None) -> Text:
    """Return a text or a pair with the words that the caller has split, whose characters each token of a word has."""
    if spans is not None:
        words = sorted({(of, *span) for of, span in zip(sequences, spans, strict=True) if of is not None})
        parts = [SplitText(t[a:b] for of, a, b in words if of == i) for i, t in enumerate(parts)]
    return (parts[0], parts[1]) if len(parts) == 2 else parts[0]
