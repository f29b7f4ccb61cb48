"""Signals of grounding: measurements of an answer that need no gold label."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...copies.clone import returning_attention
from ...copies.memory import enough_memory
from ...copies.run import run
from ...errors import InputError
from ...inputs.batching import Batch
from ...methods import ContextCite, Method
from ...model.task_model import TaskModel
from ...pipeline.citations.cite import ask
from ...pipeline.completions.ablations import Ablations, Array, score_sources
from ...pipeline.completions.completed_prompts import Completed
from ...pipeline.completions.sources import explain_sources, sources_and_parts
from ...pipeline.options import Options
from ...results.attribution import Attribution
from ...results.storage.schema import FloatArray, Number
from ...results.units.units import APART
from .cases import Case

SHARE = "the documents' share"
NATS = "nats lost without the documents"
ATTENTION = "attention on the documents"
LOG_PROBABILITY = "log-probability"
ENTROPY = "entropy, negative"
LENS = "logistic regression of each head's attention"
"""The classifier of Chuang et al. (2024)."""

PASSES = {NATS: 2.0, ATTENTION: 1.0, LOG_PROBABILITY: 1.0, ENTROPY: 1.0, LENS: 1.0}
"""Forward passes of the signals whose cost does not depend on the answer."""

PLACES_AT_ONCE = 256
"""Positions whose logits over the vocabulary are in memory at once."""


@dataclass(frozen=True)
class Figures:
    """The measured signals of a case; empty if the model gives no answer.

    Attributes:
        values: The signals, by name; higher speaks for the documents.
        passes: Forward passes that a signal took, by name, where they depend on the answer; a backward pass counts as
            two.
        sentences: What documents, rest of the prompt, the answer's own tokens, attention sinks and bias contribute to
            each sentence of the answer.
        heads: The ratio of attention on the documents of each head, layer by layer.
    """

    answer: str
    values: Mapping[str, Number]
    passes: Mapping[str, float]
    sentences: tuple[tuple[Number, ...], ...]
    heads: tuple[Number, ...]


class SignalReader:
    """Measures the signals of answers."""

    def __init__(self, model: TaskModel, method: Method, max_new_tokens: int) -> None:
        self.model, self.method, self.max_new_tokens = model, method, max_new_tokens
        self._eager = returning_attention(model.module)

    def read(self, case: Case, samples: int) -> Figures:
        """Measure the figures of a case.

        Args:
            case: The case.
            samples: Ablations of ContextCite; 0 leaves it out.

        Raises:
            InputError: If the scores of the method do not add up.
        """
        model = self.model
        try:
            completed = ask(
                model, case.question, case.documents, answer=case.answer, max_new_tokens=self.max_new_tokens
            )
        except InputError:
            return Figures("", {}, {}, (), ())
        tokens = len(completed.encoding) - completed.prompt_tokens
        scores = explain_sources(model, completed, Options(method=self.method), completed.named_sources, "sentence")
        sentences = self._contributions(scores)  # (K, 5)
        documents, prompt, answer = sentences[:, :3].sum(0).astype(np.float64)
        sources, _ = sources_and_parts(completed, completed.named_sources, None)
        document_tokens = [token for source in sources for token in source.tokens]
        log_probabilities, entropies, heads = self._measure_pass(completed, document_tokens)
        ablations = Ablations(model, completed, sources)
        log_probability_without = ablations(np.zeros((1, len(sources)), bool)).sum()
        costs = scores.diagnostics
        values = {
            SHARE: documents / (abs(documents) + abs(prompt) + abs(answer) or 1.0),
            NATS: (log_probabilities.sum() - log_probability_without) / tokens,
            LOG_PROBABILITY: log_probabilities.mean(),
            ENTROPY: -entropies.mean(),
        }
        passes = {SHARE: costs["forward_passes"] + 2 * costs["backward_passes"]}
        if heads.size:
            values[ATTENTION] = heads.mean()
        if samples:
            name = f"ContextCite, {samples} ablations"
            values[name], passes[name] = _context_cite(ablations, tokens, samples)
        return Figures(
            scores.completion or "",
            {name: float(value) for name, value in values.items()},
            {name: float(count) for name, count in passes.items()},
            tuple(map(tuple, sentences.astype(float).tolist())),
            tuple(heads.round(6).tolist()),
        )

    def _contributions(self, scores: Attribution) -> FloatArray:
        """Return what documents, rest of the prompt, answer, sinks and bias contribute to each sentence, (K, 5)."""
        if scores.bias is None:
            raise InputError(
                f"the documents' share needs scores that add up, such as frozen-gradient's, not {self.method.spec}'s"
            )
        kinds = np.array(scores.units.kind)
        documents = scores.scores[:, ~np.isin(kinds, APART)].sum(1)  # (K,)
        prompt_and_answer = [scores.scores[:, kinds == kind].sum(1) for kind in APART]  # (K,) each
        sinks = np.zeros_like(scores.bias) if scores.sink is None else scores.sink
        return np.stack([documents, *prompt_and_answer, sinks, scores.bias], 1)

    @enough_memory("read the attention probabilities of this answer")
    @torch.inference_mode()
    def _measure_pass(self, completed: Completed, document_tokens: list[int]) -> tuple[Array, Array, Array]:
        """Run the model over a prompt with its answer, and measure the logits and the attention at the answer.

        Args:
            completed: The prompt with its answer.
            document_tokens: The indices of the documents' tokens.

        Returns:
            The log-probability and the entropy of each answer token, (G,) each, and the lookback ratio of each head,
            layer by layer; none for models without attention probabilities.
        """
        model, answer_start = self.model, completed.prompt_tokens
        encoding = completed.encoding
        batch = model.batch([encoding.take(range(len(encoding) - 1))], [0])  # the last token predicts none
        model.prepare(batch)
        returned = self._trunk(batch)
        hidden = model.parts.hidden(model.module, returned)[0, answer_start - 1 :]  # (G, H)
        ids = torch.tensor(encoding.ids[answer_start:], device=hidden.device)  # (G,)
        log_probabilities, entropies = [], []
        for states, part_ids in zip(hidden.split(PLACES_AT_ONCE), ids.split(PLACES_AT_ONCE), strict=True):
            token_log_probabilities = model.head.tokens(states).float().log_softmax(-1)  # (G', V)
            log_probabilities.append(
                token_log_probabilities.gather(1, part_ids[:, None].to(token_log_probabilities.device))[:, 0]
            )
            entropies.append(-(token_log_probabilities.exp() * token_log_probabilities).sum(-1))
        attentions = getattr(returned, "attentions", None) or ()
        ratios = [
            _lookback(layer[0, :, answer_start - 1 :].float(), document_tokens, answer_start)  # (heads,)
            for layer in attentions
        ]
        return (
            torch.cat(log_probabilities).double().cpu().numpy(),
            torch.cat(entropies).double().cpu().numpy(),
            torch.cat(ratios).double().cpu().numpy() if ratios else np.zeros(0),
        )

    def _trunk(self, batch: Batch) -> Any:
        trunk = self.model.parts.trunk_site
        inputs = {**batch.inputs, "output_attentions": True, "use_cache": False}
        return run(self._eager, inputs, stop=trunk).last(trunk)


def _lookback(attention: Tensor, document_tokens: list[int], answer_start: int) -> Tensor:
    """Return each head's ratio of attention on the documents, averaged over the answer's tokens (Lookback Lens).

    A(documents) / (A(documents) + A(answer)) with A the mean probability of a token of the documents, or of the answer
    so far (Chuang et al., 2024, equations 1 to 3, with the whole prompt as the context). The ratio of the first token,
    before which there is no answer, is 1.

    Args:
        attention: Attention probabilities at the positions that predict the answer, (heads, G, T), without the last
            token.
        document_tokens: Tokens of the documents.
        answer_start: The answer's first token.
    """
    on_documents = attention[:, :, document_tokens].mean(-1)  # (heads, G)
    so_far = torch.arange(attention.shape[1], device=attention.device).clamp(min=1)  # (G,)
    on_answer = attention[:, :, answer_start:].sum(-1) / so_far  # (heads, G)
    return (on_documents / (on_documents + on_answer)).mean(-1)


def _context_cite(ablations: Ablations, tokens: int, samples: int) -> tuple[float, float]:
    """Return the sum of the sources' ContextCite scores for each token of an answer, and the passes that it took.

    Passes are those of distinct ablations: few sources have few subsets.
    """
    scored = score_sources(ContextCite(samples), ablations, np.ones((1, tokens)), lambda prior: (np.zeros((0, 0)), {}))
    return float(scored.table.sum()) / tokens, scored.passes["forward_passes"]
