"""The front door: texts in, attributions out."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import nn

from .errors import InputError
from .inputs.chat import Prompt
from .inputs.encoder import LongText
from .inputs.encoding import Encoding
from .inputs.texts import Text
from .methods import Method, method_named
from .models.factory import as_language_model, model_summary, module_and_reader, refuse_source, task_model
from .models.layers import Layers
from .models.loading import load
from .models.positions import Position
from .models.signals import SignalModel
from .models.targets import Choice, TargetSpec
from .models.task_model import TaskModel
from .models.tasks import TaskName
from .pipeline import completion as completions
from .pipeline.cite import cite
from .pipeline.multiple_choice import Question, explain_questions
from .pipeline.options import ExplainOptions, Options, check_comparison
from .pipeline.signals import explain_signals
from .pipeline.texts import explain_outputs, explain_texts
from .results.attribution import Attribution
from .results.citations import Citations
from .results.collection import Attributions
from .results.comparison import Comparison
from .results.generation import GenerationAttribution

if TYPE_CHECKING:
    from transformers import Pipeline
    from typing_extensions import Unpack

__all__ = ["Explainer"]


class Explainer:
    """Explains a model's answers token by token.

    The model is only read: its parameters, mode, hooks, configuration and device stay as they are. One explainer may
    be used from several threads.

    Args:
        model: A `transformers` task model, plain, compiled or wrapped by PEFT; a `transformers` pipeline; or any
            module that maps token ids to logits, with `task`.
        tokenizer: Its tokenizer; for pictures and sounds its image processor or feature extractor. A pipeline has one.
        task: What the model is for, where its class does not say.
        labels: Names of its outputs, in the place of those in its configuration.
        name: What to call the model in results.
        batch_tokens: Most tokens (padding included) in one forward pass.

    Raises:
        UnsupportedModelError: If the model has no head of a supported kind.

    Example:
        >>> from normxlogit import Explainer
        >>> explainer = Explainer.from_pretrained()
        >>> explainer("The movie is mediocre, maybe even bad.").prediction.label
        'negative'
    """

    def __init__(
        self,
        model: "nn.Module | Pipeline",
        tokenizer: Any = None,
        *,
        task: TaskName | None = None,
        labels: Sequence[str] | None = None,
        name: str | None = None,
        batch_tokens: int = 8192,
    ) -> None:
        module, reader = module_and_reader(model, tokenizer)
        about = {"task": task, "labels": labels, "name": name, "batch_tokens": batch_tokens}
        self._given = {"model": module, "tokenizer": reader} | about
        self.model = task_model(module, reader, name, batch_tokens, task, labels)

    def __repr__(self) -> str:
        return f"Explainer({model_summary(self.model)})"

    def __getstate__(self) -> dict[str, Any]:
        """Keep what the explainer was made of; the model is taken apart anew where it is read back."""
        return self._given

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make the explainer anew."""
        Explainer.__init__(self, **state)

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path | None = None,
        *,
        task: TaskName | None = None,
        dtype: torch.dtype | str | None = None,
        device: torch.device | str | None = None,
        trust_remote_code: bool = False,
        allow_pickle: bool = False,
        allow_missing_weights: bool = False,
        batch_tokens: int = 8192,
        **options: Any,
    ) -> "Explainer":
        """Load a model and explain it.

        Args:
            name: Hub name or folder; None for the small sentiment model in the package.
            task: Which head to load, for checkpoints that do not say.
            dtype: Precision; by default the checkpoint's, but float32 for a float16 checkpoint on a CPU.
            device: Where to put the model.
            trust_remote_code: Allow code from the model's repository to run.
            allow_pickle: Allow weights that are not safetensors, whose loading can run code.
            allow_missing_weights: Allow a checkpoint without some weights of the model, which are then random.
            batch_tokens: Most tokens (padding included) in one forward pass.
            **options: Passed to transformers' `from_pretrained`.

        Raises:
            InputError: If there is no such model, or weights are missing.
            UnsupportedModelError: If it has no head of a supported kind.
        """
        model, tokenizer = load(
            name,
            task=task,
            dtype=dtype,
            device=device,
            trust_remote_code=trust_remote_code,
            allow_pickle=allow_pickle,
            allow_missing_weights=allow_missing_weights,
            **options,
        )
        return cls(model, tokenizer, name=str(name or "normxlogit/default"), batch_tokens=batch_tokens)

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a string is one text, not its letters
        self, inputs: str | tuple[str, str] | Question, **options: "Unpack[ExplainOptions]"
    ) -> Attribution: ...
    @overload
    def __call__(
        self,
        inputs: Iterable[Text] | Iterable[Question] | Iterable[Encoding] | Mapping[str, Any],
        **options: "Unpack[ExplainOptions]",
    ) -> Attributions[Attribution]: ...

    def __call__(
        self,
        inputs: Any,
        *,
        target: TargetSpec = None,
        targets: Sequence[Choice] | None = None,
        contrast: Choice | None = None,
        layers: Layers = None,
        method: str | Method = "normxlogit",
        position: Position = None,
        long_text: LongText | None = None,
        token_predictions: bool | None = None,
    ) -> Attribution | Attributions[Attribution]:
        """Explain one text or many.

        Args:
            inputs: A string, a pair (tuple of two strings), several of these, what `encode` returned, or a
                tokenizer's output; for question answering the pair (question, context), for multiple choice a tuple
                (prompt, list of choices); for image and audio classification a picture or samples, or a list of them.
            target: None for the prediction, `ALL` labels, a label name or index, a token string or index (language
                models), "start" or "end" (question answering; by default the start), a choice or its index (multiple
                choice), or a list of these. A token string without a leading space means the start of a word.
            targets: One target for each input, instead of `target`.
            contrast: A label or token whose logit is subtracted.
            layers: `ALL`, a layer number (1 to L) or a list of them; None for the model's answer as it is.
            method: Name of a registered method, with settings as "name:setting=value,setting=value", or a method.
            position: The token whose label is explained (token classification) or the mask (masked language models
                with several): its index, a piece of the text, or a span (start, end) of characters, for all inputs
                or a list with one for each. By default the first token with a label other than "O".
            long_text: What to do with a text beyond the model's length: "truncate" (the default) explains the first
                window and notes it, "window" reads it in overlapping windows and explains it whole, "error" raises.
            token_predictions: Also report what the head says at each token; by default for heads with few outputs.

        Returns:
            One attribution for a single input, otherwise `Attributions`, a list in the order of the inputs.

        Raises:
            InputError: If an input cannot be read.
            TargetError: If the target does not exist.
            MethodError: If the method or a setting does not exist, or it cannot give layers.
            HeadMismatchError: If the model's head cannot be applied by itself.
        """
        options = Options(
            target, targets, contrast, layers, method_named(method), position, long_text, token_predictions
        )
        refuse_source(self.model)
        if isinstance(self.model, SignalModel):
            return explain_signals(self.model, inputs, options)
        if self.model.task.kind == "choice":
            return explain_questions(self.model, inputs, options)
        return explain_texts(self.model, inputs, options)

    def compare(
        self,
        text: Any,
        methods: Sequence[str | Method] = ("normxlogit", "frozen-gradient"),
        *,
        target: Choice | None = None,
        contrast: Choice | None = None,
        position: Position = None,
        long_text: LongText | None = None,
    ) -> Comparison:
        """Explain one text by several methods, side by side.

        Args:
            text: One input, as `__call__` takes it.
            methods: What to compare.
            target: One label or token; None for the prediction.
            contrast: As in `__call__`.
            position: As in `__call__`.
            long_text: As in `__call__`.

        Returns:
            One result for each method, which say how far their rankings agree.

        Raises:
            InputError: If more than one input is given.
        """
        check_comparison(methods, target)
        results = [
            self(text, method=method, target=target, contrast=contrast, position=position, long_text=long_text)
            for method in methods
        ]
        if not all(isinstance(result, Attribution) for result in results):
            raise InputError("methods are compared on one text; pass a single one")
        return Comparison(results)

    def encode(self, texts: Text | Iterable[Text], *, max_length: int | None = None) -> list[Encoding]:
        """Encode texts once, to explain them with several methods; `__call__` takes the result.

        Args:
            texts: Strings or pairs, in any container; a bare string or pair is one text.
            max_length: Read at most this many tokens of each.

        Raises:
            InputError: If a text cannot be read.
        """
        return self.model.encoder(texts, max_length=max_length)

    def from_outputs(
        self,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any],
        *,
        target: TargetSpec = None,
        targets: Sequence[Choice] | None = None,
        contrast: Choice | None = None,
        layers: Layers = None,
        method: str | Method = "normxlogit",
        position: Position = None,
        token_predictions: bool | None = None,
    ) -> Attributions[Attribution]:
        """Explain a forward pass that was already run, without another.

        Only the embedding layer runs again, to see that the outputs are of these inputs. The first call on a model
        proves its head on two of the texts, which takes a small forward pass. Layers of the few architectures whose
        `hidden_states` cannot be brought to the head take a pass each.

        Args:
            inputs: What the model was given.
            outputs: What it returned, called with `output_hidden_states=True` in evaluation mode.
            target: As in `__call__`.
            targets: As in `__call__`.
            contrast: As in `__call__`.
            layers: As in `__call__`.
            method: As in `__call__`.
            position: As in `__call__`.
            token_predictions: As in `__call__`.

        Raises:
            InputError: If the outputs hold no hidden states or are of another shape.
            HeadMismatchError: If the hidden states and the logits do not belong together.
        """
        options = Options(target, targets, contrast, layers, method_named(method), position, None, token_predictions)
        refuse_source(self.model)
        if self.model.task.kind == "choice":
            raise InputError("multiple choice is explained from texts: pass (prompt, [choices]) to the explainer")
        return explain_outputs(self.model, inputs, outputs, options)

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
