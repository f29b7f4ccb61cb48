"""The commands of the alignment experiment: evaluate alignment, reproduce figure-alignment."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError
from .console import check_folder, progress, quiet, write_report
from .options import AUTO, Device, DType, GGUFFile, Protocol, loading, methods_of

if TYPE_CHECKING:
    from ..methods import Method
    from ..paper.alignment.figures import Scale

__all__ = ["alignment", "figure_alignment"]


class Normalisation(str, Enum):
    """How scores become shares for the dot product."""

    published = "published"
    softmax = "softmax"
    sum = "sum"


def alignment(
    model: Annotated[str, typer.Option(help="Name or folder of a masked or causal language model.")],
    after: Annotated[str | None, typer.Option(help="The same model fine-tuned, to be measured beside it.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder with PARADIGM.jsonl; else the hub.")] = None,
    methods: Annotated[
        str, typer.Option(help='"all" of the paper, or names with settings, as for faithfulness.')
    ] = "all",
    words: Annotated[
        str, typer.Option(help="WordEmbeddings whose LogAt is measured besides target and foil.")
    ] = "plural",
    normalisation: Annotated[
        Normalisation, typer.Option(help="Of the dot product; by default each method's as in the paper.")
    ] = Normalisation.published,
    protocol: Annotated[Protocol, typer.Option(help="See the page on alignment.")] = Protocol.default,
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many rows of each paradigm.")] = None,
    gguf_file: GGUFFile = None,
    device: Device = AUTO,
    dtype: DType = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for results as JSON, Markdown and figures; a stopped run goes on there.")
    ] = None,
) -> None:
    """Measure the share of each method's scores on the words that tell the target's form (BLiMP), layer by layer."""
    check_folder(output)
    from ..paper.alignment.runs import STATES

    models = [(STATES[0] if after else Path(model).name, model)] + ([(STATES[1], after)] if after else [])
    with quiet():
        text = _measured(
            models,
            _cells(methods),
            output,
            about={"model": Path(model).name},
            words=words.split(),
            scale=normalisation.value,
            protocol=protocol,
            data_dir=data_dir,
            limit=limit,
            **loading(device, dtype, gguf_file),
        )
    write_report(text)


def figure_alignment(
    bases: Mapping[str, str],
    tuned: Mapping[str, str],
    methods: str,
    output: Path,
    *,
    words: Sequence[str],
    training: Mapping[str, Any],
    protocol: Protocol,
    data_dir: Path | None,
    limits: Mapping[str, int],
    **options: Any,
) -> str:
    """Measure alignment for the paper's figures: each model before and after fine-tuning.

    Args:
        bases: Pretrained models by name.
        tuned: Fine-tuned ones; a name that is missing here is fine-tuned first.
        methods: As on the command line.
        output: Folder for models, finished runs and a folder of results for each name.
        words: Words whose LogAt is measured besides target and foil.
        training: What differs from the paper's settings of fine-tuning.
        protocol: See the page on alignment.
        data_dir: Folder with the paradigms' files.
        limits: Only so many rows of each paradigm, under "blimp" or "all".
        **options: Passed to `Explainer.from_pretrained`.

    Returns:
        The results in Markdown.

    Raises:
        InputError: If no model is named, or LoRA is asked for.
    """
    from ..paper.alignment.runs import STATES
    from ..paper.finetuning.minimal_pairs import PAPER, TASK, finetune

    if not bases and not tuned:
        raise InputError("name the models: --base MODEL=NAME to fine-tune first, --checkpoint MODEL:blimp=FOLDER")
    limit, cells = limits.get(TASK, limits.get("all")), _cells(methods)
    texts = []
    for name in dict.fromkeys((*bases, *tuned)):
        slug = name.replace(" ", "-").lower()
        folder = tuned.get(name, str(output / "models" / f"{slug}-{TASK}"))
        if name not in tuned and not (Path(folder) / "config.json").is_file():
            with redirect_stdout(sys.stderr):
                finetune(bases[name], folder, data_dir=data_dir, recipe=replace(PAPER, **training), limit=limit)
        sources = dict(zip(STATES, (bases.get(name), folder), strict=True))
        models = [(state, source) for state, source in sources.items() if source is not None]
        texts.append(
            _measured(
                models,
                cells,
                output / f"alignment-{slug}",
                about={"model": name},
                words=words,
                scale="published",
                protocol=protocol,
                data_dir=data_dir,
                limit=limit,
                **options,
            )
        )
    return "\n".join(texts)


def _measured(
    models: Sequence[tuple[str, str]],
    cells: "Sequence[Method]",
    output: Path | None,
    *,
    about: Mapping[str, Any],
    scale: "Scale",
    protocol: Protocol,
    **options: Any,
) -> str:
    from ..paper.alignment.report import alignment_tables, write_alignment
    from ..paper.alignment.runs import published_studies, run_studies

    with progress(len(cells) * len(models)) as step:
        studies = run_studies(
            models,
            cells,
            folder=None if output is None else output / "runs",
            protocol=protocol.value,
            on_progress=step,
            **options,
        )
    shown = {**about, "protocol": protocol.value, "normalisation": scale}
    theirs = published_studies()
    if output is not None:
        return write_alignment(output, studies, theirs, shown, scale=scale)
    return alignment_tables(studies, theirs, shown, scale=scale)


def _cells(methods: str) -> "list[Method]":
    from ..paper.alignment.runs import paper_methods

    return paper_methods() if methods in ("all", "paper") else methods_of(methods)
