"""The front door: texts in, attributions out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import nn

from .errors import InputError
from .inputs.encoder import LongText
from .inputs.encoding import Encoding
from .inputs.texts import Text
from .methods import Method, method_named
from .methods.defaults import default_methods, first_working, named_or_default, use_for
from .models.factory import check_answers, model_summary, module_and_reader, task_model
from .models.layers import Layers
from .models.loading import load
from .models.positions import Position
from .models.sentence_embedding import Pooling
from .models.signals import SignalModel
from .models.targets import Choice, TargetSpec
from .models.task_classes import TaskName, is_bare
from .models.tasks import label_names
from .models.zero_shot import ZeroShotModel, hypotheses_of
from .pipeline.arguments import checked_arguments
from .pipeline.language import LanguageMixin
from .pipeline.multiple_choice import Question, explain_questions
from .pipeline.options import ExplainOptions, Options, check_comparison
from .pipeline.retrieval import RetrievalMixin
from .pipeline.signals import explain_signals
from .pipeline.texts import explain_outputs, explain_texts
from .pipeline.zero_shot import explain_hypotheses
from .results.attribution import Attribution
from .results.collection import Attributions
from .results.comparison import Comparison
from .surgery.clone import unwrapped
from .surgery.recorders import without_recorders

if TYPE_CHECKING:
    from transformers import Pipeline
    from typing_extensions import Unpack

__all__ = ["Explainer"]


class Explainer(LanguageMixin, RetrievalMixin):
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

    Raises:
        UnsupportedModelError: If the model has no head of a supported kind.

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
        about = {"name": name, "batch_tokens": batch_tokens, "task": task, "labels": labels, "pooling": pooling}
        self._take_apart({"model": module, "tokenizer": reader, **about, "hypotheses": hypotheses_of(model, labels)})

    def _take_apart(self, given: dict[str, Any]) -> None:
        self._given = given
        about = {name: value for name, value in given.items() if name != "tokenizer"}
        self.model = task_model(reader=given["tokenizer"], **about)

    def __repr__(self) -> str:
        return f"Explainer({model_summary(self.model)})"

    def __getstate__(self) -> dict[str, Any]:
        """Keep what the explainer was made of; the model is taken apart anew where it is read back."""
        return self._given | {"model": without_recorders(self._given["model"])}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make the explainer anew."""
        self._take_apart(state)

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
            labels: As in the class.
            pooling: As in the class.
            dtype: Precision; by default the checkpoint's, but float32 for a float16 checkpoint on a CPU.
            device: Where to put the model; "auto" for the accelerator of the machine if it has one.
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
        about = str(name or "normxlogit/default")
        embedding: TaskName | None = "embedding" if is_bare(unwrapped(model)) else None  # no class of its own says so
        return cls(
            model,
            tokenizer,
            task=embedding,
            labels=labels,
            pooling=pooling,
            name=about,
            batch_tokens=batch_tokens,
        )

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
        """Explain one text or many.

        Args:
            inputs: A string, a pair (tuple of two strings), several of these in a list or a column, a row, frame or
                data set with one column of texts, what `encode` returned, a tokenizer's output or its token ids; for
                question answering the pair (question, context), for multiple choice a tuple (prompt, list of choices);
                for image and audio classification a picture or samples, or a list of them.
            target: None for the prediction, `ALL` labels, a label name or index, a token string or index (language
                models), "start" or "end" (question answering; by default the start), a choice or its index (multiple
                choice), or a list of these. A token string without a leading space means the start of a word.
            targets: One target for each input, instead of `target`.
            contrast: A label or token whose logit is subtracted.
            layers: `ALL`, a layer number (1 to L) or a list of them; None for the model's answer as it is.
            method: Name of a registered method, with settings as "name:setting=value,setting=value", or a method. By
                default `normxlogit`; of language models `frozen-gradient`, or `normxlogit` where that does not work.
            position: The token whose label is explained (token classification) or the mask (masked language models
                with several): its index, a piece of the text, or a span (start, end) of characters, for all inputs
                or a list with one for each. By default the first token with a label other than "O".
            long_text: What to do with a text beyond the model's length: "truncate" (the default) explains the first
                window and notes it, "window" reads it in overlapping windows and explains it whole, "error" raises.
            token_predictions: Also report what the head says at each token; by default for heads with few outputs.
            progress: Whether to show a progress bar on standard error; by default on a terminal, after a second.

        Returns:
            One attribution for a single input, otherwise `Attributions`, a list in the order of the inputs.

        Raises:
            InputError: If an input cannot be read.
            TargetError: If the target does not exist.
            MethodError: If the method or a setting does not exist, or it cannot give layers.
            HeadMismatchError: If the model's head cannot be applied by itself.
        """
        check_answers(self.model)

        def explain(chosen: Method) -> Attribution | Attributions[Attribution]:
            return self._explain(
                inputs,
                Options(target, targets, contrast, layers, chosen, position, long_text, token_predictions, progress),
            )

        if method is not None:
            return explain(method_named(method))
        # Each default method that is tried reads both.
        inputs, targets = (list(some) if isinstance(some, Iterator) else some for some in (inputs, targets))
        return _noted(*first_working(use_for(self.model.task.vocabulary), explain))

    def _explain(self, inputs: Any, options: Options) -> Attribution | Attributions[Attribution]:
        if isinstance(self.model, SignalModel):
            return explain_signals(self.model, inputs, options)
        if isinstance(self.model, ZeroShotModel):
            return explain_hypotheses(self.model, inputs, options)
        if self.model.task.kind == "choice":
            return explain_questions(self.model, inputs, options)
        return explain_texts(self.model, inputs, options)

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
        """Explain one text by several methods, side by side.

        Args:
            text: One input, as `__call__` takes it.
            methods: What to compare; by default `normxlogit` and `frozen-gradient`.
            target: One label or token; None for the prediction.
            contrast: As in `__call__`.
            position: As in `__call__`.
            long_text: As in `__call__`.

        Returns:
            One result for each method, which say how far their rankings agree.

        Raises:
            InputError: If more than one input is given.
        """
        methods = default_methods("shown") if methods is None else methods
        check_comparison(methods, target)
        results = [
            self(text, method=method, target=target, contrast=contrast, position=position, long_text=long_text)
            for method in methods
        ]
        if not all(isinstance(result, Attribution) for result in results):
            raise InputError("methods are compared on one text; pass a single one")
        return Comparison(results)

    @checked_arguments
    def encode(self, texts: Text | Iterable[Text], *, max_length: int | None = None) -> list[Encoding]:
        """Encode texts once, to explain them with several methods; `__call__` takes the result.

        Args:
            texts: Strings or pairs, in any container; a bare string or pair is one text.
            max_length: Read at most this many tokens of each.

        Raises:
            InputError: If a text cannot be read.
        """
        self.model.refresh()
        return self.model.encoder(texts, max_length=max_length)

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
        """Explain a forward pass that was already run, without another.

        Only the embedding layer runs again, to see that the outputs are of these inputs. So checked are the number of
        hidden states, the first (it is of these ids) and the last (the head makes these logits of it). What no check
        without another pass sees is taken on trust: the states between, whose order and values only `layers` reads,
        and whether the layers read with this `attention_mask`. The first call on a model proves its head on two of
        the texts, which takes a small forward pass. Layers of the few architectures whose `hidden_states` cannot be
        brought to the head take a pass each.

        Args:
            inputs: What the model was given.
            outputs: What it returned, called with `output_hidden_states=True` in evaluation mode.
            target: As in `__call__`.
            targets: As in `__call__`.
            contrast: As in `__call__`.
            layers: As in `__call__`.
            method: As in `__call__`; by default `normxlogit`, which needs no other pass.
            position: As in `__call__`.
            token_predictions: As in `__call__`.

        Raises:
            InputError: If the outputs hold no hidden states or are of another shape.
            HeadMismatchError: If the hidden states and the logits do not belong together.
        """
        chosen = named_or_default(method, "recorded")
        options = Options(target, targets, contrast, layers, chosen, position, None, token_predictions)
        check_answers(self.model)
        if self.model.task.kind == "choice":
            raise InputError(
                f"{self.model.task.purpose} compares several forward passes, and is explained from texts: call the "
                "explainer on them"
            )
        return explain_outputs(self.model, inputs, outputs, options)


def _noted(
    results: Attribution | Attributions[Attribution], note: tuple[str, ...]
) -> Attribution | Attributions[Attribution]:
    """Return results with a note added to each."""
    if isinstance(results, Attribution):
        return replace(results, notes=(*results.notes, *note)) if note else results
    return Attributions(replace(result, notes=(*result.notes, *note)) for result in results) if note else results
