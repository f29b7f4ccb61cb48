"""The published package context-cite on the prompts that other methods are measured on."""

import contextlib
import io
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import UnsupportedModelError
from ..models.task_model import TaskModel
from ..pipeline.completed import Completed
from ..results.spans import Piece
from ..results.tables import optional_module

__all__ = ["published_context_cite"]

MISSING = "the package context-cite is missing: pip install context-cite"


def published_context_cite(
    model: TaskModel, completed: Completed, sources: Sequence[Piece], samples: int, seed: int
) -> npt.NDArray[np.float64]:
    """Return the weights of the sources by the code of the package: its masks, its passes, its Lasso.

    It gets the token ids of the prompt with the sources that are left, and the answer as it stands, as all methods do.

    Args:
        model: A causal language model.
        completed: The prompt with its answer.
        sources: The sources.
        samples: Random ablations.
        seed: Of the ablations.

    Returns:
        (S,).

    Raises:
        DataError: If the package is missing.
        UnsupportedModelError: If the model is an encoder-decoder model.
    """
    if completed.encoding.source is not None:
        raise UnsupportedModelError(
            "the package context-cite reads causal language models; the method context-cite reads this one, too"
        )
    with _silent():
        utils = optional_module("context_cite.utils", MISSING)
        solver = optional_module("context_cite.solver", MISSING).LassoRegression()
        ids, start = completed.encoding.ids, completed.prompt_tokens
        prompt, answer = ids[:start], ids[start:]

        def prompt_ids(mask: npt.NDArray[np.bool_]) -> list[int]:
            out = {i for source, there in zip(sources, mask, strict=True) if not there for i in source.tokens}
            return [token for place, token in enumerate(prompt) if place not in out]

        reference: Any = model.copy.reference
        masks, logits = utils.get_masks_and_logit_probs(
            reference, model.tokenizer, samples, len(sources), prompt_ids, answer, 0.5, 1, base_seed=seed
        )
        weights, _ = solver.fit(masks, utils.aggregate_logit_probs(logits), len(answer))
    return np.asarray(weights, np.float64)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keep its progress bars, warnings and its try to download a sentence splitter off the terminal."""
    with (
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.redirect_stdout(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield
