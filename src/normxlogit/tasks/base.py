"""The base class of tasks: everything that differs between them, and what some can do beside explaining an answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from ..copies.module_io import TensorInputs
from ..copies.pool import Pool
from ..errors import InputError, UnsupportedModelError, listed
from ..extending import ModelClasses
from ..inputs.batches import Batch
from ..inputs.chat import Content, ReadPrompt, read_chats, read_prompt
from ..inputs.decoded_tokens import append_tokens
from ..inputs.encoder import LongText
from ..inputs.encoding import Encoding
from ..inputs.label_names import label_names
from ..parts.model_parts import Parts
from ..results.units.media import Medium
from ..results.units.spans import MessageSpan
from ..results.units.units import UnitKind, Units
from .task_outputs import AnswerPosition, Outputs

if TYPE_CHECKING:
    from ..model.task_model import TaskModel

TaskName = str
"""The name of a task in transformers' terms; extensions add theirs."""

GenerateSettings = Mapping[str, Any]
"""Settings of `generate`, by name."""

MAX_SUMMARY_LABELS = 6
"""Most labels that a summary lists."""

EXAMPLE_TEXT = "Is it so?"


class TokenLimits(NamedTuple):
    """The most tokens that a model reads."""

    text: int | None  # of a text, or of the source of an encoder; None for any number
    decoder: float | None = None  # of a decoder beside an encoder; inf for any number, None without such a decoder


Region = tuple[float, ...]
"""A box in pixels, or a span in seconds."""

Needed = Literal["words", "one text", "one input"]
"""What a method or a call may need of an input: words, or to be one text, or one input of any kind, for each answer."""

Pooling = Literal["mean", "first", "last"]
"""How the states of a text's tokens become one vector: their mean, or the first or last token's."""

PROBES = ([0, 1, 1], [1, 0, 1], [1, 1, 0], [0, 0, 1])
"""Token ids of short texts that any model can read."""

PositionCount = Callable[[nn.Module], int | None]
"""Returns the number of positions that a model, or a part of it, has embeddings for; None for any number."""

NO_ID = -1
"""A padding id that no token has, for heads that search for the first padding token."""


