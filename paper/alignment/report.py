"""Results of the alignment experiment as Markdown and JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from normxlogit.evaluation.report import markdown_table

from .figures import write_figures
from .measures import MEASURES, Alignment, Measure, Normalisation, Scale
from .runs import Study

__all__ = ["alignment_tables", "best", "write_alignment"]

BEST = "The best layer's figure, and the layer.\n\n"


def best(alignment: Alignment, measure: Measure, **view: Any) -> tuple[float, int] | None:
    """Return the best figure over the layers and its layer."""
    values = alignment.values(measure, **view)
    return max(zip(values, alignment.layers, strict=True), key=lambda pair: pair[0]) if values else None


def alignment_tables(
    studies: Sequence[Study], theirs: Sequence[Study], metadata: Mapping[str, Any], *, scale: Scale = "published"
) -> str:
    """Return the whole report in Markdown.

    Args:
        studies: What was measured.
        theirs: What the paper published.
        metadata: What a reader should know, by name.
        scale: Normalisation of the dot product in the tables by layer.
    """
    sections = [("Target above foil", _accuracies(studies, theirs))]
    sections += [(f"Target above foil where the head reads a layer: {s.name}", _visible(s)) for s in studies]
    sections += [("Rows", _rows(studies)), ("Best layers", _bests(studies, theirs))]
    for measure in get_args(Measure):
        name = MEASURES[measure] + (f" ({scale} normalisation)" if measure == "dot" else "")
        for study in (*studies, *theirs):
            sections.append((f"{name} by layer: {study.name}", _by_layer(study.alignments, measure, scale)))
        for study in studies:
            sections.append((f"{name} by paradigm: {study.name}", _by_paradigm(study, measure, scale)))
    reasons = {f"{title} ({study.name}): {why}" for study in studies for title, why in study.missing.items()}
    parts = [", ".join(f"{key}: {value}" for key, value in metadata.items()) + "\n"]
    parts += [f"## {heading}\n\n{table}" for heading, table in sections]
    parts += ["".join(f"N/A {reason}.\n" for reason in sorted(reasons))]
    return "\n".join(part for part in parts if part)


def write_alignment(
    folder: Path, studies: Sequence[Study], theirs: Sequence[Study], metadata: Mapping[str, Any], *, scale: Scale
) -> str:
    """Write `results.json`, `results.md` and the figures into a folder; returns the Markdown."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {
        "metadata": dict(metadata),
        "studies": [asdict(s) for s in studies],
        "published": [asdict(s) for s in theirs],
    }
    (folder / "results.json").write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")
    text = alignment_tables(studies, theirs, metadata, scale=scale)
    (folder / "results.md").write_text(text, encoding="utf-8")
    write_figures(folder, studies, theirs, scale=scale)
    return text


def _accuracies(studies: Sequence[Study], theirs: Sequence[Study]) -> str:
    groups = list(studies[0].accuracy)
    rows = [
        [s.name, *(f"{s.accuracy[g][-1]:.3f}" if g in s.accuracy else "" for g in groups)] for s in (*studies, *theirs)
    ]
    return markdown_table(["model", *groups], rows)


def _visible(study: Study) -> str:
    """Tabulate from which layer on a phenomenon can be read off by the model's own head."""
    rows = [[group, *(f"{share:.3f}" for share in shares)] for group, shares in study.accuracy.items()]
    return markdown_table(["paradigm", *(str(layer) for layer in range(1, len(rows[0])))], rows)


def _rows(studies: Sequence[Study]) -> str:
    """Make one table for all models that read the same rows, as those before and after fine-tuning do."""
    same = all(study.counts == studies[0].counts for study in studies)
    rows = [
        [
            *([] if same else [study.name]),
            short,
            str(count["rows"]),
            str(count["kept"]),
            "; ".join(f"{reason}: {number}" for reason, number in count["dropped"].items()),
        ]
        for study in (studies[:1] if same else studies)
        for short, count in study.counts.items()
    ]
    return markdown_table([*([] if same else ["model"]), "paradigm", "rows", "kept", "left out"], rows)


def _bests(studies: Sequence[Study], theirs: Sequence[Study]) -> str:
    scales: tuple[Normalisation, ...] = get_args(Normalisation)
    rows = []
    for study in (*studies, *theirs):
        for alignment in study.alignments:
            figures = [best(alignment, "dot", scale=scale) for scale in scales] + [best(alignment, "ap")]
            rows.append([study.name, f"`{alignment.title}`", *map(_shown, figures)])
        rows += [[study.name, f"`{title}`", "N/A", "N/A", "N/A"] for title in study.missing]
    columns = [*(f"dot product, {scale}" for scale in scales), "average precision"]
    return BEST + markdown_table(["model", "scores", *columns], rows)


def _by_layer(alignments: Sequence[Alignment], measure: Measure, scale: Scale) -> str:
    """Return a Markdown table with a row for each series and a column for each layer."""
    layers = sorted({layer for alignment in alignments for layer in alignment.layers})
    rows = []
    for alignment in alignments:
        # some of the published figures lack a measure
        values = dict(zip(alignment.layers, alignment.values(measure, scale=scale), strict=False))
        rows.append([f"`{alignment.title}`", *(f"{values[n]:.3f}" if n in values else "" for n in layers)])
    return markdown_table(["scores", *map(str, layers)], rows)


def _by_paradigm(study: Study, measure: Measure, scale: Scale) -> str:
    groups = list(study.counts)
    rows = [
        [f"`{a.title}`", *(_shown(best(a, measure, group=group, scale=scale)) for group in groups)]
        for a in study.alignments
    ]
    return BEST + markdown_table(["scores", *groups], rows)


def _shown(figure: tuple[float, int] | None) -> str:
    return "" if figure is None else f"{figure[0]:.3f} ({figure[1]})"
