"""The command that measures alignment with evidence: evaluate alignment."""

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from .console import progress, quiet, write_report
from .options import AUTO, Device, DType, GGUFFile, Limit, Protocol, loading, methods_of

__all__ = ["alignment"]


def alignment(
    model: Annotated[str, typer.Option(help="Name or folder of a masked or causal language model.")],
    data: Annotated[
        Path | None,
        typer.Option(help='JSON lines with "sentence_good", "sentence_bad", "evidence" and optionally "group".'),
    ] = None,
    methods: Annotated[
        str, typer.Option(help='"all" of the paper, or names with settings, as for faithfulness.')
    ] = "all",
    words: Annotated[str, typer.Option(help="Words for which LogAt is measured, beside target and foil.")] = "",
    protocol: Annotated[Protocol, typer.Option(help="See the page on alignment.")] = Protocol.default,
    limit: Limit = None,
    gguf_file: GGUFFile = None,
    device: Device = AUTO,
    dtype: DType = None,
) -> None:
    """Measure the share of each method's scores on the words that decide between two sentences, layer by layer."""
    if data is None:
        raise InputError("name a JSONL file of minimal pairs with --data; for BLiMP see python -m paper alignment")
    with quiet():
        from ..evaluation.alignment import METHODS, alignment_text
        from ..evaluation.minimal_pairs import load_minimal_pairs
        from ..explainer import Explainer

        cells = methods_of(" ".join(METHODS) if methods == "all" else methods)
        pairs, evidence = load_minimal_pairs(data, limit)
        explainer = Explainer.from_pretrained(model, **loading(device, dtype, gguf_file))
        with progress(len(cells)) as step:
            text = alignment_text(
                explainer, pairs, evidence, cells, words=words.split(), protocol=protocol.value, on_progress=step
            )
    write_report(f"data: {data.name}, model: {explainer._model.name}, protocol: {protocol.value}\n\n{text}")
