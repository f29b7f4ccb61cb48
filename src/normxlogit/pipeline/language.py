"""What an explainer does with language models: let them write, and explain what they wrote."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

from ..errors import InputError
from ..inputs.chat import Prompt, read_prompts
from ..methods import Method
from ..methods.defaults import named_or_default
from ..models.factory import as_language_model
from ..models.layers import Layers
from ..models.targets import Choice
from ..models.task_model import TaskModel
from ..results.citations import Citations
from ..results.collection import Attributions
from ..results.generation import GenerationAttribution
from ..results.sources import Merging, Sources
from ..results.spans import By, Of
from .arguments import checked_arguments
from .cite import cite
from .completion import explain_completions
from .given_completion import explain_generation
from .options import Options
from .sources import explain_sources
from .writing import generate_each, read_completion

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["LanguageMixin"]


class CompletionOptions(TypedDict, total=False):
    """The keywords of `explain_completion`, for type checkers."""

    target: Choice | None
    targets: Sequence[Choice] | Sequence[Sequence[Choice]] | None
    contrast: Choice | None
    layers: Layers
    method: str | Method | None
    sources: Mapping[str, Sequence[int]] | Sequence[Mapping[str, Sequence[int]]] | None


class LanguageMixin:
    """The part of an explainer that is about written text.

    Attributes:
        model: The model, taken apart.
    """

    model: TaskModel

    @overload
    def generate(self, prompt: Prompt, **options: Any) -> GenerationAttribution: ...
    @overload
    def generate(self, prompt: Iterable[Prompt], **options: Any) -> Attributions[GenerationAttribution]: ...

    @checked_arguments
    def generate(
        self,
        prompt: Prompt | Iterable[Prompt],
        *,
        max_new_tokens: int = 40,
        target: Choice | None = None,
        contrast: Choice | None = None,
        layers: Layers = None,
        method: str | Method | None = None,
        **options: Any,
    ) -> GenerationAttribution | Attributions[GenerationAttribution]:
        """Let a language model continue prompts, and explain every token that it wrote.

        Args:
            prompt: A text, or a list of chat messages for the tokenizer's template; or several of these in a list,
                which are read in batches, each with the tokens and scores that it has alone.
            max_new_tokens: Most tokens to write.
            target: As in `explain_completion`.
            contrast: As in `explain_completion`.
            layers: As in `__call__`.
            method: As in `explain_completion`.
            **options: Passed to the model's `generate`, such as `do_sample` or `num_beams`; it is greedy by default.
                With any but a few of them, several prompts are continued one after the other.

        Returns:
            One result, or a list in the order of the prompts.

        Raises:
            InputError: If the prompt is empty, leaves no room, or the tokenizer has no template for messages.
            TargetError: If a token asked for does not exist.
            UnsupportedModelError: If the model is no language model.
        """
        model = self._language_model
        wanted = Options(target, None, contrast, layers, self._completion_method(method))
        prompts, single = read_prompts(prompt)
        written = generate_each(model, prompts, max_new_tokens, options)
        found = explain_completions(model, written, [wanted] * len(written))
        return found[0] if single else Attributions(found)

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
            prompt: A text, or a list of chat messages for the tokenizer's template; or several of these in a list,
                which are read in batches. Then `completion`, and `targets` and `sources` where they are given, are
                lists with one for each.
            completion: The text that follows as it is (mind the space), or its token ids.
            target: A token or index that is explained at every place; None explains each token itself.
            targets: A token or index for each place.
            contrast: A token whose logit is subtracted.
            layers: As in `__call__`.
            method: As in `__call__`; by default `frozen-gradient`, which goes back once for each generated token.
            sources: Named pieces of the prompt, such as its documents, that the result's `sources` sums to: spans
                (start, end) of its characters, in a list of messages (message, start, end).

        Returns:
            One result, or a list in the order of the prompts.

        Raises:
            InputError: If prompt or completion is empty, both are longer than the model reads, a source is no span, or
                the lists differ in length.
            TargetError: If a token asked for does not exist.
            UnsupportedModelError: If the model is no language model.
        """
        model = self._language_model
        prompts, single = read_prompts(prompt)
        given = {"completion": completion, "targets": targets, "sources": sources}
        each = {name: [value] if single else _one_each(name, value, len(prompts)) for name, value in given.items()}
        chosen = self._completion_method(method)
        wanted = [Options(target, own, contrast, layers, chosen) for own in each["targets"]]
        read = [
            read_completion(model, before, after).naming(named)
            for before, after, named in zip(prompts, each["completion"], each["sources"], strict=True)
        ]
        found = explain_completions(model, read, wanted)
        return found[0] if single else Attributions(found)

    @checked_arguments
    def explain_sources(
        self,
        prompt: Prompt,
        completion: str | Sequence[int],
        *,
        by: By | Mapping[str, Sequence[int]] = "sentence",
        of: Of = None,
        method: str | Method | None = None,
        merge: Merging = "sum",
    ) -> Sources:
        """Explain which sources of a prompt a completion rests on, at the least cost that the method allows.

        The frozen gradient goes back once for each part of the completion, not for each token. Perturbation methods
        take out sources instead of tokens: `occlusion` leaves out one at a time, `lime` is ContextCite's estimator.

        Args:
            prompt: A text, or a list of chat messages for the tokenizer's template.
            completion: As in `explain_completion`.
            by: "sentence", "paragraph", "message" or "word", or named spans as `sources` of `explain_completion`.
            of: The part of the completion, as in `GenerationAttribution.sources`; a row of the table for each.
            method: As in `explain_completion`.
            merge: How a source's score comes from its tokens', as in `GenerationAttribution.sources`.

        Raises:
            InputError: If prompt or completion is empty or too long, or there is no such source or part.
            MethodError: If the method does not score sources.
            UnsupportedModelError: If the model is no language model, or the method does not work on it.
        """
        model = self._language_model
        completed = read_completion(model, prompt, completion)
        if not isinstance(by, str):
            completed = completed.naming(by)
            by = completed.named
        return explain_sources(model, completed, Options(method=self._completion_method(method)), by, of, merge)

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
        """Explain what your own call of the model's `generate` wrote, from the states that it left.

        Only the embedding layer runs again, and the head on the written tokens. Call `generate` with
        `return_dict_in_generate=True, output_hidden_states=True, output_logits=True`.

        Args:
            inputs: What `generate` was given, padded on the left or not.
            outputs: What it returned.
            target: As in `explain_completion`.
            contrast: As in `explain_completion`.
            layers: As in `__call__`.
            method: One that reads each token's own states: `normxlogit`, the default, `logat` or `input-norm`.

        Returns:
            A result for each prompt.

        Raises:
            InputError: If the outputs lack something, are of several beams, or are not of these inputs.
            HeadMismatchError: If the hidden states and the logits do not belong together.
            MethodError: If the method needs a pass of its own.
        """
        chosen = named_or_default(method, "recorded")
        wanted = Options(target, None, contrast, layers, chosen)
        return explain_generation(self._language_model, inputs, outputs, wanted)

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
            method: As in `__call__`; None is that of `generate`. `occlusion` leaves out one source at a time, `lime` is
                ContextCite's estimator.
            verify: Measure for this many of the first sources what the answer loses without them, a pass each; "auto"
                measures until the others can no longer come first. The measured ones are ranked by it.

        Raises:
            InputError: If there is no question, document or answer, or they leave no room for an answer.
            UnsupportedModelError: If the model is no language model, or the method does not work on it.

        Example:
            >>> answer = explainer.cite("Who won?", {"news.txt": "It rained. The home team won."})  # doctest: +SKIP
            >>> answer.citations()[0].text  # doctest: +SKIP
            'The home team won.'
        """
        return cite(
            self._language_model,
            question,
            documents,
            method=self._completion_method(method),
            messages=messages,
            answer=answer,
            system=system,
            max_new_tokens=max_new_tokens,
            verify=verify,
        )

    def _completion_method(self, method: str | Method | None) -> Method:
        return named_or_default(method, "completions")

    @cached_property
    def _language_model(self) -> TaskModel:
        return as_language_model(self.model)


def _one_each(name: str, given: Any, count: int) -> list[Any]:
    """Return what is given for each of several prompts.

    Raises:
        InputError: If there are more or fewer.
    """
    if given is None and name != "completion":
        return [None] * count
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise InputError(f"of several prompts {name} is a list with one for each")
    found = list(given)
    if len(found) != count:
        raise InputError(f"{len(found)} of {name} for {count} prompts; give one for each")
    return found
