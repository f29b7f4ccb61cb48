"""The front door: texts in, attributions out."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import torch
from torch import nn

from .errors import InputError
from .inputs.chat import Prompt
from .inputs.encoder import LongText
from .inputs.encoding import Encoding
from .inputs.texts import Text
from .methods import Method
from .methods.defaults import completion_methods, named_or_default, use_for
from .models.layers import Layers
from .models.loading import load
from .models.task_model import TaskModel
from .models.wrappers import module_and_reader
from .pipeline.arguments import checked_methods
from .pipeline.cite import cite
from .pipeline.given_completion import explain_generation
from .pipeline.options import CompletionOptions, ExplainOptions, Options, compared_methods
from .pipeline.prompts import explain_generated, explain_written
from .pipeline.similarity import explain_similarity
from .pipeline.sources import explain_sources
from .pipeline.texts import explain_by_default, explain_inputs, explain_outputs
from .pipeline.writing import read_completion
from .results.attribution import Attribution
from .results.citations import Citations
from .results.collection import Attributions
from .results.comparison import Comparison
from .results.generation import GenerationAttribution
from .results.similarity import Similarity
from .results.sources import Merging, Sources
from .results.spans import PartSpec, SourceSpec
from .surgery.clone import unwrapped
from .surgery.recorders import without_recorders
from .tasks import TaskName, is_bare
from .tasks.choice import Question
from .tasks.label_names import label_names
from .tasks.positions import Position
from .tasks.sentence_embedding import Pooling
from .tasks.targets import Choice, TargetSpec
from .tasks.zero_shot import hypotheses_of

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image
    from transformers import Pipeline
    from typing_extensions import Unpack

__all__ = ["Explainer"]


@checked_methods
class Explainer:
    """Explains a model's answers token by token.

    The model is only read: its parameters, mode, hooks, configuration and device stay as they are. It is explained in
    its own precision, also inside `torch.autocast`. Threads may share an explainer, also while the model is trained
    (an optimizer step must wait, as for any forward pass), and forked workers with `torch.set_num_threads(1)`.

    Args:
        model: A `transformers` task model, plain, compiled or wrapped by PEFT; a `transformers` pipeline; or any
            module that maps token ids to logits, with `task`.
        tokenizer: Its tokenizer; for pictures and sounds its image processor or feature extractor. A pipeline has one.
        task: What the model is for, where its class does not say.
        labels: Names of its outputs instead of those in its configuration; of a zero-shot pipeline the candidates.
        pooling: How an embedding model pools its hidden states: "mean", "first" or "last"; by default as its files say.
        name: What to call the model in results.
        batch_tokens: Most tokens (padding included) in one forward pass.

    Arguments without a line in a method's description are the same in all methods:

    - `target`: The name or index of a label, a token (without a leading space it starts a word) or a choice, `ALL`
      labels, "start" or "end" (of an answer), or a list of these; None for the prediction, or each token generated.
    - `targets`: One target for each input (of a completion for each token), instead of `target`.
    - `contrast`: A label or token whose logit is subtracted.
    - `layers`: `ALL`, a layer's number (1 to L) or a list of them; None for the model's answer as it is.
    - `method`: A method's name, with settings as "name:setting=value,setting=value", or a method. By default
      `frozen-gradient` for completions and similarities, otherwise as `normxlogit methods` says.
    - `position`: The token whose label is explained (by default the first other than "O"), or the mask: its index, a
      piece of the text, or a span (start, end) of characters, for all inputs or a list with one for each.
    - `long_text`: Of a text beyond the model's length "truncate" (the default) explains the first window and notes it,
      "window" explains it whole from overlapping windows, "error" raises.
    - `token_predictions`: Also report the head's prediction at each token; by default for heads with few outputs.
    - `prompt`: A text, or a list of chat messages for the tokenizer's template.
    - `completion`: The text that follows the prompt as it is (mind the space), or its token ids.
    - `max_new_tokens`: Most tokens to generate.
    - `progress`: Whether to show a progress bar on standard error; by default on a terminal, after a second.

    One input has one result; several, in a list or another iterable, have a list of results in the same order.

    Attributes:
        model: The module that is explained, the caller's own; of a pipeline its model.
        tokenizer: Its tokenizer, image processor or feature extractor.

    Raises:
        NormXLogitError: One of `normxlogit.errors`: if a model, input, target or method is not supported or not there.
    """

    def __init__(
        self,
        model: "nn.Module | Pipeline",
        tokenizer: Any = None,
        *,
        task: TaskName | None = None,
        labels: Sequence[str] | None = None,
        pooling: Pooling | None = None,
        name: str | None = None,
        batch_tokens: int = 8192,
    ) -> None:
        module, reader = module_and_reader(model, tokenizer)
        labels = None if labels is None else label_names(labels)
        about = {"task": task, "labels": labels, "pooling": pooling, "name": name, "batch_tokens": batch_tokens}
        self.__setstate__({"model": module, "tokenizer": reader, **about, "hypotheses": hypotheses_of(model, labels)})

    def __repr__(self) -> str:
        return f"Explainer({self._model!r})"

    def __getstate__(self) -> dict[str, Any]:
        return self._arguments | {"model": without_recorders(self.model)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._arguments = state
        self.model: nn.Module = state["model"]
        self.tokenizer: Any = state["tokenizer"]
        self._model = TaskModel(**state)

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path | None = None,
        *,
        task: TaskName | None = None,
        labels: Sequence[str] | None = None,
        pooling: Pooling | None = None,
        dtype: torch.dtype | str | None = None,
        device: torch.device | str | None = None,
        trust_remote_code: bool = False,
        allow_pickle: bool = False,
        allow_missing_weights: bool = False,
        batch_tokens: int = 8192,
        **options: Any,
    ) -> "Explainer":
        """Load a model to explain.

        Args:
            name: Hub name, folder (also of a PEFT adapter) or GGUF file; None for the sentiment model in the package.
            dtype: Precision; by default the checkpoint's, but float32 for a float16 checkpoint on a CPU.
            device: Where to put the model; by default the machine's accelerator if it has one. A quantised model, or
                one with a `device_map`, stays where it is loaded.
            trust_remote_code: Allow code from the model's repository to run.
            allow_pickle: Allow weights that are not safetensors, whose loading can run code.
            allow_missing_weights: Allow a checkpoint without some weights of the model, which are then random.
            **options: Passed to transformers' `from_pretrained`.
        """
        options |= {"trust_remote_code": trust_remote_code, "allow_missing_weights": allow_missing_weights}
        model, reader = load(name, task=task, dtype=dtype, device=device, allow_pickle=allow_pickle, **options)
        about: dict[str, Any] = {"labels": labels, "pooling": pooling, "batch_tokens": batch_tokens}
        kind: TaskName | None = "embedding" if is_bare(unwrapped(model)) else None  # which no class of its own says
        return cls(model, reader, task=kind, name=str(name or "normxlogit/default"), **about)

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a string is one text, not its letters
        self, inputs: str | tuple[str, str] | Question, **options: "Unpack[ExplainOptions]"
    ) -> Attribution: ...
    @overload
    def __call__(
        self, inputs: Iterable[Text | Question | Encoding] | Mapping[str, Any], **options: "Unpack[ExplainOptions]"
    ) -> Attributions[Attribution]: ...
    def __call__(
        self,
        inputs: Any,
        *,
        target: TargetSpec = None,
        targets: Sequence[Choice] | None = None,
        contrast: Choice | None = None,
        layers: Layers = None,
        method: str | Method | None = None,
        position: Position = None,
        long_text: LongText | None = None,
        token_predictions: bool | None = None,
        progress: bool | None = None,
    ) -> Attribution | Attributions[Attribution]:
        """Explain one text or many.

        Args:
            inputs: A string, a pair (tuple of two strings), several of these in a list or a column, a row, frame or
                data set with one column of texts, what `encode` returned, a tokenizer's output or its token ids; for
                question answering the pair (question, context), for multiple choice a tuple (prompt, list of choices);
                for image and audio classification a picture or samples, or a list of them.
        """
        chosen = named_or_default(method, use_for(self._model.task))
        options = Options(target, targets, contrast, layers, chosen, position, long_text, token_predictions, progress)
        explain = explain_by_default if method is None else explain_inputs
        return explain(self._model, inputs, options)

    def compare(
        self,
        text: Any,
        methods: Sequence[str | Method] | None = None,
        *,
        target: Choice | None = None,
        contrast: Choice | None = None,
        position: Position = None,
        long_text: LongText | None = None,
    ) -> Comparison:
        """Explain one text and target by several methods, by default `normxlogit` and `frozen-gradient`."""
        about: dict[str, Any] = {"target": target, "contrast": contrast, "position": position, "long_text": long_text}
        results = [self(text, method=method, **about) for method in compared_methods(methods, target)]
        if not all(isinstance(result, Attribution) for result in results):
            raise InputError("methods are compared on one text; pass a single one")
        return Comparison(results)

    def encode(self, texts: Text | Iterable[Text], *, max_length: int | None = None) -> list[Encoding]:
        """Encode texts or pairs once, at most `max_length` tokens of each, to explain them with several methods."""
        self._model.refresh()
        return self._model.encoder(texts, max_length=max_length)

    def from_outputs(
        self,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any],
        *,
        target: TargetSpec = None,
        targets: Sequence[Choice] | None = None,
        contrast: Choice | None = None,
        layers: Layers = None,
        method: str | Method | None = None,
        position: Position = None,
        token_predictions: bool | None = None,
    ) -> Attributions[Attribution]:
        """Explain a forward pass that was run with `output_hidden_states=True`, by default by `normxlogit`.

        Only the embedding layer runs again, and at the first call the head on two of the texts. The first hidden states
        are checked to be of these ids, and the last to give these logits; those between, which only `layers` reads, and
        the `attention_mask` are trusted. Layers whose `hidden_states` do not fit the head take a pass each.
        """
        chosen = named_or_default(method, "recorded")
        options = Options(target, targets, contrast, layers, chosen, position, None, token_predictions)
        return explain_outputs(self._model, inputs, outputs, options)

    @overload
    def generate(
        self, prompt: "Prompt | Path | dict[str, Any] | NDArray[Any]", **options: Any
    ) -> GenerationAttribution: ...
    @overload
    def generate(self, prompt: Iterable[Prompt], **options: Any) -> Attributions[GenerationAttribution]: ...
    def generate(
        self,
        prompt: Any,
        *,
        max_new_tokens: int = 40,
        target: Choice | None = None,
        contrast: Choice | None = None,
        layers: Layers = None,
        method: str | Method | None = None,
        **options: Any,
    ) -> GenerationAttribution | Attributions[GenerationAttribution]:
        """Let a language model continue prompts, and explain every token that it generated.

        Args:
            prompt: Of models of speech a sound: samples, a mapping with "array" and "sampling_rate", or a file's path.
            **options: Passed to the model's `generate`, such as `do_sample` or `num_beams`; it is greedy by default.
        """
        explained = Options(target, None, contrast, layers, **completion_methods(method))
        return explain_generated(self._language_model, prompt, max_new_tokens, explained, options)

    @overload
    def explain_completion(
        self, prompt: Prompt, completion: str | Sequence[int], **options: "Unpack[CompletionOptions]"
    ) -> GenerationAttribution: ...
    @overload
    def explain_completion(
        self, prompt: Iterable[Prompt], completion: Iterable[Any], **options: "Unpack[CompletionOptions]"
    ) -> Attributions[GenerationAttribution]: ...
    def explain_completion(
        self,
        prompt: Prompt | Iterable[Prompt],
        completion: Any,
        *,
        target: Choice | None = None,
        targets: Any = None,
        contrast: Choice | None = None,
        layers: Layers = None,
        method: str | Method | None = None,
        sources: Any = None,
    ) -> GenerationAttribution | Attributions[GenerationAttribution]:
        """Explain every token of a completion, whoever wrote it: one forward pass over the whole sequence.

        Args:
            prompt: One, or several in a list; then `completion`, `targets` and `sources` are lists with one for each.
            sources: Named pieces of the prompt, such as its documents, that the result's `sources` sums to: spans
                (start, end) of its characters, in a list of messages (message, start, end).
        """
        explained = Options(target, targets, contrast, layers, **completion_methods(method))
        return explain_written(self._language_model, prompt, completion, explained, sources)

    def explain_sources(
        self,
        prompt: Prompt,
        completion: str | Sequence[int],
        *,
        sources: SourceSpec | Mapping[str, Sequence[int]] = "sentence",
        parts: PartSpec = None,
        method: str | Method | None = None,
        merge: Merging = "sum",
    ) -> Sources:
        """Explain which sources of a prompt a completion rests on, at the least cost that the method allows.

        Frozen gradient takes a backward pass for each part; perturbation methods leave out sources instead of tokens.

        Args:
            sources: "sentence", "paragraph", "message" or "word", or named spans as in `explain_completion` and regions
                of pictures, (left, top, right, bottom) in pixels, as in `GenerationAttribution.sources`.
            parts: The parts of the completion, as in `GenerationAttribution.sources`; a row of the table for each.
            merge: How a source's score comes from its tokens', as in `GenerationAttribution.sources`.
        """
        options = Options(**completion_methods(method))
        completed = read_completion(self._language_model, prompt, completion)
        return explain_sources(self._language_model, completed, options, completed.division(sources), parts, merge)

    def from_generation(
        self,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any],
        *,
        target: Choice | None = None,
        contrast: Choice | None = None,
        layers: Layers = None,
        method: str | Method | None = None,
    ) -> Attributions[GenerationAttribution]:
        """Explain what your own call of the model's `generate` returned, from its hidden states.

        Only the embedding layer runs again, and the head on the generated tokens. Call `generate` without beams, with
        `return_dict_in_generate=True, output_hidden_states=True, output_logits=True`; methods are those that read each
        token's own states: `normxlogit`, the default, `logat` and `input-norm`.
        """
        explained = Options(target, None, contrast, layers, named_or_default(method, "recorded"))
        return explain_generation(self._language_model, inputs, outputs, explained)

    def cite(
        self,
        question: str | None = None,
        documents: Any = None,
        *,
        messages: Prompt | None = None,
        answer: str | None = None,
        system: str | None = None,
        max_new_tokens: int = 200,
        method: str | Method | None = None,
        verify: int | Literal["auto"] = 0,
    ) -> Citations:
        """Cite the sentences of documents that an answer rests on: the model's own answer, or one written elsewhere.

        The default method takes one forward pass over the answer and a backward pass for each of its sentences.

        Args:
            documents: Texts by name, a list of texts, files (`pathlib.Path`) or a retriever's documents: see
                `normxlogit.inputs.documents`. With `messages` spans by name, (message, start, end) in characters.
            messages: A prompt of your own, with the documents in it, instead of `question`.
            answer: The answer to be cited; None lets the model write one.
            system: What the system message says; by default what the model's chat template puts there.
            verify: Measure for this many of the first sources what the answer loses without them, a pass each; "auto"
                measures until the others can no longer come first. The measured ones are ranked by it.
        """
        about = {"messages": messages, "answer": answer, "system": system, "max_new_tokens": max_new_tokens}
        chosen = named_or_default(method, "completions")
        return cite(self._language_model, question, documents, method=chosen, verify=verify, **about)

    @overload
    def similarity(
        self, first: Any, second: "str | Image", *, method: str | Method | None = ..., matrix: bool = ...
    ) -> Similarity: ...
    @overload
    def similarity(
        self, first: Any, second: "Iterable[str | Image]", *, method: str | Method | None = ..., matrix: bool = ...
    ) -> Attributions[Similarity]: ...
    def similarity(
        self, first: Any, second: Any, *, method: str | Method | None = None, matrix: bool = False
    ) -> Similarity | Attributions[Similarity]:
        """Explain the cosine of two texts, or of a query with each of many documents; or of a text and a picture.

        With the frozen gradient the scores of either text's tokens and its bias sum to the cosine.

        Args:
            first: A text, such as a query; for models with two towers, such as CLIP and SigLIP, a text or a picture.
            second: Another, or several such as documents, which are read in batches.
            matrix: Score pairs of tokens too; frozen gradient only. It takes a backward pass for each dimension of the
                first text's vector, and through each other text one for each token of the first.
        """
        return explain_similarity(self._model, first, second, named_or_default(method, "similarity"), matrix=matrix)

    @cached_property
    def _language_model(self) -> TaskModel:
        return self._model.generating()
