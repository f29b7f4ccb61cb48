"""docs/architectures.md, from the outcomes of the survey's calls."""

import re
from pathlib import Path
from typing import Any, NamedTuple

import transformers

from tests.architectures.base import MAPPINGS, MEDIA, SIGNALS
from tests.architectures.calls import DEFAULT
from tests.architectures.known import PADDING, REFUSED, SKIPPING
from tests.architectures.outcomes import kind

PAGE = Path(__file__).parents[2] / "docs" / "architectures.md"

Results = dict[tuple[str, str], dict[str, Any]]


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
PERTURBATION = ("occlusion", "lime", "kernel-shap", "guided-lime")
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
        "`explainer.explain_sources(prompt, completion)`",
        "the sum over all sources plus bias with the sum of the model's own logits",
    ),
}

WRITTEN = (
    "the generated tokens with those of the model's own `generate`; the scores of words, patches and moments plus "
    "bias with its logit of each, minus the mean over the vocabulary"
)
MEDIA_COLUMNS = {
    "Generate": Column(("generate",), "`explainer.generate(...)` of messages with a picture, or of a sound", WRITTEN),
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
        "`explainer.explain_sources(messages, completion)`",
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
    "speech-seq2seq": ("Generate", "At the entry"),
    "ctc": ("Generate", "At the entry"),
    "zero-shot-image": ("Similarity",),
}

NOT_RUN = "not run"
"""Of a call that the survey has not made."""

LANGUAGE = ("Generation", "Completion", "Sources")
IN_SUMMARY = ("Default", "NormXLogit", "Layers", "Frozen", "Gradients", "Perturbation", *LANGUAGE)

HEAD = """# Supported architectures

This page says which calls work on which model class of transformers {version}. For every class in transformers' auto
mappings, a small model with random weights is built, and the calls that a user makes are made on it. To write the page
again:

```console
$ python -m tests.architectures.survey
```

Every call is made on two inputs of different lengths (two pictures or two sounds of one size): each alone, and both in
one batch (sources: one input). Every column compares the scores in the batch with the scores alone, and what the table
says. Numbers may differ by 2e-4 of the largest score, or of the sum of the scores' absolute values where scores are
added up.

| Column | Calls | What is compared |
|---|---|---|
{columns}

Models that read pictures or sounds beside text get two pictures of different sizes, or two sounds of different lengths,
through a processor that is made in memory from the classes that transformers names for them:

| Column | Calls | What is compared |
|---|---|---|
{media_columns}

The cells:

- **yes**: every call of the column works and every comparison holds.
- **no**: the call is refused. The error says what the method needs and what works instead.
- **some**: some methods of the column work, the others are refused.
- **skipping**: yes, by skipping later layers, as described below.
- **not run**: the survey has not made the call yet.
- **–**: the model's own call fails on these inputs too, or needs a package that is not installed (torchvision, for the
  picture processors of some families). So it is where a family's defaults could not be shrunk or its processor not be
  made.

The frozen gradient also proves on each model that its pass gives the model's own answer and is affine.
"""

NOTES = """## Notes

- *Trunk* is the module whose output the head reads. *Reads* says which tokens the head reads: one of them, each of
  them, their mean, or some of them.
- Encoder-decoder classifiers give the text to both sides. NormXLogit reads the decoder's states and takes the norms
  from the encoder's embeddings.
- A trunk that pools (Funnel) has fewer states than tokens. Each token takes the state that it is pooled into.
- A head that compares tokens with each other (Splinter's) is applied to the whole text, not to one token.
- On transformers 5.5, the oldest version that is supported, the same calls work, but for four classes that fail on
  these inputs by themselves (listed in `tests/architectures/known.py`).
"""


def render(results: Results) -> str:
    """Return the page."""
    parts = [_head(), _summary(results), NOTES, *_reasons(results)]
    parts += [_table(task, results) for task in MAPPINGS]
    return "\n".join(parts)


def _head() -> str:
    rows, media_rows = (
        "\n".join(f"| {title} | {column.written} | {column.compared} |" for title, column in columns.items())
        for columns in (COLUMNS, MEDIA_COLUMNS)
    )
    return HEAD.format(version=transformers.__version__, columns=rows, media_columns=media_rows)


def version_on_page() -> str:
    """Version of transformers that the page was written with."""
    found = re.search(r"transformers (\d[\w.]*)\.", PAGE.read_text(encoding="utf-8"))
    return found.group(1) if found else ""


