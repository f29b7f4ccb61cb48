"""The command that fits a model's probabilities of support to labelled sentences."""

from pathlib import Path
from typing import Annotated

import typer

from ...cli import options
from ...cli.console import quiet, write

FOLDS = 10
"""Parts of the labelled sentences; the probabilities of each are fitted to the others."""


@options.loads_models
def calibrate(
    pairs: Annotated[
        Path,
        typer.Argument(
            metavar="PAIRS",
            help='JSON lines with "documents" (a text, several, or texts by name), "sentence", "supported" (true or '
            'false), 20 of each label or more, and maybe the "question".',
        ),
    ],
    model: options.LanguageModel = "",
    loading: options.Loading = options.LOADING,
) -> None:
    """Fit the probability that documents support a sentence to your own labels, for one model.

    It is kept in the cache, for this model and no other.

    Example: normxlogit calibrate pairs.jsonl --model FOLDER
    """
    options.required(model, options.NO_LANGUAGE_MODEL)
    with quiet():
        import numpy as np

        from ...long_runs.console import progress, write_report
        from ..calibration import fit, save
        from .calibration_quality import calibration_table
        from .claims import load_claims, supports_of

        claims = load_claims(pairs)
        task_model = loading.load(model).language_model
        with progress(pieces_of_work=1) as on_progress:
            supports = supports_of(task_model, claims, on_progress)
        labels = np.array([claim.is_supported for claim in claims])
        calibration = fit(task_model, supports, labels, pairs.name)
        path = save(calibration)
    # The table is of curves fitted to other parts; the curve that is kept is fitted to all.
    folds = [str(place % FOLDS) for place in range(len(claims))]
    write_report(calibration_table(supports, labels, folds))
    write(f"\nkept in {path}, for this model alone\n")
