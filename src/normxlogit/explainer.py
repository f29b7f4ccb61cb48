"""The front door: texts in, attributions out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import torch
from torch import Tensor, nn

from .errors import InputError
from .inputs.batching import Batch
from .inputs.encoder import LongText
from .inputs.encoding import Encoding
from .inputs.texts import Text
from .methods.registry import create
from .models.factory import as_language_model, refuse_source, task_model
from .models.forward_pass import ForwardPass
from .models.loading import load
from .models.map_batches import map_batches
from .models.positions import Position, locate
from .models.signals import SignalModel
from .models.targets import Choice, TargetSpec
from .models.task_model import TaskModel
from .models.tasks import TaskName
from .pipeline import completion as completions
from .pipeline.completion import Prompt
from .pipeline.explain import Layers, Request, explain
from .pipeline.long_texts import explain_long
from .pipeline.multiple_choice import Question, as_choice, chosen_index, questions_in
from .pipeline.signals import explain_signals
from .results.attribution import Attribution
from .results.generation import GenerationAttribution

__all__ = ["Explainer"]


class Explainer:
    """Explains a model's answers token by token.

    The model is only read: its parameters, mode, hooks, configuration and device stay as they are. One explainer may
    be used from several threads.

    Args:
        model: A `transformers` task model, plain, compiled or wrapped by PEFT.
        tokenizer: Its tokenizer; for pictures and sounds its image processor or feature extractor.
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
        model: nn.Module,
        tokenizer: Any,
        *,
        name: str | None = None,
        batch_tokens: int = 8192,
    ) -> None:
        self.model = task_model(model, tokenizer, name, batch_tokens)

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
            batch_tokens: Most tokens (padding included) in one forward pass.
            **options: Passed to transformers' `from_pretrained`.

        Raises:
            InputError: If there is no such model.
            UnsupportedModelError: If it has no head of a supported kind.
        """
        model, tokenizer = load(
            name,
            task=task,
            dtype=dtype,
            device=device,
            trust_remote_code=trust_remote_code,
            allow_pickle=allow_pickle,
            **options,
        )
        label = "normxlogit/default" if name is None else str(name)
        return cls(model, tokenizer, name=label, batch_tokens=batch_tokens)

    @overload
    def __call__(self, inputs: Text | Question, **options: Any) -> Attribution: ...
    @overload
    def __call__(
        self, inputs: Sequence[Text] | Sequence[Question] | Sequence[Encoding] | Mapping[str, Any], **options: Any
    ) -> list[Attribution]: ...

    def __call__(
        self,
        inputs: Text | Question | Sequence[Text] | Sequence[Question] | Sequence[Encoding] | Mapping[str, Any],
        *,
        target: TargetSpec = "predicted",
        contrast: Choice | None = None,
        layers: Layers = None,
        method: str = "normxlogit",
        position: Position = None,
        long_text: LongText = "truncate",
        token_predictions: bool | None = None,
        **settings: Any,
    ) -> Attribution | list[Attribution]:
        """Explain one text or many.

        Args:
            inputs: A string, a pair (tuple of two strings), a list of these, what `encode` returned, or a
                tokenizer's output; for question answering the pair (question, context), for multiple choice a tuple
                (prompt, list of choices); for
                image and audio classification a picture or samples, or a list of them.
            target: "predicted", "all", a label name or index, a token string or index (language models), "start" or
                "end" (question answering; "predicted" is the start), a choice or its index (multiple choice), or a
                list of these. A token string without a leading space means the start of a word.
            contrast: A label or token whose logit is subtracted.
            layers: "all", a layer number (1 to L) or a list of them; None for the model's answer as it is.
            method: Name of a registered method.
            position: The token whose label is explained (token classification) or the mask (masked language models
                with several): its index, a piece of the text, or a span (start, end) of characters, for all inputs
                or a list with one for each. By default the first token with a label other than "O".
            long_text: What to do with a text beyond the model's length: "truncate" explains the first window and notes
                it, "window" reads it in overlapping windows and explains it whole, "error" raises.
            token_predictions: Also report what the head says at each token; by default for heads with few outputs.
            **settings: Settings of the method.

        Returns:
            One attribution for a string or pair, otherwise a list in the order of the inputs.

        Raises:
            InputError: If an input cannot be read.
            TargetError: If the target does not exist.
            MethodError: If the method or a setting does not exist, or it cannot give layers.
            HeadMismatchError: If the model's head cannot be applied by itself.
        """
        request = Request(target, contrast, layers, token_predictions, *create(method, settings))
        refuse_source(self.model)
        if isinstance(self.model, SignalModel):
            return explain_signals(self.model, inputs, request)
        single = isinstance(inputs, str | tuple)
        if self.model.task.kind == "choice":
            questions = questions_in([inputs] if single else inputs)
            chosen = [self._explain_choice(q, request, long_text) for q in questions]
            return chosen[0] if single else chosen
        if isinstance(inputs, Mapping):
            encodings = self.model.encoder.from_batch(inputs)
        elif isinstance(inputs, list) and inputs and isinstance(inputs[0], Encoding):
            encodings = inputs
        elif single or isinstance(inputs, Sequence):
            encodings = self.model.encoder([inputs] if single else inputs, long_text=long_text)
        else:
            raise InputError(f"cannot explain a {type(inputs).__name__}; pass a string, a pair, or a list of them")
        encodings = locate(encodings, position, self.model.task)
        results: list[Attribution | None] = [None] * len(encodings)
        limit = self.model.encoder.limit
        short = [i for i, e in enumerate(encodings) if limit is None or len(e) <= limit]
        for place in sorted(set(range(len(encodings))) - set(short)):
            if long_text != "window":
                raise InputError(
                    f"input {place} has {len(encodings[place])} tokens and the model reads {limit}; long_text='window' "
                    "reads encoded input in windows"
                )
            results[place] = explain_long(self.model, encodings[place], request)

        def work(group: list[int]) -> list[Attribution]:
            batch = self.model.batch([encodings[short[i]] for i in group], [short[i] for i in group])
            with torch.inference_mode():
                run = self.model.run(batch, layers=layers is not None)
            return explain(self.model, run, request)

        for group, explained in map_batches(self.model, [encodings[i] for i in short], work):
            for i, result in zip(group, explained, strict=True):
                results[short[i]] = result
        found = [r for r in results if r is not None]
        return found[0] if single else found

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
        target: TargetSpec = "predicted",
        contrast: Choice | None = None,
        layers: Layers = None,
        method: str = "normxlogit",
        position: Position = None,
        token_predictions: bool | None = None,
        **settings: Any,
    ) -> list[Attribution]:
        """Explain a forward pass that was already run, without another.

        Only the embedding layer runs again, to see that the outputs are of these inputs. The first call on a model
        proves its head on two of the texts, which takes a small forward pass. Layers of the few architectures whose
        `hidden_states` cannot be brought to the head take a pass each.

        Args:
            inputs: What the model was given.
            outputs: What it returned, called with `output_hidden_states=True` in evaluation mode.
            target: As in `__call__`.
            contrast: As in `__call__`.
            layers: As in `__call__`.
            method: As in `__call__`.
            position: As in `__call__`.
            token_predictions: As in `__call__`.
            **settings: Settings of the method.

        Raises:
            InputError: If the outputs hold no hidden states or are of another shape.
            HeadMismatchError: If the hidden states and the logits do not belong together.
        """
        refuse_source(self.model)
        request = Request(target, contrast, layers, token_predictions, *create(method, settings))
        if self.model.task.kind == "choice":
            raise InputError("multiple choice is explained from texts: pass (prompt, [choices]) to the explainer")
        encodings = locate(self.model.encoder.from_batch(inputs), position, self.model.task)
        tensors = {name: value for name, value in inputs.items() if isinstance(value, Tensor)}
        ids = tensors.get("input_ids")
        if ids is None:
            raise InputError("inputs need 'input_ids' as a tensor, as the model was given them")
        mask = tensors.get("attention_mask", torch.ones_like(ids)).bool()  # (B, T)
        batch = Batch(tensors, mask, encodings, list(range(len(encodings))))
        with torch.inference_mode():
            run = self.model.from_outputs(batch, outputs, layers=layers is not None)
        return explain(self.model, run, request)

    def generate(
        self,
        prompt: Prompt,
        *,
        max_new_tokens: int = 40,
        target: TargetSpec = "generated",
        contrast: Choice | None = None,
        layers: Layers = None,
        method: str = "normxlogit",
        settings: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> GenerationAttribution:
        """Let a causal language model continue a prompt, and explain every token that it wrote.

        Args:
            prompt: A text, or a list of chat messages for the tokenizer's template.
            max_new_tokens: Most tokens to write.
            target: As in `explain_completion`.
            contrast: As in `explain_completion`.
            layers: As in `__call__`.
            method: As in `__call__`.
            settings: Settings of the method.
            **options: Passed to the model's `generate`, such as `do_sample` or `num_beams`; it is greedy by default.

        Raises:
            InputError: If the prompt is empty, leaves no room, or the tokenizer has no template for messages.
            TargetError: If a token asked for does not exist.
            UnsupportedModelError: If the model is no causal language model.
        """
        request = Request(target, contrast, layers, False, *create(method, dict(settings or {})))
        sequence = completions.generate(self._writing, prompt, max_new_tokens, options)
        return completions.explain_completion(self._writing, sequence, request)

    def explain_completion(
        self,
        prompt: Prompt,
        completion: str | Sequence[int],
        *,
        target: TargetSpec = "generated",
        contrast: Choice | None = None,
        layers: Layers = None,
        method: str = "normxlogit",
        **settings: Any,
    ) -> GenerationAttribution:
        """Explain every token of a completion, whoever wrote it: one forward pass over the whole sequence.

        Args:
            prompt: A text, or a list of chat messages for the tokenizer's template.
            completion: The text that follows as it is (mind the space), or its token ids.
            target: "generated" explains each token itself; a token or index the same one at every place; a list one
                for each.
            contrast: A token whose logit is subtracted.
            layers: As in `__call__`.
            method: As in `__call__`.
            **settings: Settings of the method.

        Raises:
            InputError: If prompt or completion is empty, or both are longer than the model reads.
            TargetError: If a token asked for does not exist.
            UnsupportedModelError: If the model is no causal language model.
        """
        request = Request(target, contrast, layers, False, *create(method, settings))
        sequence = completions.read_completion(self._writing, prompt, completion)
        return completions.explain_completion(self._writing, sequence, request)

    @cached_property
    def _writing(self) -> TaskModel:
        return as_language_model(self.model)

    def _explain_choice(self, question: Question, request: Request, long_text: LongText) -> Attribution:
        prompt, choices = question
        if long_text == "window":
            raise InputError("choices are compared on the whole text each; long_text is 'truncate' or 'error' for them")
        encodings = self.model.encoder([(prompt, choice) for choice in choices], long_text=long_text)

        def work(group: list[int]) -> list[tuple[ForwardPass, int]]:
            batch = self.model.batch([encodings[i] for i in group], group)
            with torch.inference_mode():
                run = self.model.run(batch, layers=request.layers is not None)
            return [(run, row) for row in range(len(group))]

        read = dict(
            pair for group, found in map_batches(self.model, encodings, work) for pair in zip(group, found, strict=True)
        )
        logits = torch.stack([run.logits[row] for run, row in (read[i] for i in range(len(choices)))])  # (N, 1)
        index = chosen_index(choices, logits, request.target, request.contrast)
        run, row = read[index]
        result = explain(self.model, run.row(row), replace(request, target="predicted"))[0]
        return as_choice(result, choices, logits, index)
