"""The published package context-cite, on the prompts that `evaluate generation` measures methods on."""

import contextlib
import io
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from normxlogit.errors import UnsupportedModelError, optional_module
from normxlogit.grounding.evaluation.sources import AnsweredPrompt, Scored

__all__ = ["published_context_cite"]

MISSING = "the package context-cite is missing: pip install context-cite"


def published_context_cite(prompt: AnsweredPrompt, samples: int) -> Scored:
    """Score the sources of a prompt by the code of the package: its masks, its passes, its Lasso.

    The package gets the token ids of the prompt without the removed sources, and the answer's, as all methods do.

    Args:
        prompt: The question with the answer of a causal language model.
        samples: Random ablations.

    Returns:
        The weights of the sources, (1, S), and their cost in forward passes.

    Raises:
        DataError: If the package is missing.
        UnsupportedModelError: If the model is an encoder-decoder model.
    """
    if prompt.completed.encoding.source is not None:
        raise UnsupportedModelError(
            "the package context-cite reads causal language models; the method context-cite reads this one, too"
        )
    with _silent():
        utils = optional_module("context_cite.utils", MISSING)
        solver = optional_module("context_cite.solver", MISSING).LassoRegression()
        ids, start = prompt.completed.encoding.ids, prompt.completed.prompt_tokens
        answer = ids[start:]

        def prompt_ids(mask: npt.NDArray[np.bool_]) -> list[int]:
            removed = {i for source, kept in zip(prompt.sources, mask, strict=True) if not kept for i in source.tokens}
            return [token for index, token in enumerate(ids[:start]) if index not in removed]

        reference: Any = prompt.model.copy.unmodified
        masks, logits = utils.get_masks_and_logit_probs(
            reference, prompt.model.tokenizer, samples, len(prompt.sources), prompt_ids, answer, 0.5, 1,
            base_seed=prompt.seed,
        )  # fmt: skip
        weights, _ = solver.fit(masks, utils.aggregate_logit_probs(logits), len(answer))
    return Scored(np.asarray(weights, np.float64), float(samples))


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Suppress its progress bars, warnings and the message of its download of a sentence splitter."""
    with (
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.redirect_stdout(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield
