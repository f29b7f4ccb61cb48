"""docs/architectures.md and its data, from the outcomes of the survey's calls."""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import transformers

from tools.survey.base import MAPPINGS, MEDIA, SIGNALS
from tools.survey.calls import DEFAULT
from tools.survey.known import PADDING, REFUSED, SKIPPING
from tools.survey.outcomes import kind

PAGE = Path(__file__).parents[2] / "docs" / "architectures.md"
DATA = PAGE.with_suffix(".json")

Results = dict[tuple[str, str], dict[str, Any]]

Classes = list[dict[str, Any]]
"""Of each class its mapping, family and name, what its head reads, each column's cell, and the errors of refusals."""


class Column(NamedTuple):
    """A column of the page.

    Attributes:
        calls: The calls that it is made of, by their names in the survey.
        written: How a user writes them.
        compared: What is compared with what.
    """

    calls: tuple[str, ...]
    written: str
    compared: str


PREDICTED = "the predicted logit with the model's own"
SUMMED = "scores plus bias with the model's own logit"
GRADIENTS = ("gradient-norm", "gradient-x-input", "integrated-gradients")
PERTURBATION = ("occlusion", "lime", "kernel-shap")
ENCODERS = ("alti", "decompx", "globenc", "attention-rollout")


def _by(*methods: str) -> str:
    return "`explainer(text, method=...)`: " + ", ".join(f"`{method}`" for method in methods)


COLUMNS = {
    "Default": Column(
        (DEFAULT,),
        "`explainer(text)`",
        f"{PREDICTED}; of language models {SUMMED} minus its mean over the vocabulary",
    ),
    "NormXLogit": Column(
        ("normxlogit", "logat", "input-norm", "random"),
        _by("normxlogit", "logat", "input-norm", "random"),
        f"{PREDICTED}; NormXLogit's scores with a plain loop over the tokens",
    ),
    "Layers": Column(
        ("normxlogit, layers",),
        '`explainer(text, method="normxlogit", layers=ALL)`',
        "the last layer's scores with those of no layers",
    ),
    "Frozen": Column(
        ("frozen-gradient",),
        _by("frozen-gradient"),
        f"{SUMMED} (of language models minus its mean over the vocabulary)",
    ),
    "Frozen layers": Column(
        ("frozen-gradient, layers",),
        '`explainer(text, method="frozen-gradient", layers=ALL)`',
        "each layer's scores plus bias, as in the column before",
    ),
    "Gradients": Column(GRADIENTS, _by(*GRADIENTS), PREDICTED),
    "Perturbation": Column(PERTURBATION, _by(*PERTURBATION), PREDICTED),
    "Encoders": Column(ENCODERS, _by(*ENCODERS), f"{PREDICTED}; the sum of DecompX's scores with it"),
    "Value zeroing": Column(("value-zeroing",), _by("value-zeroing"), PREDICTED),
    "Generation": Column(
        ("generate",),
        "`explainer.generate(prompt)`",
        "the generated tokens with those of the model's own `generate`",
    ),
    "Completion": Column(
        ("completion",),
        "`explainer.explain_completion(prompt, completion)`",
        f"{SUMMED} minus its mean over the vocabulary, for each generated token",
    ),
    "Sources": Column(
        ("sources",),
        "`explainer.explain_completion(prompt, completion, sources=...)`",
        "the sum over all sources plus bias with the sum of the model's own logits",
    ),
}

WRITTEN = (
    "the generated tokens with those of the model's own `generate`; the scores of words, patches and moments plus "
    "bias with its logit of each, minus the mean over the vocabulary"
)
MEDIA_COLUMNS = {
    "Generate": Column(
        ("generate",), "`explainer.generate(...)` of messages with a picture or a sound, or of a sound", WRITTEN
    ),
    "At the entry": Column(
        ("parts",),
        '`explainer.generate(..., method="frozen-gradient:read_at=0")`: read at the patch embedding or the first '
        "convolution",
        "the same",
    ),
    "Given completion": Column(
        ("completion",),
        "`explainer.explain_completion(messages, completion)`",
        "scores plus bias with the same logits",
    ),
    "Sources of it": Column(
        ("sources",),
        "`explainer.explain_completion(messages, completion, sources=...)`",
        "the sum over pictures and words plus bias with the sum of the same logits",
    ),
    "Similarity": Column(
        ("similarity",),
        "`explainer.similarity(text, picture)`",
        "the cosine with that of the model's own vectors, and the sum of each side with it",
    ),
}
"""Columns of models that read pictures or sounds beside text."""

IN_MAPPING = {
    "image-text-to-text": ("Generate", "At the entry", "Given completion", "Sources of it"),
    "audio-text-to-text": ("Generate", "At the entry", "Given completion", "Sources of it"),
    "speech-seq2seq": ("Generate", "At the entry"),
    "ctc": ("Generate", "At the entry"),
    "zero-shot-image": ("Similarity",),
}

