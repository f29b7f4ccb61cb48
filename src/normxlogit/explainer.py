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
from .methods.defaults import default_methods, named_or_default, use_for
from .models.layers import Layers
from .models.loading import load
from .models.task_model import TaskModel
from .models.wrappers import module_and_reader
from .pipeline.arguments import checked_arguments
from .pipeline.cite import cite
from .pipeline.given_completion import explain_generation
from .pipeline.options import CompletionOptions, ExplainOptions, Options, check_comparison
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
    import numpy.typing as npt
    from PIL.Image import Image
    from transformers import Pipeline
    from typing_extensions import Unpack

__all__ = ["Explainer"]


class Explainer:
    """Explains a model's answers token by token.

    The model is only read: its parameters, mode, hooks, configuration and device stay as they are. It is explained in
    its own precision, also inside `torch.autocast`. One explainer may be used from several threads and in forked
    workers (with `torch.set_num_threads(1)` there, as torch's own do: OpenMP does not survive a fork), also while the
    model is trained; only a step of the optimizer, which changes weights, must wait for calls that run, as it must
    for any other forward pass.

    Args:
        model: A `transformers` task model, plain, compiled or wrapped by PEFT; a `transformers` pipeline; or any
            module that maps token ids to logits, with `task`.
        tokenizer: Its tokenizer; for pictures and sounds its image processor or feature extractor. A pipeline has one.
        task: What the model is for, where its class does not say.
        labels: Names of its outputs, in the place of those in its configuration; for a zero-shot pipeline the
            candidate labels.
        pooling: How an embedding model makes one vector of its tokens' states: "mean", "first" or "last"; by default as
            its sentence-transformers files say.
        name: What to call the model in results.
        batch_tokens: Most tokens (padding included) in one forward pass.

    Several methods take these arguments, which are the same everywhere:

    - `target`: What is explained. None for the prediction (of a completion each token itself), `ALL` labels, a label's
      name or index, a token or its index (language models; without a leading space a token starts a word), "start" or
      "end" (question answering; by default the start), a choice or its index (multiple choice), or a list of these.
    - `targets`: One target for each input (of a completion for each token), instead of `target`.
    - `contrast`: A label or token whose logit is subtracted.
    - `layers`: `ALL`, a layer's number (1 to L) or a list of them; None for the model's answer as it is.
    - `method`: A method's name, with settings as "name:setting=value,setting=value", or a method.
    - `position`: The token whose label is explained (token classification), or the mask (masked language models with
      several): its index, a piece of the text, or a span (start, end) of characters, for all inputs or a list with one
      for each. By default the first token with a label other than "O".
    - `long_text`: What to do with a text beyond the model's length: "truncate" (the default) explains the first window
      and notes it, "window" reads it in overlapping windows and explains it whole, "error" raises.
    - `token_predictions`: Also report the head's prediction at each token; by default for heads with few outputs.
    - `prompt`: A text, or a list of chat messages for the tokenizer's template.
    - `completion`: The text that follows the prompt as it is (mind the space), or its token ids.

    Attributes:
        model: The module that is explained, the caller's own; of a pipeline its model.
        tokenizer: Its tokenizer, image processor or feature extractor.

    Raises:
        UnsupportedModelError: If the model has no head of a supported kind, is not of the kind that a method reads, or
            the attribution method does not work on it.
        InputError: If an input cannot be read, is empty, or longer than the model reads.
        TargetError: If a target does not exist.
        MethodError: If the attribution method or a setting does not exist, or cannot give what is asked of it.
        HeadMismatchError: If the model's head cannot be applied by itself.

    Example:
        >>> from normxlogit import Explainer
        >>> explainer = Explainer.from_pretrained()
        >>> explainer("The movie is mediocre, maybe even bad.").prediction.label
        'negative'
    """

    @checked_arguments
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
        """Keep what the explainer was made of; the model is taken apart anew where it is read back."""
        return self._arguments | {"model": without_recorders(self.model)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the model apart."""
        self._arguments = state
        self.model: nn.Module = state["model"]
        self.tokenizer: Any = state["tokenizer"]
        self._model = TaskModel(**state)

    @classmethod
    @checked_arguments
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
        """Load a model and explain it.

        Args:
            name: Hub name or folder, also of an adapter that PEFT saved, or a GGUF file; None for the small sentiment
                model in the package.
            task: Which head to load, for checkpoints that do not say.
            dtype: Precision; by default the checkpoint's, but float32 for a float16 checkpoint on a CPU.
            device: Where to put the model; by default, as on the command line, the accelerator of the machine if it has
                one. A quantised model, or one with a `device_map`, stays where it is loaded.
            trust_remote_code: Allow code from the model's repository to run.
            allow_pickle: Allow weights that are not safetensors, whose loading can run code.
            allow_missing_weights: Allow a checkpoint without some weights of the model, which are then random.
            labels: As in the class, like `pooling` and `batch_tokens`.
            **options: Passed to transformers' `from_pretrained`.

        Raises:
            InputError: If there is no such model, or weights are missing.
            UnsupportedModelError: If it has no head of a supported kind.
        """
        allowed = {
            "trust_remote_code": trust_remote_code,
            "allow_pickle": allow_pickle,
            "allow_missing_weights": allow_missing_weights,
        }
        model, reader = load(name, task=task, dtype=dtype, device=device, **allowed, **options)
        about: dict[str, Any] = {"labels": labels, "pooling": pooling, "batch_tokens": batch_tokens}
        kind: TaskName | None = "embedding" if is_bare(unwrapped(model)) else None  # which no class of its own says
        return cls(model, reader, task=kind, name=str(name or "normxlogit/default"), **about)

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

    @checked_arguments
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
        """Explain one text or many; the arguments without a line here are described in the class.

        Args:
            inputs: A string, a pair (tuple of two strings), several of these in a list or a column, a row, frame or
                data set with one column of texts, what `encode` returned, a tokenizer's output or its token ids; for
                question answering the pair (question, context), for multiple choice a tuple (prompt, list of choices);
                for image and audio classification a picture or samples, or a list of them.
            method: By default `normxlogit`; of language models `frozen-gradient`, or `normxlogit` where that fails.
            progress: Whether to show a progress bar on standard error; by default on a terminal, after a second.

        Returns:
            One attribution for a single input, otherwise `Attributions`, a list in the order of the inputs.
        """
        chosen = named_or_default(method, use_for(self._model.task))
        options = Options(target, targets, contrast, layers, chosen, position, long_text, token_predictions, progress)
        if method is None:
            return explain_by_default(self._model, inputs, options)
        return explain_inputs(self._model, inputs, options)

    @checked_arguments
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
        """Explain one text by several methods, by default `normxlogit` and `frozen-gradient`, side by side.

        The other arguments are described in the class; at most one target is compared.

        Raises:
            InputError: If more than one input is given.
        """
        methods = default_methods("shown") if methods is None else methods
        check_comparison(methods, target)
        about: dict[str, Any] = {"target": target, "contrast": contrast, "position": position, "long_text": long_text}
        results = [self(text, method=method, **about) for method in methods]
        if not all(isinstance(result, Attribution) for result in results):
            raise InputError("methods are compared on one text; pass a single one")
        return Comparison(results)

    @checked_arguments
    def encode(self, texts: Text | Iterable[Text], *, max_length: int | None = None) -> list[Encoding]:
        """Encode texts once, to explain them with several methods; a call takes the result.

        Args:
            texts: Strings or pairs, in any container; a bare string or pair is one text.
            max_length: Read at most this many tokens of each.

        Raises:
            InputError: If a text cannot be read.
        """
        self._model.refresh()
        return self._model.encoder(texts, max_length=max_length)

    @checked_arguments
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
        """Explain a forward pass that was already run, by default by `normxlogit`, which needs no other.

        Only the embedding layer runs again. Checked are the number of hidden states, the first (it is of these ids) and
        the last (the head makes these logits of it). The states between, which only `layers` reads, and the
        `attention_mask` cannot be checked without another pass and are trusted. The first call proves the head on two
        of the texts, a small pass. Layers of architectures whose `hidden_states` cannot be brought to the head take a
        pass each.

        Args:
            inputs: What the model was given.
            outputs: What it returned, called with `output_hidden_states=True` in evaluation mode. The other arguments
                are described in the class.

        Raises:
            InputError: If the outputs hold no hidden states or are of another shape.
            HeadMismatchError: If the hidden states and the logits do not belong together.
        """
        chosen = named_or_default(method, "recorded")
        options = Options(target, targets, contrast, layers, chosen, position, None, token_predictions)
        return explain_outputs(self._model, inputs, outputs, options)

    @overload
    def generate(
        self, prompt: "Prompt | Path | Mapping[str, Any] | npt.NDArray[Any]", **options: Any
    ) -> GenerationAttribution: ...
    @overload
    def generate(self, prompt: Iterable[Prompt], **options: Any) -> Attributions[GenerationAttribution]: ...

    @checked_arguments
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
            prompt: One, or several in a list, which are read in batches; each has the tokens and scores that it has
                alone. For models of speech a sound, or several: samples, a mapping with "array" and "sampling_rate", or
                the path of a file.
            max_new_tokens: Most tokens to generate.
            method: By default `frozen-gradient`. The arguments without a line here are described in the class.
            **options: Passed to the model's `generate`, such as `do_sample` or `num_beams`; it is greedy by default.
                With any but a few of them, several prompts are continued one after the other.

        Returns:
            One result, or a list in the order of the prompts.
        """
        explained = Options(target, None, contrast, layers, named_or_default(method, "completions"))
        return explain_generated(self._language_model, prompt, max_new_tokens, explained, options)

    @overload
    def explain_completion(  # type: ignore[overload-overlap]
        self, prompt: Prompt, completion: str | Sequence[int], **options: "Unpack[CompletionOptions]"
    ) -> GenerationAttribution: ...
    @overload
    def explain_completion(
        self,
        prompt: Iterable[Prompt],
        completion: Iterable[str] | Iterable[Sequence[int]],
        **options: "Unpack[CompletionOptions]",
    ) -> Attributions[GenerationAttribution]: ...

    @checked_arguments
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
            prompt: One, or several in a list, which are read in batches. Then `completion`, and `targets` and `sources`
                where they are given, are lists with one for each.
            completion: Its text or token ids. The arguments without a line here are described in the class.
            method: By default `frozen-gradient`, with a backward pass for each generated token.
            sources: Named pieces of the prompt, such as its documents, that the result's `sources` sums to: spans
                (start, end) of its characters, in a list of messages (message, start, end).

        Returns:
            One result, or a list in the order of the prompts.
        """
        explained = Options(target, targets, contrast, layers, named_or_default(method, "completions"))
        return explain_written(self._language_model, prompt, completion, explained, sources)

    @checked_arguments
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

        The frozen gradient takes a backward pass for each part of the completion, not for each token. Perturbation
        methods leave out sources instead of tokens: `occlusion` one at a time, `context-cite` random ones.

        Args:
            prompt: A text or messages, as everywhere, like `completion`.
            sources: "sentence", "paragraph", "message" or "word", or named spans as in `explain_completion`.
            parts: The parts of the completion, as in `GenerationAttribution.sources`; a row of the table for each.
            method: By default `frozen-gradient`.
            merge: How a source's score comes from its tokens', as in `GenerationAttribution.sources`.
        """
        model, options = self._language_model, Options(method=named_or_default(method, "completions"))
        completed = read_completion(model, prompt, completion)
        if not isinstance(sources, str):
            completed = completed.with_sources(sources)
            sources = completed.named_sources
        return explain_sources(model, completed, options, sources, parts, merge)

    @checked_arguments
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
        """Explain what your own call of the model's `generate` returned, from the states that it left.

        Only the embedding layer runs again, and the head on the generated tokens. Call `generate` with
        `return_dict_in_generate=True, output_hidden_states=True, output_logits=True`.

        Args:
            inputs: What `generate` was given, padded on the left or not.
            outputs: What it returned. The arguments without a line here are described in the class.
            method: One that reads each token's own states: `normxlogit`, the default, `logat` or `input-norm`.

        Raises:
            InputError: If the outputs lack something, are of several beams, or are not of these inputs.
            MethodError: If the method needs a pass of its own.
        """
        explained = Options(target, None, contrast, layers, named_or_default(method, "recorded"))
        return explain_generation(self._language_model, inputs, outputs, explained)

    @checked_arguments
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

        The sources are the documents' sentences. The default method takes one forward pass over the finished answer
        and one backward pass for each of its sentences. Of an answer that was written elsewhere, the citations say what
        this model finds it to rest on when it reads it.

        Args:
            question: The question.
            documents: Texts by name, a list of texts, files (`pathlib.Path`) or a retriever's documents: see
                `normxlogit.inputs.documents`. With `messages` spans by name, (message, start, end) in characters.
            messages: A prompt of your own, with the documents in it, instead of `question`: a list of chat messages, or
                a text.
            answer: The answer to be cited; None lets the model write one.
            system: What the system message says; by default what the model's chat template puts there.
            max_new_tokens: Most tokens to generate.
            method: By default `frozen-gradient`.
            verify: Measure for this many of the first sources what the answer loses without them, a pass each; "auto"
                measures until the others can no longer come first. The measured ones are ranked by it.

        Example:
            >>> answer = explainer.cite("Who won?", {"news.txt": "It rained. The home team won."})  # doctest: +SKIP
            >>> answer.citations()[0].text  # doctest: +SKIP
            'The home team won.'
        """
        chosen = named_or_default(method, "completions")
        about: dict[str, Any] = {"system": system, "max_new_tokens": max_new_tokens, "verify": verify}
        about |= {"messages": messages, "answer": answer}
        return cite(self._language_model, question, documents, method=chosen, **about)

    @overload
    def similarity(
        self, first: Any, second: "str | Image", *, method: str | Method | None = ..., matrix: bool = ...
    ) -> Similarity: ...
    @overload
    def similarity(
        self,
        first: Any,
        second: "Iterable[str] | Iterable[Image]",
        *,
        method: str | Method | None = ...,
        matrix: bool = ...,
    ) -> Attributions[Similarity]: ...

    @checked_arguments
    def similarity(
        self,
        first: Any,
        second: Any,
        *,
        method: str | Method | None = None,
        matrix: bool = False,
    ) -> Similarity | Attributions[Similarity]:
        """Explain the cosine of two texts, or of a query with each of many documents; or of a text and a picture.

        With the frozen gradient the scores of either text's tokens and its bias sum to the cosine, from one forward and
        one backward pass through each text.

        Args:
            first: A text, such as a query; for models with two towers, such as CLIP and SigLIP, a text or a picture.
            second: Another, or several such as documents, which are read in batches.
            method: By default `frozen-gradient`; perturbation methods take tokens out of one text while the other
                stays.
            matrix: Score pairs of tokens too; frozen gradient only. It takes a backward pass through the first text for
                each dimension of its vector, and through each other text one for each token of the first.

        Returns:
            One result, or a list in the order of the documents.

        Example:
            >>> result = explainer.similarity("Who built the pool?", "It was built by Karl Brenner.")  # doctest: +SKIP
            >>> result.cosine, result.top(3)  # doctest: +SKIP
        """
        return explain_similarity(self._model, first, second, named_or_default(method, "similarity"), matrix=matrix)

    @cached_property
    def _language_model(self) -> TaskModel:
        return self._model.generating()
