"""`Explainer`, the entry point of the library."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints, overload

import numpy.typing as npt
import torch
from torch import nn
from typing_extensions import Unpack

from .copies.clone import unwrapped, without_recording_hooks
from .copies.normalisers import Outputs
from .errors import InputError
from .extending import named_in, references, wings
from .inputs.chat import Prompt
from .inputs.encoding import Encoding
from .inputs.texts import Question, Text, repeatable, split_texts
from .leave_out.picking import Together
from .loading.load import load, task_of_loaded
from .loading.wrappers import wrapped_state
from .methods import Method, method_named
from .model.task_model import TaskModel
from .pipeline import keywords
from .pipeline.arguments import checked_arguments, checked_methods
from .pipeline.calls import add_calls, left_to_calls
from .pipeline.completions.prompts import explain_generated, explain_given
from .pipeline.extra_inputs import forward_settings
from .pipeline.options import Options, compared_methods
from .pipeline.streams import CHUNK, checked_stream, explained_stream, kept_stream
from .pipeline.texts import explain_by_default, explain_inputs
from .results.attribution import Attribution
from .results.base import Record
from .results.collection import Attributions
from .results.verification import Removal
from .tasks import TaskName
from .tasks.base import Pooling
from .tasks.seq2seq import DECODER_SETTINGS

if TYPE_CHECKING:
    from transformers import Pipeline

    # A stub: what the calls of this package's extensions take and return.
    from .calls import Calls  # pyright: ignore[reportMissingModuleSource]
else:
    Calls = object


@checked_methods
class Explainer(Calls):
    """Explains a model's answers token by token.

    The model is only read: its parameters, mode, hooks, configuration and device stay as they are. It is explained in
    its own precision, also inside `torch.autocast`. Threads may share an explainer, also while the model is trained
    (an optimizer step must wait, as for any forward pass), and forked workers with `torch.set_num_threads(1)`.

    Args:
        model: A `transformers` task model, plain, compiled or wrapped by PEFT; a `transformers` pipeline; or any
            module that maps token ids to logits, with `task`. The module is the attribute `model`, the caller's own.
        tokenizer: Its tokenizer; for pictures and sounds its image processor or feature extractor. A pipeline has one.
        task: The task of the model, if its class does not tell it.
        labels: Names of its outputs instead of those in its configuration; of a zero-shot pipeline the candidates.
        pooling: How an embedding model pools its hidden states: "mean", "first" or "last"; by default as its files say.
        name: The name of the model in results.
        batch_tokens: Most tokens (padding included) in one forward pass, a quarter of it in one with gradients; longer
            texts are backpropagated with gradient checkpointing. By default 4,096, on a GPU 16,384.
        outputs: What a module of yours returns: "logits", "probabilities", "log-probabilities" or "values"; by default
            found out by a few short inputs.
        output_field: The name or index of its answer among several that it returns.
        input_names: Its names for the tokenizer's outputs, as {"input_ids": "sent_id", "attention_mask": "mask"}.
        extra_inputs: What it needs beside the text, by name: the values of a text that is given none of its own. They
            stay as they are when words are removed.

    Raises:
        UnsupportedModelError: If the model has no head of a supported kind, or `task` does not fit it.

    Examples:
        >>> Explainer.from_pretrained()("The movie is mediocre, maybe even bad.").prediction.label
        'negative'
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
        batch_tokens: int | None = None,
        outputs: Outputs | None = None,
        output_field: str | int | None = None,
        input_names: Mapping[str, str] | None = None,
        extra_inputs: Mapping[str, Any] | None = None,
    ) -> None:
        settings = {
            "task": task,
            "pooling": pooling,
            "name": name,
            "batch_tokens": batch_tokens,
            "forward": forward_settings(outputs, output_field, input_names, extra_inputs),
        }
        # The same way as from a pickle, which keeps the arguments alone, and not copies and locks.
        self.__setstate__(wrapped_state(model, tokenizer, labels) | settings)

    def __repr__(self) -> str:
        return f"Explainer({self._model!r})"

    def __getstate__(self) -> dict[str, Any]:
        return self._arguments | {"model": without_recording_hooks(self.model)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set up a new or unpickled explainer from the arguments of `TaskModel`, by name."""
        # Gives the class the methods that other packages register, unless an explainer before this one has: their
        # modules are imported here, and not by importing this package.
        add_calls(Explainer, references("calls"))
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
        batch_tokens: int | None = None,
        **options: Any,
    ) -> "Explainer":
        """Load a model to explain.

        Args:
            name: Hub name, folder (also of a PEFT adapter) or GGUF file; None for the sentiment model in the package.
            task: Which head to load, if no file says.
            labels: As in the class.
            pooling: As in the class.
            dtype: Precision; by default the checkpoint's, but float32 for a float16 checkpoint on a CPU.
            device: Where to put the model; by default the accelerator, if it is not quantised and has no `device_map`.
            trust_remote_code: Allow code from the model's repository to run.
            allow_pickle: Allow weights that are not safetensors, whose loading can run code.
            allow_missing_weights: Allow a checkpoint without some weights of the model, which are then random.
            batch_tokens: As in the class.
            **options: Passed to transformers' `from_pretrained`.

        Raises:
            InputError: If there is no such model, its files are broken, or weights or the tokenizer are missing.
            UnsupportedModelError: If it has no head of a supported kind.
        """
        model, reader = load(
            name,
            task=task,
            dtype=dtype,
            device=device,
            trust_remote_code=trust_remote_code,
            allow_pickle=allow_pickle,
            allow_missing_weights=allow_missing_weights,
            **options,
        )
        return cls(
            model,
            reader,
            task=task_of_loaded(unwrapped(model), task),
            name=str(name or "normxlogit/default"),
            labels=labels,
            pooling=pooling,
            batch_tokens=batch_tokens,
        )

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a string is one text, not its letters
        self, inputs: Prompt | tuple[str, str] | Question, **options: Unpack[keywords.Explain]
    ) -> Attribution: ...
    @overload
    def __call__(
        self, inputs: Any, *, is_split_into_words: Literal[True], **options: Unpack[keywords.Explain]
    ) -> Any: ...
    @overload
    def __call__(
        self, inputs: Iterable[Text | Question | Encoding] | Mapping[str, Any], **options: Unpack[keywords.Explain]
    ) -> Attributions[Attribution]: ...
    @left_to_calls
    @checked_arguments()
    def __call__(
        self, inputs: Any, *, is_split_into_words: bool = False, **options: Unpack[keywords.Explain]
    ) -> Attribution | Attributions[Attribution]:
        """Explain one text or many.

        Args:
            inputs: A text, a pair (tuple of two), or several in a list, a column or a row, frame or data set with one
                column of texts; what `encode` returned, a tokenizer's output or its token ids; for question answering
                (question, context), for multiple choice (prompt, list of choices), both tuples; chat messages, of
                one chat or of several in a list; for image and audio classification a picture or samples, or several.
            is_split_into_words: Whether texts are lists of words, as tokenizers call it: a list of strings is then one
                text, a tuple of two lists a pair, a list of lists several texts. A column that is called "tokens" is
                read so by itself.
            **options: What is explained and how, see `keywords.Explain`.

        Returns:
            The attribution of a single input, otherwise a list in the order of the inputs.

        Raises:
            InputError: If an input cannot be read, is empty, or does not fit into memory or the model.
            TargetError: If a target does not exist.
            MethodError: If the method or a setting does not exist, or gives no scores for `layers`.
            UnsupportedModelError: If the method does not work on the model, or a proof fails (`HeadMismatchError`).
        """
        inputs = split_texts(inputs) if is_split_into_words else inputs
        method = options.get("method")
        if method is None:
            return explain_by_default(self._model, inputs, options).results
        return explain_inputs(self._model, inputs, Options.of(options, method_named(method)))

    def stream(
        self,
        inputs: Iterable[Any],
        *,
        chunk_size: int = CHUNK,
        is_split_into_words: bool = False,
        **options: Unpack[keywords.Explain],
    ) -> Iterator[Attribution]:
        """Explain any number of inputs in constant memory: an iterator in, an iterator out.

        Inputs are read when results are asked for, some at a time, and results that you do not keep are forgotten. The
        scores are those of a call with a list. For files, and to go on after a stop, there is `attribute`.

        Args:
            inputs: An iterable of inputs, each as in a call: a generator, an open file, a column.
            chunk_size: How many are read and explained at a time; that many results are in memory.
            is_split_into_words: Whether texts are lists of words, as in a call.
            **options: What is explained and how, see `keywords.Explain`; without `targets`. With on_error="keep" an
                `Unexplained` stands in the place of an input that cannot be explained.

        Returns:
            An iterator over the attributions, in the order of the inputs.

        Raises:
            InputError: If `inputs` is a single input or a table, or a setting is wrong.
            NormXLogitError: As a call does, when the results of these inputs are asked for.

        Examples:
            >>> for a in explainer.stream(line.rstrip() for line in open("reviews.txt")):  # doctest: +SKIP
            ...     print(a.prediction.label, a.top(3))
        """
        iterator = checked_stream(inputs, chunk_size, options.pop("targets", None))
        keeps_errors = options.pop("on_error", None) == "keep"
        # Each chunk would show a progress of its own.
        explain = partial(self, is_split_into_words=is_split_into_words, **{"progress": False, **options})
        if keeps_errors:
            return kept_stream(explain, iterator, chunk_size)
        return explained_stream(explain, iterator, chunk_size)

    @overload
    def compare(  # type: ignore[overload-overlap]  # a string is one text, not its letters
        self,
        inputs: Prompt | tuple[str, str] | Question,
        methods: Sequence[str | Method] | None = None,
        **options: Unpack[keywords.Compare],
    ) -> Attributions[Attribution]: ...
    @overload
    def compare(
        self,
        inputs: Any,
        methods: Sequence[str | Method] | None = None,
        *,
        is_split_into_words: Literal[True],
        **options: Unpack[keywords.Compare],
    ) -> Any: ...
    @overload
    def compare(
        self,
        inputs: Iterable[Text | Question | Encoding] | Mapping[str, Any],
        methods: Sequence[str | Method] | None = None,
        **options: Unpack[keywords.Compare],
    ) -> list[Attributions[Attribution]]: ...
    def compare(
        self,
        inputs: Any,
        methods: Sequence[str | Method] | None = None,
        *,
        is_split_into_words: bool = False,
        **options: Unpack[keywords.Compare],
    ) -> Attributions[Attribution] | list[Attributions[Attribution]]:
        """Explain an input and target by several methods.

        Args:
            inputs: One input or several, as in a call.
            methods: Names or methods; by default `frozen-gradient` and `normxlogit`.
            is_split_into_words: Whether texts are lists of words, as in a call.
            **options: What is explained, see `keywords.Compare`.

        Returns:
            The results of a single input, whose `agreement` compares the rankings; otherwise a list of them in the
            order of the inputs.

        Raises:
            InputError: If an input cannot be read.
            TargetError: If the target does not exist, or is a list.
            MethodError: If there is no method, or one does not exist; `UnsupportedModelError` where one does not work.
        """
        method_list = compared_methods(methods, options.get("target"))
        inputs = split_texts(inputs) if is_split_into_words else repeatable(inputs)  # each method reads them
        results = [self(inputs, method=method, **options) for method in method_list]
        if isinstance(results[0], Attribution):  # of a single input
            return Attributions(results)
        # A list for each method becomes one for each input.
        return [Attributions(input_results) for input_results in zip(*results, strict=True)]

    @checked_arguments(never_passed=())  # they are passed on to calls of ours, which check them
    def without(
        self,
        inputs: Any,
        units: Any,
        *,
        completion: str | Sequence[int] | None = None,
        sources: Any = None,
        **options: Any,
    ) -> Removal:
        """Answer what the model would without some of what it reads: without these words, spans, sources or regions.

        Args:
            inputs: A text, a pair, a picture..., as in a call; a prompt with `completion`.
            units: Words, spans or names, or a list of them, as `verify` takes them.
            completion: The completion whose log-probability is measured, in nats.
            sources: Sources of the prompt, as in `explain_completion`.
            **options: Others of the same call, such as `target`; or those of a call that an extension adds, which its
                documentation names.

        Returns:
            The answer without all of them: `prediction`, `value` (of the target, its probability or value, or nats),
            and whether the prediction `changed`.

        Raises:
            InputError: If there is no such unit, or there are several inputs.

        Examples:
            >>> Explainer.from_pretrained().without("It is mediocre, maybe even bad.", ["mediocre", "bad"]).changed
            True
        """
        if refused := [name for name in ("method", "verify") if name in options]:
            raise InputError(f"without has no argument {refused[0]!r}: the model is asked, and nothing is scored")
        options |= {"completion": completion, "sources": sources}
        passed = {name: value for name, value in options.items() if value is not None}
        explain = getattr(self, _call_with(passed))
        result = explain(inputs, method="random", verify=Together.of(units), **passed)  # no scores are asked for
        if not isinstance(result, Record):  # a collection
            raise InputError("without() takes one input, not a list")
        scored = result.scored
        if scored.verified is None:
            raise InputError(scored.notes[-1])  # which says why nothing was left out
        return scored.verified.together

    def encode(
        self, texts: Text | Iterable[Any], *, is_split_into_words: bool = False, max_length: int | None = None
    ) -> list[Encoding]:
        """Encode texts once, to explain the encodings with several methods.

        Args:
            texts: A text, a pair, or several in any container.
            is_split_into_words: Whether they are lists of words, as in a call.
            max_length: Read at most this many tokens of each.

        Raises:
            InputError: If a text cannot be read.
        """
        self._model.refresh()  # its limit of tokens may have changed
        return self._model.encoder(split_texts(texts) if is_split_into_words else texts, max_length=max_length)

    @overload
    def generate(self, prompt: Prompt | Path | npt.NDArray[Any], **options: Any) -> Attribution: ...
    @overload
    def generate(self, prompt: Iterable[Prompt], **options: Any) -> Attributions[Attribution]: ...
    def generate(
        self, prompt: Any, *, max_new_tokens: int | None = None, **options: Annotated[Any, keywords.Generate]
    ) -> Attribution | Attributions[Attribution]:
        """Generate completions of prompts, and explain every generated token.

        Args:
            prompt: A text, chat messages for the tokenizer's template, or several in a list; or their token ids. Of
                models of speech a sound: samples, a mapping with "array" and "sampling_rate", or a file's path.
            max_new_tokens: Most tokens to generate; by default as `max_length`, `generation_config`, the pipeline or
                the model's configuration says, otherwise 40. Greedily, unless `do_sample` or another setting says how.
            **options: Of `keywords.Generate`, and of the model's `generate`, such as `num_beams`.

        Returns:
            One result, or a list in the order of the prompts.

        Raises:
            InputError: If a prompt is empty, leaves no room, or the tokenizer has no template for messages.
            TargetError: If a target is not a token.
            MethodError: If the method does not exist, or gives no scores for `layers`.
            UnsupportedModelError: If the model does not generate, or the method does not work on it.
        """
        own_options = {name: options.pop(name) for name in get_type_hints(keywords.Generate) if name in options}
        if max_new_tokens is not None:
            options["max_new_tokens"] = max_new_tokens
        return explain_generated(self.language_model, prompt, Options.of_completions(own_options), options)

    @overload
    def explain_completion(  # pyright: ignore[reportOverlappingOverload]  # a string is one text, not its letters
        self, prompt: Prompt, completion: str | Sequence[int], **options: Unpack[keywords.ExplainCompletion]
    ) -> Attribution: ...
    @overload
    def explain_completion(
        self, prompt: Iterable[Prompt], completion: Iterable[Any], **options: Unpack[keywords.ExplainCompletion]
    ) -> Attributions[Attribution]: ...
    def explain_completion(
        self, prompt: Prompt | Iterable[Prompt], completion: Any, **options: Unpack[keywords.ExplainCompletion]
    ) -> Attribution | Attributions[Attribution]:
        """Explain a given completion: every token by all tokens before it, parts by sources, or against another one.

        One forward pass over the whole sequence; `sources` and `parts` take the least cost that the method allows.

        Args:
            prompt: As in `generate`; of several prompts, `completion` and `targets` are lists, too, and so are spans.
            completion: The text that follows the prompt as it is (mind the space), or its token ids.
            **options: What is explained and how, see `keywords.ExplainCompletion`.

        Returns:
            One result, or a list in the order of the prompts.

        Raises:
            InputError: If one is empty, both are too long, there is no such source or part, or lists differ in length.
            TargetError: If a target is not a token.
            MethodError: If the method does not exist, gives no scores for `layers`, or does not score sources.
            UnsupportedModelError: If the model is not a language model, or the method does not work on it.
        """
        of_decoder: dict[str, Any] = {name: options.pop(name) for name in DECODER_SETTINGS if name in options}  # type: ignore[misc]
        return explain_given(self.language_model, prompt, completion, Options.of_completions(options), of_decoder)

    @property
    def task_model(self) -> TaskModel:
        """The model with its task, for what explains many inputs at once: its batches, forward passes and identity."""
        return self._model

    @cached_property
    def language_model(self) -> TaskModel:
        """The same model, with the task that generates where its class has several."""
        return self._model.generating()


def _call_with(arguments: Mapping[str, Any]) -> str:
    """Return the name of the method of `Explainer` by which `without` measures.

    One argument chooses the method: `completion`, or one that an extension names, as `second` does `similarity`. Of
    several the extension's chooses, and its method refuses the others.

    Args:
        arguments: The arguments that the caller gave, of which none may choose: then it is `__call__`.
    """
    # By the argument that chooses it; an extension that names one of the core's arguments is refused.
    method_names = {**references("without", core=keywords.OF_CORE), "completion": "explain_completion"}
    return next((method_names[argument] for argument in method_names if argument in arguments), "__call__")


# Those of other packages are added when an explainer is made: such a package may import this module.
add_calls(Explainer, named_in(wings(), "calls"))
