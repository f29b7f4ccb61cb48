"""What an explainer does with language models: let them write, and explain what they wrote."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from ..inputs.chat import Prompt
from ..methods import Method, method_named
from ..models.factory import as_language_model
from ..models.layers import Layers
from ..models.targets import Choice
from ..models.task_model import TaskModel
from ..results.citations import Citations
from ..results.generation import GenerationAttribution
from . import completion as completions
from .cite import cite
from .options import Options

__all__ = ["LanguageMixin"]


class LanguageMixin:
    """The part of an explainer that is about written text.

    Attributes:
        model: The model, taken apart.
    """

    model: TaskModel

    def generate(
        self,
        prompt: Prompt,
        *,
        max_new_tokens: int = 40,
        target: Choice | None = None,
        contrast: Choice | None = None,
        layers: Layers = None,
        method: str | Method | None = None,
        **options: Any,
    ) -> GenerationAttribution:
        """Let a causal language model continue a prompt, and explain every token that it wrote.

        Args:
            prompt: A text, or a list of chat messages for the tokenizer's template.
            max_new_tokens: Most tokens to write.
            target: As in `explain_completion`.
            contrast: As in `explain_completion`.
            layers: As in `__call__`.
            method: As in `explain_completion`.
            **options: Passed to the model's `generate`, such as `do_sample` or `num_beams`; it is greedy by default.

        Raises:
            InputError: If the prompt is empty, leaves no room, or the tokenizer has no template for messages.
            TargetError: If a token asked for does not exist.
            UnsupportedModelError: If the model is no causal language model.
        """
        wanted = Options(target, None, contrast, layers, self._completion_method(method))
        sequence = completions.generate(self._language_model, prompt, max_new_tokens, options)
        return completions.explain_completion(self._language_model, sequence, wanted)

    def explain_completion(
        self,
        prompt: Prompt,
        completion: str | Sequence[int],
        *,
        target: Choice | None = None,
        targets: Sequence[Choice] | None = None,
        contrast: Choice | None = None,
        layers: Layers = None,
        method: str | Method | None = None,
        sources: Mapping[str, Sequence[int]] | None = None,
    ) -> GenerationAttribution:
        """Explain every token of a completion, whoever wrote it: one forward pass over the whole sequence.

        Args:
            prompt: A text, or a list of chat messages for the tokenizer's template.
            completion: The text that follows as it is (mind the space), or its token ids.
            target: A token or index that is explained at every place; None explains each token itself.
            targets: A token or index for each place.
            contrast: A token whose logit is subtracted.
            layers: As in `__call__`.
            method: As in `__call__`; by default `frozen-gradient`, which goes back once for each generated token, and
                `normxlogit` for encoder-decoder models.
            sources: Named pieces of the prompt, such as its documents, that the result's `sources` sums to: spans
                (start, end) of its characters, in a list of messages (message, start, end).

        Raises:
            InputError: If prompt or completion is empty, both are longer than the model reads, or a source is no span.
            TargetError: If a token asked for does not exist.
            UnsupportedModelError: If the model is no causal language model.
        """
        options = Options(target, targets, contrast, layers, self._completion_method(method))
        sequence = completions.read_completion(self._language_model, prompt, completion).naming(sources)
        return completions.explain_completion(self._language_model, sequence, options)

    def cite(
        self,
        question: str,
        documents: Mapping[str, str] | Sequence[str],
        *,
        system: str | None = None,
        max_new_tokens: int = 200,
        method: str | Method = "frozen-gradient",
        verify: int = 0,
    ) -> Citations:
        """Let a causal language model answer a question from documents, and cite the sentences its answer rests on.

        The sources are the documents' sentences. The default method takes one forward pass over the finished answer
        and one backward pass for each of its sentences.

        Args:
            question: The question.
            documents: Texts by name, or a list of texts.
            system: What the system message says; by default what the model's chat template puts there.
            max_new_tokens: Most tokens to write.
            method: As in `__call__`; `occlusion` leaves out one source at a time, `lime` is ContextCite's estimator.
            verify: Measure for this many of the first sources what the answer loses without them, a pass each.

        Raises:
            InputError: If there is no question or document, or they leave no room for an answer.
            UnsupportedModelError: If the model is no causal language model, or the method does not work on it.

        Example:
            >>> answer = explainer.cite("Who won?", {"news.txt": "It rained. The home team won."})  # doctest: +SKIP
            >>> answer.citations()[0].text  # doctest: +SKIP
            'The home team won.'
        """
        return cite(
            self._language_model,
            question,
            documents,
            method=method_named(method),
            system=system,
            max_new_tokens=max_new_tokens,
            verify=verify,
        )

    def _completion_method(self, method: str | Method | None) -> Method:
        return completions.default_method(self._language_model) if method is None else method_named(method)

    @cached_property
    def _language_model(self) -> TaskModel:
        return as_language_model(self.model)