NOT_RUN = "not run"
"""Of a call that the survey has not made."""

LANGUAGE = ("Generation", "Completion", "Sources")
IN_SUMMARY = ("Default", "NormXLogit", "Layers", "Frozen", "Gradients", "Perturbation", *LANGUAGE)

HEAD = """# Supported architectures

Which calls work on which model class of transformers {version}. For every class in transformers' auto mappings, a
small model with random weights is built, and the calls that a user makes are made on it (`python -m tools.survey`).

"""

NOTES = """A *yes*: every call of the column works, alone and in a batch, with equal scores, and what the column
compares agrees: numbers may differ by 2e-4 of the largest score, or of the sum of the scores' absolute values where
scores are added up.

The site shows below what each column compares, and a table of every class with the error where a call is refused.
They are made of `docs/architectures.json`.
"""

COLUMNS_MEANING = """## What the columns compare

Every call is made on two inputs of different lengths (two pictures or two sounds of one size): each alone, and both
in one batch.

| Column | Calls | What is compared |
|---|---|---|
{columns}

Models that read pictures or sounds beside text get two pictures of different sizes, or two sounds of different
lengths, through a processor that is made in memory from the classes that transformers names for them:

| Column | Calls | What is compared |
|---|---|---|
{media_columns}

The cells:

- **yes**: every call of the column works and every comparison holds.
- **no**: the call is refused. The error says what the method needs and what works instead.
- **some**: some methods of the column work, the others are refused.
- **skipping**: yes, by skipping later layers, as described below.
- **not run**: the survey has not made the call yet.
- **–**: the model's own call fails on these inputs too, or needs a package that is not installed (torchvision, for
  the picture processors of some families). So it is where a family's defaults could not be shrunk or its processor
  not be made.
"""


def write(results: Results) -> None:
    """Write the data and the page."""
    ordered = sorted(results.items(), key=lambda item: (list(MAPPINGS).index(item[0][0]), item[0][1]))
    rows = ",\n".join(json.dumps(_facts(*pair, result), ensure_ascii=False) for pair, result in ordered)
    version = json.dumps(transformers.__version__)
    DATA.write_text(f'{{"transformers": {version}, "classes": [\n{rows}\n]}}\n', encoding="utf-8")
    PAGE.write_text(written(), encoding="utf-8")


def written() -> str:
    """Return the page by the data, without the tables of every class."""
    return HEAD.format(version=version_of_data()) + "\n".join([_summary(classes()), NOTES])


def tables() -> str:
    """Return what the columns compare and the tables of every class, for the site."""
    every = [_table(task, [row for row in classes() if row["mapping"] == task]) for task in MAPPINGS]
    return "\n".join([_columns(), *_lists(), *every])


def classes() -> Classes:
    """Return what the last survey found of every class."""
    return _data()["classes"]


def version_of_data() -> str:
    """Return the version of transformers whose classes the data are of."""
    return _data()["transformers"]


def column_of_data(task: str, title: str) -> dict[str, str]:
    """Return the cells of a column of a mapping, by family."""
    return {row["family"]: row["cells"].get(title, "") for row in classes() if row["mapping"] == task}


def _data() -> dict[str, Any]:
    return json.loads(DATA.read_text(encoding="utf-8"))


def _facts(task: str, family: str, result: dict[str, Any]) -> dict[str, Any]:
    """Return what the data hold of a class."""
    row = {"mapping": task, "family": family, "class": result.get("class", "")}
    if task not in MEDIA:
        reads = result.get("reads", "")
        row |= {"trunk": result.get("trunk", ""), "reads": "some" if " of " in reads else reads}
    cells = {title: cell(result, title) for title in _titles(task)}
    return row | {"cells": cells, "refused": _errors(task, result)}


def _errors(task: str, result: dict[str, Any]) -> dict[str, str]:
    """Return the errors of the columns that are refused on a class whose head is found, without the class's name."""
    if task in SIGNALS or kind(result.get("head", "error")) != "yes":
        return {}
    columns = MEDIA_COLUMNS if task in MEDIA else COLUMNS
    errors: dict[str, list[str]] = {}
    for title in _titles(task):
        if title in ("Encoders", "Value zeroing"):
            continue  # the columns say enough: these are made for some architectures
        for name in columns[title].calls:
            outcome = result["calls"].get(name, "yes")
            if kind(outcome) == "refused":
                why = outcome.partition(": ")[2].partition(": ")[2].partition("; ")[0]
                errors.setdefault(title, []).append(re.sub(rf"\b{result['class']}\b", "the model", why))
    return {title: "; ".join(dict.fromkeys(reasons)) for title, reasons in errors.items()}