class Task:
    """A task: how inputs are encoded and a model called, where its answer is read, and what its outputs mean.

    A subclass describes its models, outputs and position, and overrides what else is different. Tasks that generate are
    `Generates` as well.

    Args:
        model: The caller's model, as a task model.
        tokenizer: What reads its inputs: a tokenizer, image processor, feature extractor or processor.
        labels: Names of the outputs instead of those in the model's configuration.

    Raises:
        InputError: If the tokenizer does not read what the model does, or the outputs have no names to change.

    Attributes:
        name: Its name in transformers' terms.
        models: Its classes of models.
        result_kind: The kind of rows that results are in a corpus: "text", or the kind of a medium of an extension.
        outputs: What the model answers with. A class that extends another declares its own in its place.
        position: Where the answer is read, likewise.
        processor: What reads the inputs, as it was given.
        tokenizer: The tokenizer in it.
    """

    name: ClassVar[TaskName]
    models: ClassVar[ModelClasses] = ModelClasses()
    result_kind: ClassVar[str] = "text"

    outputs: Outputs = Outputs()
    position: AnswerPosition = AnswerPosition()

    def __init__(self, model: Any = None, tokenizer: Any = None, labels: Sequence[str] | None = None) -> None:
        self.processor = tokenizer
        self.tokenizer = self.tokenizer_of(tokenizer)
        self._model = model
        self._labels = labels
        # The outputs of a classifier have taken the names; those of other tasks keep their own.
        takes_labels = labels is None or self.outputs.labels == label_names(labels)
        if not takes_labels:
            raise InputError(
                f"labels= names the outputs of a classifier, and {type(model).__name__} is a model for {self.name}: "
                "leave out labels="
            )

    def __repr__(self) -> str:
        return summary(self.name, self.outputs.labels)

    @classmethod
    def tokenizer_of(cls, reader: Any) -> Any:
        """Return the tokenizer: that of a processor, or the reader itself; a task whose inputs need none overrides it.

        Args:
            reader: What the caller gave to read the inputs; None for nothing.

        Raises:
            InputError: If it does not read what the models of the task do.
        """
        tokenizer = getattr(loaded(reader), "tokenizer", reader)
        if not hasattr(tokenizer, "pad_token_id"):  # tokenizers have it, maybe None, and no other reader does
            raise InputError(f"{cls.name} reads texts, and was given a {type(reader).__name__}; pass the tokenizer")
        return tokenizer

    # How the model is called

    def adapt(self, module: nn.Module) -> bool:
        """Make a copy callable with the inputs of a batch; return whether that could change its answer.

        It is asked for every module; where its answer could be another, the copy is compared with the caller's model.

        Args:
            module: A copy of the caller's model, which may be changed.
        """
        # A plain module has no such configuration, and heads that answer at every token look for no padding.
        if not isinstance(module, PreTrainedModel) or not self.position.pooled:
            return False
        config = module.config.get_text_config()
        if getattr(config, "pad_token_id", None) is not None:
            return False
        # The forward of a transformers classifier needs a padding id for more than one text; no text holds this one.
        config.pad_token_id = NO_ID
        return True

    def probes(self, module: nn.Module) -> Sequence[Mapping[str, Tensor]]:
        """Return inputs of a few short texts, which show what a module that is not of transformers returns.

        Args:
            module: The module that reads them.

        Returns:
            The inputs of each by their names, (1, T, ...). The first input holds what is explained: where the forward
            has no argument of its name, its first one takes it.
        """
        texts = [torch.tensor([ids]) for ids in PROBES]  # (1, 3) each
        return [{"input_ids": ids, "attention_mask": torch.ones_like(ids)} for ids in texts]

    def caller_inputs(self, inputs: TensorInputs, batch: Batch, device: torch.device) -> TensorInputs:
        """Return the inputs of one text as the caller's model takes them.

        Args:
            inputs: The inputs of the copy that is explained, by name, (1, T, ...).
            batch: The batch that they are of.
            device: Where the model is.
        """
        return inputs

    def limits(self, model: nn.Module, positions: PositionCount) -> TokenLimits:
        """Return the most tokens that a model reads.

        Args:
            model: The model.
            positions: Counts the positions of a model, or of a part of it.
        """
        return TokenLimits(positions(model))

    def finalise_parts(self, parts: Parts, pool: Pool[PreTrainedModel], model: "TaskModel") -> Parts:
        """Return the parts of a model, completed or changed as the task needs.

        Args:
            parts: The parts as they were found.
            pool: Lends copies of the model's module, to prove what is added.
            model: The model.
        """
        return parts

    def add_inputs(self, batch: Batch, model: "TaskModel", *, encode_sources: bool = True) -> Batch:
        """Return a batch with the inputs that are not tokens.

        Args:
            batch: The tokens of B texts.
            model: The model.
            encode_sources: Whether an encoder runs now; without it the batch holds what it would read.
        """
        if not model.extra_inputs:  # by name the value of a text that is given none of its own
            return batch
        inputs_of_texts = [getattr(encoding, "extra_inputs", {}) for encoding in batch.encodings]
        extra_inputs = {
            name: torch.cat([inputs.get(name, default) for inputs in inputs_of_texts]).to(batch.mask.device)
            for name, default in model.extra_inputs.items()
        }
        return replace(batch, inputs={**batch.inputs, **extra_inputs}, beside_text=tuple(extra_inputs))

    # Inputs

    def encode(
        self, model: "TaskModel", inputs: Any, *, long_text: LongText | None = None
    ) -> tuple[list[Encoding], bool]:
        """Encode whatever the caller gave, and return whether that was a single input rather than a collection.

        Args:
            model: The model.
            inputs: Texts, pairs, chats or what else the task reads: one, or a collection of them.
            long_text: What is done with a text that is too long; None for what the encoder does by default.

        Returns:
            The encodings, and whether there was a single input.

        Raises:
            InputError: If the task does not read such inputs.
        """
        continues_text = self.position.left_to_right
        # A model that continues texts reads no pairs, so that a tuple is a chat for it.
        chats_read = None if isinstance(inputs, str) else read_chats(inputs, pairs=not continues_text)
        if chats_read is None:  # no chats, but texts
            return model.encoder.encode_input(inputs, long_text=long_text)
        chats, single = chats_read
        prompts = [read_prompt(self.processor, chat, answer_follows=continues_text) for chat in chats]
        return [self._encode_chat(model, prompt, long_text) for prompt in prompts], single

    def _encode_chat(self, model: "TaskModel", prompt: ReadPrompt, long_text: LongText | None) -> Encoding:
        """Encode chat messages that the template has written as one text, with its special tokens."""
        if prompt.media:
            raise InputError(texts_alone(model, prompt.media[0].kind))
        (encoding,) = model.encoder(prompt.text, long_text=long_text, special=False)
        return of_prompt(self.tokenizer, encoding, prompt)

    def explain(self, model: "TaskModel", inputs: Any, options: Any) -> Any:
        """Return the results of inputs whose answer takes several passes; None where one pass gives it.

        Args:
            model: The model.
            inputs: What the caller gave, see `encode`.
            options: The `Options` of the call.
        """
        return None

    def example_input(self, model: "TaskModel") -> Any:
        """Return an input for checks of a model that are made before the caller gives one."""
        return EXAMPLE_TEXT

    def check_explains_inputs(self, model: "TaskModel") -> None:
        """Refuse models whose answer to a single text cannot be explained."""

    def check_input(self, model: "TaskModel", needed: Needed) -> None:
        """Refuse models whose inputs lack what a method or a call needs: these read a text, or a pair, of words.

        Args:
            model: The model.
            needed: What is needed: "words", to be left out or replaced, or "one text" or "one input" for each answer.

        Raises:
            UnsupportedModelError: If the inputs are something else.
        """

    def units(self, encoding: Encoding) -> tuple[Units, tuple[Medium, ...]]:
        """Return the units of an encoding, and its pictures and sounds."""
        return units_of_tokens(encoding), ()


