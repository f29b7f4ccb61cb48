"""AT2 (Cohen-Wang et al., 2025), by its authors' package, on the prompts of `evaluate generation`.

AT2 predicts what leaving out sources costs an answer by a weighted sum of attention weights; the weights, one for each
head, are learned from ablations of training prompts. The package `at2` does both: `train` gives it prompts as this
package reads them, and `AT2` hands it the hidden states of a prompt with its answer.
"""

import importlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from normxlogit import DataError, Explainer, MethodError
from normxlogit.evaluation.ranking import RankingResult
from normxlogit.grounding.citations.cited_answer import read_answered
from normxlogit.grounding.evaluation.sources import Question, evaluate_sources
from normxlogit.methods import Method, Request, Scores, register
from normxlogit.results.units.spans import prompt_sources

__all__ = ["AT2", "compare", "train"]

MODEL_TYPE = "llama"
"""Whose attention the package computes."""

MASKS = 32
"""Ablations of each training prompt, the package's default."""

UNITS = (None, "token")
"""What an estimator is trained on: the answer as a whole, or its tokens."""


class AT2(Method):
    """Learned sum of the attention weights from an answer's tokens to the tokens before them.

    Args:
        estimator: File of the trained estimator, from `train`.
    """

    def __init__(self, estimator: str = "") -> None:
        self.estimator = estimator

    def score(self, request: Request) -> Scores:
        """Refuse: the estimator is trained on sources of answers."""
        raise MethodError("at2 scores the sources of an answer")

    @torch.no_grad()
    def score_each(self, request: Request, places: Tensor, weights: Tensor | None = None) -> Scores:
        """Score the tokens of one text for the G tokens of its answer, or for N sums of these, from one pass.

        Args:
            request: The pass over the text, B = 1.
            places: The position at which each token of the answer is predicted, (1, G).
            weights: The weights of the sums, (N, G); None for each token by itself.
        """
        module: Any = request.model.module
        states = module(**request.forward.batch.inputs, output_hidden_states=True).hidden_states  # (1, T, H) each
        start, end = int(places[0, 0]) + 1, int(places[0, -1]) + 2
        task = SimpleNamespace(model=module, hidden_states=states)
        scores = _estimator(self.estimator, module).get_scores(task, start, end).float()[None]  # (1, G, T)
        return Scores((scores if weights is None else weights.to(scores) @ scores)[:, :, None])


def train(explainer: Explainer, questions: Sequence[Question], folder: Path, max_new_tokens: int = 40) -> list[Path]:
    """Train estimators on answers to questions, by the package's trainer.

    Args:
        explainer: A Llama.
        questions: Training questions with documents, whose sentences are the sources.
        folder: Where the ablations and the estimators are written.
        max_new_tokens: Most tokens of an answer.

    Returns:
        The file of the estimator for each of `UNITS`.
    """
    package = _package()
    module: Any = explainer.task_model.module
    layers, heads = module.config.num_hidden_layers, module.config.num_attention_heads
    prompts = [_prompt(package.tasks, explainer, question, max_new_tokens) for question in questions]
    files = []
    for unit in UNITS:
        path = folder / f"by-{unit or 'answer'}"
        # The package reads data sets of rows, and makes a prompt of each; here the rows are numbers of prompts.
        trainer = package.trainer.LinearScoreEstimatorTrainer(
            path,
            list(range(len(prompts))),
            module,
            explainer.task_model.tokenizer,
            lambda index, *_: prompts[index],
            package.features.AttentionFeatureExtractor(layers, heads, model_type=MODEL_TYPE),
            split_target_by=unit,
            num_masks=MASKS,
        )
        trainer._generations = dict.fromkeys(range(len(prompts)), "")  # the answers are there
        trainer._task_datas = {
            index: {"num_sources": prompt.num_sources, "num_targets": len(prompt.get_sub_target_token_ranges(unit))}
            for index, prompt in enumerate(prompts)
        }
        trainer.compute_features_and_outputs()
        trainer.train(batch_size=len(prompts), device="cpu", save_name="trained")
        files.append(path / "estimators/trained/score_estimator.pt")
    return files


