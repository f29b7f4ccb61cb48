"""The commands that measure alignment with evidence, on BLiMP or on pairs of a user's own."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from normxlogit.cli.console import quiet
from normxlogit.cli.options import AUTO, Device, DType, GGUFFile, Loading
from normxlogit.errors import InputError
from normxlogit.evaluation.options import DataDir, Limit, Protocol, methods_of
from normxlogit.long_runs.console import check_folder, progress, write_report

from ..options import OUTPUTS, Bases, BFloat16, Checkpoints, Output, PaperMethods, Words, named_base, read_checkpoints

if TYPE_CHECKING:
    from .runs import PairReader

__all__ = ["alignment", "figure_alignment"]


def alignment(
    model: Annotated[str, typer.Option(help="Name or folder of a masked or causal language model.")],
    after: Annotated[str | None, typer.Option(help="The same model fine-tuned, to be measured beside it.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help='Pairs of your own instead of BLiMP: JSON lines with "sentence_good", "sentence_bad", "evidence" and '
            'optionally "group".'
        ),
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder with BLiMP's PARADIGM.jsonl; else the hub.")] = None,
    methods: Annotated[
        str, typer.Option(help='"all" of the paper, or names with settings, as for faithfulness.')
    ] = "all",
    words: Annotated[
        str | None,
        typer.Option(
            help='Words for which LogAt is measured, beside target and foil; "plural" by default, with --data none.'
        ),
    ] = None,
    normalisation: Annotated[
        Literal["published", "softmax", "sum"],
        typer.Option(help="Of the dot product; by default each method's as in the paper."),
    ] = "published",
    protocol: Annotated[Protocol, typer.Option(help="See the page on alignment.")] = "default",
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many rows: of each paradigm, or of --data.")] = None,
    gguf_file: GGUFFile = None,
    device: Device = AUTO,
    dtype: DType = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for results as JSON, Markdown and figures; a stopped run goes on there.")
    ] = None,
) -> None:
    """Measure the share of each method's scores on the words that decide between two sentences, layer by layer.

    Example: python -m paper alignment --data pairs.jsonl --model FOLDER
    """
    if data is not None and data_dir is not None:
        raise InputError("--data reads pairs of your own, --data-dir those of BLiMP: give one of the two")
    check_folder(output)
    with quiet():
        from ..minimal_pairs import load_minimal_pairs
        from ..sentence_pairs import encode_own
        from .runs import STATES

        read = _blimp(data_dir, limit) if data is None else partial(encode_own, *load_minimal_pairs(data, limit))
        models = [(STATES[0] if after else Path(model).name, model)] + ([(STATES[1], after)] if after else [])
        text = _aligned(
            models,
            methods,
            output,
            read,
            metadata=({} if data is None else {"data": data.name}) | {"model": Path(model).name},
            words=("plural" if data is None else "").split() if words is None else words.split(),
            scale=normalisation,
            protocol=protocol,
            compared=data is None,
            **Loading(device, dtype, gguf_file).arguments(),
        )
    write_report(text)


def figure_alignment(
    checkpoint: Checkpoints = None,
    base: Bases = None,
    bf16: BFloat16 = False,
    data_dir: DataDir = None,
    methods: PaperMethods = "paper",
    limit: Limit = None,
    protocol: Annotated[Protocol, typer.Option(help="See the page on alignment.")] = "published",
    words: Words = "plural",
    device: Device = AUTO,
    dtype: DType = None,
    output: Output = OUTPUTS,
) -> None:
    """Measure alignment before and after fine-tuning, for the paper's figures; --base fine-tunes first."""
    check_folder(output)
    bases = dict(named_base(entry) for entry in base or [])
    tuned = {
        name: folder for name, tasks in read_checkpoints(checkpoint or []).items() if (folder := tasks.get("blimp"))
    }
    if not bases and not tuned:
        raise InputError("name the models: --base MODEL=NAME to fine-tune first, --checkpoint MODEL:blimp=FOLDER")
    texts = []
    with quiet():
        from ..finetuning.minimal_pairs import PAPER, TASK, finetune
        from .runs import STATES

        for name in dict.fromkeys((*bases, *tuned)):
            slug = name.replace(" ", "-").lower()
            folder = tuned.get(name, str(output / "models" / f"{slug}-{TASK}"))
            if name not in tuned and not (Path(folder) / "config.json").is_file():
                recipe = replace(PAPER, bf16=bf16, device=device)
                with redirect_stdout(sys.stderr):
                    finetune(bases[name], folder, data_dir=data_dir, recipe=recipe, limit=limit)
            sources = dict(zip(STATES, (bases.get(name), folder), strict=True))
            pair = [(state, source) for state, source in sources.items() if source is not None]
            texts.append(
                _aligned(
                    pair,
                    methods,
                    output / f"alignment-{slug}",
                    _blimp(data_dir, limit),
                    metadata={"model": name},
                    words=words.split(),
                    scale="published",
                    protocol=protocol,
                    **Loading(device, dtype).arguments(),
                )
            )
    write_report("\n".join(texts))


def _blimp(data_dir: Path | None, limit: int | None) -> "PairReader":
    from ..sentence_pairs import load_items

    return partial(load_items, "test", evidence=True, data_dir=data_dir, limit=limit)


def _aligned(
    models: Sequence[tuple[str, str]],
    methods: str,
    output: Path | None,
    read: "PairReader",
    *,
    metadata: Mapping[str, Any],
    scale: Any,
    protocol: Protocol,
    compared: bool = True,
    **options: Any,
) -> str:
    """Measure alignment on models, and return the report; with the published figures unless the pairs are others."""
    from .report import alignment_tables, write_alignment
    from .runs import paper_methods, published_studies, run_studies

    cells = paper_methods() if methods in ("all", "paper") else methods_of(methods)
    with progress(len(cells) * len(models)) as step:
        folder = None if output is None else output / "runs"
        studies = run_studies(models, cells, read, folder=folder, protocol=protocol, on_progress=step, **options)
    shown = {**metadata, "protocol": protocol, "normalisation": scale}
    theirs = published_studies() if compared else []
    if output is not None:
        return write_alignment(output, studies, theirs, shown, scale=scale)
    return alignment_tables(studies, theirs, shown, scale=scale)