def cell(result: dict[str, Any], title: str) -> str:
    """Return what a column says of a class: "yes", "skipping", "no", "some", a dash, "not run", or "error"."""
    if not result.get("calls"):  # the model could not be built, or taken
        outcomes = [result.get("head", NOT_RUN)]
    else:
        outcomes = [result["calls"].get(name, NOT_RUN) for name in (COLUMNS | MEDIA_COLUMNS)[title].calls]
    kinds = {NOT_RUN if outcome == NOT_RUN else kind(outcome) for outcome in outcomes}
    if "error" in result or "error" in kinds or (title == "NormXLogit" and kind(result.get("head", "")) == "error"):
        return "error"
    if NOT_RUN in kinds:
        return NOT_RUN
    if title == "Layers" and kinds == {"yes"} and result.get("resting"):
        return "skipping"
    if kinds == {"yes"}:
        return "yes"
    if "fails" in kinds:
        return "–"
    return "some" if "yes" in kinds else "no"


def _titles(task: str) -> list[str]:
    if task in MEDIA:
        return list(IN_MAPPING[task])
    return [title for title in COLUMNS if task == "causal-lm" or title not in LANGUAGE]


def _columns() -> str:
    rows, media_rows = (
        "\n".join(f"| {title} | {column.written} | {column.compared} |" for title, column in columns.items())
        for columns in (COLUMNS, MEDIA_COLUMNS)
    )
    return COLUMNS_MEANING.format(columns=rows, media_columns=media_rows)


def _summary(rows: Classes) -> str:
    lines = [
        "How many classes of each mapping have a *yes*.\n",
        "<!-- generated: python -m tools.survey -->\n",
        f"| Mapping | Classes | {' | '.join(IN_SUMMARY)} |",
        "|---" * (len(IN_SUMMARY) + 2) + "|",
    ]
    for task, mapping in MAPPINGS.items():
        if task in MEDIA:
            continue
        cells = [row["cells"] for row in rows if row["mapping"] == task]
        counts = [
            str(sum(row[title] in ("yes", "skipping") for row in cells)) if title in _titles(task) else ""
            for title in IN_SUMMARY
        ]
        lines.append(f"| {mapping.title} | {len(cells)} | {' | '.join(counts)} |")
    lines += [
        "\nOf the classes that read pictures or sounds beside text: which run here by themselves, and of these how\n"
        "many have a *yes* in every column, are refused somewhere with a reason, or are wrong.\n",
        "<!-- generated: python -m tools.survey -->\n",
        "| Mapping | Classes | Run | Explained | Refused | Wrong |\n|---|---|---|---|---|---|",
    ]
    for task in MEDIA:
        cells = [set(row["cells"].values()) for row in rows if row["mapping"] == task]
        runs = [row for row in cells if not row & {"–", NOT_RUN}]
        wrong, explained = sum("error" in row for row in runs), sum(row == {"yes"} for row in runs)
        refused = len(runs) - wrong - explained
        lines.append(f"| {MAPPINGS[task].title} | {len(cells)} | {len(runs)} | {explained} | {refused} | {wrong} |")
    return "\n".join(lines) + "\n"


def _lists() -> list[str]:
    layers = [f"- `{family}`: {why}." for family, why in SKIPPING.items()]
    padding = [f"- `{family}`: {why}." for family, why in PADDING.items()]
    return [
        "## Layers that are read by skipping later layers\n\nThe `hidden_states` of these cannot be brought to the "
        "head one by one. A layer's scores come from a pass in which the later layers are skipped: each returns what "
        "it was given. This costs one pass for each layer. Layers count in the order in which the model runs "
        "them. The column *Layers* says *skipping*.\n\n" + "\n".join(layers) + "\n",
        "## Models whose answer changes with padding\n\nThis is found on the first texts of different lengths. From "
        "then on only texts of one length are in a batch, so that a text has the same scores alone and in a batch.\n\n"
        + "\n".join(padding)
        + "\n",
        "## Every class\n\n*Trunk* is the module whose output the head reads. *Reads* says which tokens the head "
        "reads: one of them, each of them, their mean, or some of them.\n",
    ]


def _table(task: str, rows: Classes) -> str:
    """Return a mapping's table: its classes, their cells, and why some are refused."""
    titles = _titles(task)
    reads = () if task in MEDIA else ("Trunk", "Reads")
    columns = ("Family", "Class", *reads, *titles, "Refused because")
    lines = [f"### {MAPPINGS[task].title}\n", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for row in rows:
        facts = [] if task in MEDIA else [f"`{row['trunk']}`" if row["trunk"] else "", row["reads"]]
        errors = [f"{title}: {why}" for title, why in row["refused"].items()]
        if row["family"] in REFUSED.get(task, {}):
            errors.insert(0, REFUSED[task][row["family"]])
        cells = [row["cells"][title] for title in titles]
        because = "; ".join(dict.fromkeys(errors)).replace("|", "\\|").replace("<", "&lt;")
        lines.append("| " + " | ".join([f"`{row['family']}`", row["class"], *facts, *cells, because]) + " |")
    return "\n".join(lines) + "\n"