def compare(
    explainer: Explainer,
    questions: Sequence[Question],
    methods: Sequence[str | Method],
    estimators: Sequence[Path],
    folder: Path | None = None,
) -> tuple[list[RankingResult], int]:
    """Measure AT2 beside methods of this package, as `evaluate generation` does.

    Args:
        explainer: A Llama.
        questions: Questions that no estimator was trained on.
        methods: The methods.
        estimators: Trained estimators.
        folder: Where what was measured is kept.

    Returns:
        A result for each method, and how many prompts they were measured on.
    """
    _register()
    all_methods = [*methods, *(AT2(estimator=str(path)) for path in estimators)]
    results, prompt_count = evaluate_sources(explainer, questions, all_methods, ablations=2, folder=folder)
    return [_less_backward(result) for result in results], prompt_count


def _register() -> None:
    """Register the method here, not at import, so that importing this module does not add a method."""
    if AT2.__dict__.get("info") is None:
        register(
            "at2",
            paper="Cohen-Wang et al., 2025",
            needs="a Llama and an estimator that was trained for it",
            signed=True,
            passes="1 forward, and the attention weights again",
        )(AT2)


def _less_backward(result: RankingResult) -> RankingResult:
    """Take the backward pass, which AT2 does not make, off its cost."""
    if result.method.startswith("at2") and isinstance(result.passes, float):
        return replace(result, passes=result.passes - 2)
    return result


class _Package(NamedTuple):
    """Modules of the package."""

    features: Any
    estimators: Any
    trainer: Any
    tasks: Any


def _package() -> _Package:
    """Import the package."""
    try:
        return _Package(
            features=importlib.import_module("at2.attribution.features"),
            estimators=importlib.import_module("at2.attribution.score_estimators"),
            trainer=importlib.import_module("at2.attribution.trainer"),
            tasks=importlib.import_module("at2.tasks.base"),
        )
    except ImportError as error:
        raise DataError(f"the package at2 cannot be imported ({error.name}): pip install at2") from None


def _estimator(path: str, module: Any) -> Any:
    """Read a trained estimator from a file, in the precision of a model."""
    return _package().estimators.LinearScoreEstimator.load(Path(path)).to(module.dtype)


def _prompt(tasks: Any, explainer: Explainer, question: Question, max_new_tokens: int) -> Any:
    """Return a question with its answer as a task of the package, on the token ids that this package reads."""
    answered = read_answered(explainer.task_model, question.question, question.documents, max_new_tokens=max_new_tokens)
    completed = answered.completed
    ids, start = list(completed.encoding.ids), completed.prompt_tokens
    sources = prompt_sources(completed.sequenced(), completed.named_sources)

    class Prompt(tasks.AttributionTask):  # type: ignore[misc]
        """The prompt: its ablations are kept, for every unit is trained on the same."""

        input_text = ""  # the package would tokenise it: `get_tokens` returns the ids
        generation_token_start, generation_token_end = start, len(ids)
        target_token_range = start, len(ids)
        measured: Any = None

        def set_generation(self, generation: str) -> None:
            """Keep the answer as it stands."""

        def get_tokens(self, return_tensors: str | None = None) -> Any:
            from transformers import BatchEncoding

            return BatchEncoding({"input_ids": ids if return_tensors is None else torch.tensor([ids])})

        def _get_source_token_ranges(self) -> list[tuple[int, int]]:
            return [(source.tokens[0], source.tokens[-1] + 1) for source in sources]

        def get_hidden_states(self) -> list[Tensor]:
            with torch.no_grad():
                states = self.model(torch.tensor([ids]), output_hidden_states=True).hidden_states
            return [state[:, :-1] for state in states]

        @property
        def hidden_states(self) -> list[Tensor]:
            return self.get_hidden_states()  # not kept: all prompts' would not fit

        def get_masks_and_logit_probs(self, *args: Any, **options: Any) -> Any:
            if self.measured is None:
                self.measured = super().get_masks_and_logit_probs(*args, **options)
            return self.measured

    return Prompt(explainer.task_model.module, explainer.task_model.tokenizer)