def loaded(reader: Any) -> Any:
    """Return a tokenizer or processor; refuse none, and a name or a class in its place."""
    if reader is None:
        raise InputError("the model needs its tokenizer (processor, feature extractor): Explainer(model, tokenizer)")
    if isinstance(reader, type) or not callable(reader):
        raise InputError(
            "the tokenizer must be one that was loaded; Explainer.from_pretrained loads both by a name or folder"
        )
    return reader


def check_answer(task: Task, logits: Tensor, name: str, outputs: Outputs | None = None) -> None:
    """Refuse logits that do not fit a task, such as two classes of a language model.

    Args:
        task: The task.
        logits: What the model answers, (B, C) or (B, T, C).
        name: The model's name, for errors.
        outputs: The outputs that the logits must be of; None for the task's.

    Raises:
        UnsupportedModelError: If they do not fit.
    """
    if (logits.ndim == 2) != task.position.pooled:
        expected = "the whole text" if task.position.pooled else "every token"
        raise UnsupportedModelError(
            f"{name} answers with logits of shape {tuple(logits.shape)}, and {task.name} needs logits for {expected}"
        )
    (outputs or task.outputs).check(logits, name, task.name)


def summary(name: str, labels: Sequence[str]) -> str:
    """Return a line that says what a task is.

    Args:
        name: The name of the task.
        labels: The names of its outputs, of which the first are shown; empty for none.
    """
    if not labels:
        return f"task={name!r}"
    return f"task={name!r}, labels=[{listed([*map(repr, labels)], MAX_SUMMARY_LABELS)}]"


def message_spans(contents: Sequence[Content] | None) -> tuple[MessageSpan, ...] | None:
    """Return the spans of chat messages in the text that the model reads; None if it was one text from the start."""
    return None if contents is None else tuple(MessageSpan(c.role, c.start, c.end) for c in contents)


def of_prompt(tokenizer: Any, encoding: Encoding, prompt: ReadPrompt) -> Encoding:
    """Return the encoding of a prompt with its notes and messages; tokens of the chat template count as special.

    Args:
        tokenizer: The tokenizer, which knows its special tokens.
        encoding: The tokens of the prompt.
        prompt: The prompt as it was rendered, which knows where each message stands.
    """
    special_ids = set(tokenizer.all_special_ids)
    special = [
        is_added or token_id in special_ids for is_added, token_id in zip(encoding.special, encoding.ids, strict=True)
    ]
    # Without characters, or without messages, no token can be told to be the template's.
    if prompt.contents is not None and encoding.offsets is not None:
        for token, (start, end) in enumerate(encoding.offsets):
            is_content = any(content.start < end and start < content.end for content in prompt.contents)
            is_completion = start >= len(prompt.text)  # where the encoding is of both
            special[token] |= not is_content and not is_completion
    notes = (*encoding.notes, *prompt.notes)
    return replace(encoding, special=tuple(special), notes=notes, contents=prompt.contents)