def column_on_page(task: str, title: str = "Class") -> dict[str, str]:
    """Return the cells of a column of the page's table of a mapping, by family."""
    text = PAGE.read_text(encoding="utf-8")
    section = text.partition(f"\n## {MAPPINGS[task].title}\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    place = rows[0].index(title)
    return {row[0].strip("`"): row[place] for row in rows[2:]}


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


def _summary(results: Results) -> str:
    lines = [
        "## Summary\n\nHow many classes of each mapping have a *yes*.\n",
        "<!-- generated: python -m tests.architectures.survey -->\n",
        f"| Mapping | Classes | {' | '.join(IN_SUMMARY)} |",
        "|---" * (len(IN_SUMMARY) + 2) + "|",
    ]
    for task, mapping in MAPPINGS.items():
        if task in MEDIA:
            continue
        rows = [result for (name, _), result in results.items() if name == task]
        counts = [
            str(sum(cell(row, title) in ("yes", "skipping") for row in rows)) if title in _titles(task) else ""
            for title in IN_SUMMARY
        ]
        lines.append(f"| {mapping.title} | {len(rows)} | {' | '.join(counts)} |")
    lines += [
        "\nOf the classes that read pictures or sounds beside text: which run here by themselves, and of these how "
        "many have a *yes* in every column, are refused somewhere with a reason, or are wrong.\n",
        "<!-- generated: python -m tests.architectures.survey -->\n",
        "| Mapping | Classes | Run | Explained | Refused | Wrong |\n|---|---|---|---|---|---|",
    ]
    for task in MEDIA:
        cells = [{cell(row, title) for title in _titles(task)} for (name, _), row in results.items() if name == task]
        runs = [row for row in cells if not row & {"–", NOT_RUN}]
        wrong, explained = sum("error" in row for row in runs), sum(row == {"yes"} for row in runs)
        refused = len(runs) - wrong - explained
        lines.append(f"| {MAPPINGS[task].title} | {len(cells)} | {len(runs)} | {explained} | {refused} | {wrong} |")
    return "\n".join(lines) + "\n"


def _listed(families: list[str]) -> str:
    return ", ".join(f"`{family}`" for family in families)


def _reasons(results: Results) -> list[str]:
    refused = []
    for task, reasons in REFUSED.items():
        for why in dict.fromkeys(reasons.values()):
            names = _listed([family for family, reason in reasons.items() if reason == why])
            refused.append(f"- {MAPPINGS[task].title}: {names}: {why}.")
    layers = [f"- `{family}`: {why}." for family, why in SKIPPING.items()]
    padding = [f"- `{family}`: {why}." for family, why in PADDING.items()]
    return [
        "## Classes whose head is refused\n\nWhat applies the head to single tokens is refused here. Methods "
        "that need only the model's answer, such as occlusion, work where the table says so.\n\n"
        + "\n".join(refused)
        + "\n",
        "## Other refusals\n\nThese are on classes whose head is found. The quoted text is the error's.\n\n"
        + "\n".join(_other_refusals(results))
        + "\n",
        "## Layers that are read by skipping later layers\n\nThe `hidden_states` of these cannot be brought to the "
        "head one by one. A layer's scores come from a pass in which the later layers are skipped: each returns what "
        "it was given. This costs one pass for each layer. Layers count in the order in which the model runs "
        "them. The column *Layers* says *skipping*.\n\n" + "\n".join(layers) + "\n",
        "## Models whose answer changes with padding\n\nThis is found on the first texts of different lengths. From "
        "then on only texts of one length are in a batch, so that a text has the same scores alone and in a batch.\n\n"
        + "\n".join(padding)
        + "\n",
    ]


def _other_refusals(results: Results) -> list[str]:
    """Return a line for each error of each column, with the classes that have it."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for (task, family), result in results.items():
        if task in SIGNALS or kind(result.get("head", "error")) != "yes":
            continue
        kept = MEDIA_COLUMNS if task in MEDIA else COLUMNS
        for title in _titles(task):
            if title in ("Encoders", "Value zeroing"):
                continue  # the columns say enough: these are made for some architectures
            for name in kept[title].calls:
                outcome = result["calls"].get(name, "yes")
                if kind(outcome) == "refused":
                    why = outcome.partition(": ")[2].partition(": ")[2].partition("; ")[0]
                    why = re.sub(rf"\b{result['class']}\b", "the model", why)
                    found.setdefault((title, why), {})[family] = None
    return [f'- {title}: {_listed(sorted(families))}: "{why}".' for (title, why), families in sorted(found.items())]


def _table(task: str, results: Results) -> str:
    titles = _titles(task)
    if task in MEDIA:
        lines = [
            f"## {MAPPINGS[task].title}\n",
            f"| Family | Class | {' | '.join(titles)} |",
            "|---" * (len(titles) + 2) + "|",
        ]
        for (name, family), result in sorted(results.items()):
            if name == task:
                cells = [cell(result, title) for title in titles]
                lines.append(f"| `{family}` | {result.get('class', '')} | {' | '.join(cells)} |")
        return "\n".join(lines) + "\n"
    lines = [
        f"## {MAPPINGS[task].title}\n",
        f"| Family | Class | Trunk | Reads | {' | '.join(titles)} |",
        "|---" * (len(titles) + 4) + "|",
    ]
    for (name, family), result in sorted(results.items()):
        if name != task:
            continue
        reads = result.get("reads", "")
        reads = "some" if " of " in reads else reads
        trunk = f"`{result['trunk']}`" if "trunk" in result else ""
        cells = [cell(result, title) for title in titles]
        lines.append(f"| `{family}` | {result.get('class', '')} | {trunk} | {reads} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