def units_of_tokens(encoding: Encoding) -> Units:
    """Return the tokens of a text as units."""
    kind: UnitKind = "token"  # for the type checker alone, which would take it for any string in the tuple
    return Units(
        kind=(kind,) * len(encoding),
        text=encoding.tokens,
        special=encoding.special,
        sequence=encoding.sequence_ids,
        spans=encoding.offsets,
        words=encoding.words,
        ids=tuple(encoding.ids),
    )


def texts_alone(model: "TaskModel", kind: str) -> str:
    """Return what is said of a medium in a message to a model that reads texts.

    Args:
        model: The model.
        kind: The kind of the medium, "picture" or "sound".
    """
    return f"{model.name} reads texts alone, and a message holds a {kind}"


class Generates:
    """The ability of tasks whose models continue prompts, with a text."""

    def check_generates(self, model: "TaskModel") -> None:
        """Refuse models whose completions cannot be explained."""

    def check_prompts(self, model: "TaskModel") -> None:
        """Refuse models whose input is not a prompt, which a completion could follow."""

    def explain_written(self, model: Any, inputs: Any, options: Any, settings: GenerateSettings) -> Any:
        """Return the results of what the model generates from inputs that are not prompts; None if they are prompts.

        Args:
            model: The model.
            inputs: What the caller gave, such as sounds to transcribe.
            options: The `Options` of the call.
            settings: Those of `generate`.
        """
        return None

    def reads_medium(self, kind: str) -> bool:
        """Return whether a message of a prompt can hold a "picture", or a "sound"."""
        return False

    def check_reads(self, model: "TaskModel", kind: str) -> None:
        """Refuse media in messages that the model does not read.

        Args:
            model: The model.
            kind: The kind of the medium, "picture" or "sound".

        Raises:
            InputError: If it does not read such media.
        """
        raise InputError(texts_alone(model, kind))

    def read_prompt(self, model: "TaskModel", prompt: ReadPrompt) -> Encoding:
        """Encode a prompt for the part of the model that generates; a decoder beside an encoder has it as its source.

        Args:
            model: The model.
            prompt: The prompt as it was rendered.
        """
        raise NotImplementedError

    def read_completion(
        self,
        model: "TaskModel",
        prompt: ReadPrompt,
        before: Encoding,
        completion: str,
        settings: GenerateSettings,
    ) -> tuple[Encoding, int]:
        """Encode a prompt with a completion.

        Args:
            model: The model.
            prompt: The prompt as it was rendered.
            before: The encoding of the prompt alone.
            completion: The text of the completion.
            settings: The settings of `generate` with which the completion is generated.

        Returns:
            The encoding of both, and how many of its tokens are the prompt's.
        """
        raise NotImplementedError

    def appended(self, model: "TaskModel", before: Encoding, ids: list[int]) -> Encoding:
        """Return a prompt and the tokens that follow it.

        Args:
            model: The model.
            before: The encoding of the prompt.
            ids: The token ids that follow it, (G,).
        """
        return append_tokens(model.tokenizer, before, ids)

    def without_places(self, encoding: Encoding, prompt: ReadPrompt, places: Sequence[Sequence[Region]]) -> Encoding:
        """Return an encoding of a prompt, or of some of its tokens, without some places of its media.

        Args:
            encoding: The encoding.
            prompt: The prompt as it was rendered.
            places: For each medium its boxes in pixels, or its spans in seconds, that are removed.
        """
        raise NotImplementedError


def generating_task(model: "TaskModel") -> Generates:
    """Return the task of a model that generates text."""
    task = model.task
    if not isinstance(task, Generates):
        raise UnsupportedModelError(f"{model.class_name} is a model for {task.name}; only language models write text")
    task.check_generates(model)
    return task
