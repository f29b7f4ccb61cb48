"""The base class of tasks: everything that differs between them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from transformers import AutoProcessor, AutoTokenizer, PreTrainedModel
from transformers.models.auto import modeling_auto as auto

from ..copies.answers import AnswerForm
from ..copies.pool import Pool
from ..errors import InputError, TargetError, UnsupportedModelError, nearest
from ..inputs.alignment import append_tokens
from ..inputs.batching import Batch
from ..inputs.chat import Content, ReadPrompt, read_chats, read_prompt
from ..inputs.encoder import Encoder, LongText
from ..inputs.encoding import Encoding
from ..inputs.texts import read_texts
from ..parts.parts import Parts
from ..results.storage.schema import FloatArray
from ..results.targets import Prediction
from ..results.units.media import Medium
from ..results.units.spans import MessageSpan
from ..results.units.units import Units
from .interfaces import ForwardInterface, ModelInterface

TaskName = str
"""The name of a task in transformers' terms; extensions add theirs."""

MAX_LISTED_LABELS = 20
"""Most labels that an error lists."""

MAX_SUMMARY_LABELS = 6
"""Most labels that a summary lists."""

EXAMPLE_TEXT = "Is it so?"

Place = tuple[float, ...]
"""A box in pixels, or a span in seconds."""

NO_ID = -1
"""A padding id that no token has, for heads that search for the first padding token."""


class Task:
    """A task: how inputs are encoded and a model called, and what its outputs mean.

    A subclass overrides what is different: how an input is encoded, how the model is called, where its answer is read,
    what a target can be, how a prediction is described and which result is made. All class attributes describe what
    `transformers` calls the task and what kind of head it has.

    Args:
        labels: Names of the outputs; empty for vocabularies and vectors.
        tokenizer: The model's tokenizer, image processor, feature extractor or processor.

    Attributes:
        encoder: The encoder of texts; set when the model is loaded into a task.
        name: Its name in transformers' terms.
        mapping: transformers' mapping of the classes of its models.
        ending: The usual ending of their class names.
        auto_class: The class of transformers that loads them.
        processor_class: The class that loads what reads their inputs.
        peft_type: The task as PEFT writes it.
        plain: Whether a module that is not of transformers may have it.
        wraps: Whether it takes models without a head, and makes a task model of them.
        vocabulary: Whether the outputs are the vocabulary.
        per_token: Whether the model answers at every token, (B, T, C), and not once for the text, (B, C).
        labelled: Whether the outputs are classes with names.
        purpose: The purpose of the model, for errors.
        target_kind: The kind of target: a label, a token or a value.
        measured: What the answers to shortened inputs are compared by.
        outcomes: Whether one of the outputs is true or each by itself; None if they have no probabilities.
        classifies_texts: Whether the answer to a text is labels, or a value.
        shown_labels: The names of the model's outputs.
        extractive: Whether a prediction is a piece of the text, and not one of the outputs.
        compares: Whether an input is several texts whose answers are compared.
        reads_tokens: Whether inputs are tokens of a vocabulary, and not patches or frames.
        head_reads_tokens: Whether the head's answer to a single token can be shown as a prediction.
        explains_mask: Whether the token explained is a mask, which stays where others are perturbed.
        left_to_right: Whether a token's answer cannot depend on later ones.
        generates: Whether the model continues prompts.
        media: Kinds of media that an input, or a message of a prompt, can hold.
        result_kind: The kind of rows that results are in a corpus: "text", or one that an extension names.
        use: What is explained, by which the default method is chosen.
    """

    name: ClassVar[TaskName]
    mapping: ClassVar[str] = ""
    ending: ClassVar[str] = ""
    auto_class: ClassVar[str] = "AutoModel"
    processor_class: ClassVar[Any] = AutoTokenizer
    peft_type: ClassVar[str] = ""
    plain: ClassVar[bool] = False
    wraps: ClassVar[bool] = False
    vocabulary: ClassVar[bool] = False
    per_token: ClassVar[bool] = False
    labelled: ClassVar[bool] = False
    extractive: ClassVar[bool] = False
    compares: ClassVar[bool] = False
    reads_tokens: ClassVar[bool] = True
    head_reads_tokens: ClassVar[bool] = True
    explains_mask: ClassVar[bool] = False
    left_to_right: ClassVar[bool] = False
    generates: ClassVar[bool] = False
    media: ClassVar[tuple[str, ...]] = ()
    result_kind: ClassVar[str] = "text"
    use: ClassVar[Literal["labels", "signals", "tokens"]] = "labels"
    output_names: ClassVar[tuple[str, ...]] = ()
    outputs: ClassVar[str] = ""
    """What the outputs are, where labels cannot name them."""

    encoder: Encoder
    target_kind: Literal["label", "token", "value"] = "label"
    measured: Literal["probability", "value"] = "probability"
    outcomes: Literal["exclusive", "independent"] | None = "exclusive"
    classifies_texts: bool = False

    def __init__(self, labels: tuple[str, ...] = (), tokenizer: Any = None) -> None:
        self.labels = self.shown_labels = labels
        self.purpose: str = self.name
        self.processor = tokenizer
        self.tokenizer = self.tokenizer_of(tokenizer)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.labels!r})"

    @classmethod
    def of(cls, model: nn.Module, labels: Sequence[str] | None = None, tokenizer: Any = None) -> "Task":
        """Return the task of a model, with the names of its outputs.

        Args:
            model: The caller's model, as a task model.
            labels: Names instead of those in its configuration.
            tokenizer: Its tokenizer or processor.

        Raises:
            InputError: If there are names, and the outputs are not classes.
        """
        if labels is not None:
            raise InputError(
                f"labels= names the outputs of a classifier, and those of {type(model).__name__} ({cls.name}) are "
                f"{cls.outputs}: leave out labels="
            )
        return cls(cls.output_names, tokenizer)

    @classmethod
    def has_class(cls, class_name: str, has_encoder: bool | None = None, *, by_ending: bool = False) -> bool:
        """Return whether a class of models is for the task, by transformers' mapping or by the ending of its name.

        Args:
            class_name: Its name.
            has_encoder: Whether the model has an encoder beside its decoder; None if that is not known.
            by_ending: Which of the two is asked.
        """
        if by_ending:
            return bool(cls.ending) and class_name.endswith(cls.ending)
        return bool(cls.mapping) and class_name in getattr(auto, cls.mapping).values()

    @classmethod
    def claims(cls, module: nn.Module) -> bool:
        """Return whether a module that no class of transformers tells is for the task.

        A module that a task makes itself names it in the attribute `task_class` instead.
        """
        return False

    @classmethod
    def claims_files(cls, source: str) -> bool:
        """Return whether the files of a model, in a folder or of a hub name, say that it is for the task."""
        return False

    @classmethod
    def as_task_model(cls, model: nn.Module, pooling: Any = None, previous: nn.Module | None = None) -> nn.Module:
        """Return the caller's model as a task model: itself, unless the task wraps it.

        Args:
            model: The caller's model.
            pooling: How an embedding model pools.
            previous: What was returned when the model was read last.

        Raises:
            InputError: If `pooling` is given, and the model does not embed.
        """
        if pooling is not None:
            raise InputError("pooling= is for embedding models; give task='embedding' with it")
        return model

    @classmethod
    def tokenizer_of(cls, reader: Any) -> Any:
        """Return the tokenizer: that of a processor, or the reader itself."""
        return (
            getattr(reader, "tokenizer", reader) if cls.reads_tokens or cls.processor_class is AutoProcessor else reader
        )

    @classmethod
    def check_reader(cls, reader: Any, name: str) -> None:
        """Refuse a tokenizer or processor that does not prepare the inputs of the model.

        Args:
            reader: The caller's tokenizer or processor.
            name: Of the model's class.

        Raises:
            InputError: If no tokenizer is given where the model reads tokens.
        """
        if cls.reads_tokens and not hasattr(cls.tokenizer_of(reader), "pad_token_id"):
            raise InputError(f"{name} reads texts, and was given a {type(reader).__name__}; pass its tokenizer")

    def summary(self) -> str:
        """Return a line that says what the task is, with its first labels."""
        labels = [*map(repr, self.shown_labels[:MAX_SUMMARY_LABELS])]
        if len(self.shown_labels) > MAX_SUMMARY_LABELS:
            labels.append(f"... {len(self.shown_labels) - MAX_SUMMARY_LABELS} more")
        return f"task={self.purpose!r}" + (f", labels=[{', '.join(labels)}]" if labels else "")

    @property
    def answers_at_token(self) -> bool:
        """Whether the explained answer is read at a single token."""
        return self.per_token and not self.extractive

    @property
    def reads_one_text(self) -> bool:
        """Whether an input is one text (or a pair) in one forward pass: no picture, no sound, no texts to compare."""
        return self.reads_tokens and not self.compares

    # How the model is called

    def adapt(self, module: PreTrainedModel) -> bool:
        """Make a copy of the model callable with token ids of (B, T).

        Returns:
            Whether that could change its answer: it is then compared with the answer of the caller's model.
        """
        config = module.config.get_text_config()
        if self.per_token or getattr(config, "pad_token_id", None) is not None:
            return False
        config.pad_token_id = NO_ID  # heads that pool by it refuse two texts without; no text holds this one
        return True

    def caller_inputs(self, inputs: dict[str, Tensor], batch: Batch, device: torch.device) -> dict[str, Tensor]:
        """Return the inputs of one text as the caller's model takes them."""
        return inputs

    def limit(self, model: nn.Module, positions: int | None) -> int | None:
        """Return the maximal number of tokens, None for any; `positions` is the size of the position embeddings."""
        return positions

    def finalise_parts(self, parts: Parts, pool: Pool[PreTrainedModel], model: ModelInterface) -> Parts:
        """Return the parts of a model, completed or changed as the task needs; `pool` lends copies of its module."""
        return parts

    def add_inputs(self, batch: Batch, model: ModelInterface, *, encode_sources: bool = True) -> Batch:
        """Return a batch with the inputs that are not tokens; see `TaskModel.batch`."""
        if not model.extra_inputs:
            return batch
        own = [getattr(encoding, "extra_inputs", {}) for encoding in batch.encodings]
        extra = {
            name: torch.cat([given.get(name, default) for given in own]).to(batch.mask.device)
            for name, default in model.extra_inputs.items()
        }
        return replace(batch, inputs={**batch.inputs, **extra}, beside_text=tuple(extra))

    # Inputs

    def encode(
        self, model: ModelInterface, inputs: Any, *, long_text: LongText | None = None
    ) -> tuple[list[Encoding], bool]:
        """Encode whatever the caller gave, and return whether that was a single input rather than a collection.

        Messages are written by the chat template.

        Raises:
            InputError: If something cannot be read.
        """
        chats = read_chats(inputs, pairs=not self.generates)
        if chats is None:
            return self.encoder.encode_input(inputs, long_text=long_text)
        prompts = [read_prompt(self.processor, chat, answer_follows=self.generates) for chat in chats[0]]
        for medium in (medium for prompt in prompts for medium in prompt.media):
            self.check_reads(model, medium.kind)
            raise InputError(f"what rests on a {medium.kind} is explained by generate(messages) or explain_completion")
        return [self.encode_chat(model, prompt, long_text) for prompt in prompts], chats[1]

    def encode_chat(self, model: ModelInterface, prompt: ReadPrompt, long_text: LongText | None) -> Encoding:
        """Encode chat messages that the template has written as one text, with its special tokens."""
        (encoding,) = self.encoder.encode_rendered([prompt.text], long_text=long_text)
        return of_prompt(self.tokenizer, encoding, prompt)

    def encode_rows(
        self, model: ModelInterface, rows: Sequence[Any], *, long_text: LongText = "truncate"
    ) -> tuple[Sequence[Encoding], dict[int, str]]:
        """Encode rows of a corpus.

        Returns:
            The encodings of the rows that can be read, in their order, and what is wrong with the others by place.
        """
        return self.encoder.readable(rows, long_text=long_text)

    def example_input(self, model: ModelInterface) -> Any:
        """Return an input for checks of a model that are made before the caller gives one."""
        return EXAMPLE_TEXT

    def reads_medium(self, kind: str) -> bool:
        """Return whether a message of a prompt can hold a "picture", or a "sound"."""
        return False

    def check_reads(self, model: ModelInterface, kind: str) -> None:
        """Refuse media in messages that the model does not read.

        Raises:
            InputError: If it does not read those of this kind.
        """
        if not self.media:
            raise InputError(f"{model.name} reads texts alone, and a message holds a {kind}")

    def explain_written(
        self, model: Any, inputs: Any, options: Any, settings: Mapping[str, Any], other_answer: Any = None
    ) -> Any:
        """Return the results of what the model writes about inputs that are no prompts; None if its inputs are prompts.

        Args:
            model: The `TaskModel`.
            inputs: One, or several.
            options: The `Options` of the explanation.
            settings: Settings of `generate`.
            other_answer: An answer that is compared with the written one, as a contrast.
        """
        return None

    def read_prompt(self, model: ModelInterface, prompt: ReadPrompt) -> Encoding:
        """Encode a prompt for the part of the model that generates."""
        raise NotImplementedError

    def without_places(self, encoding: Encoding, prompt: ReadPrompt, places: Sequence[Sequence[Place]]) -> Encoding:
        """Return an encoding of a prompt, or of some of its tokens, whose media lack some places.

        Args:
            encoding: The encoding of the prompt.
            prompt: The prompt.
            places: Boxes or spans of each of the encoding's media.
        """
        raise NotImplementedError

    def read_completion(
        self, model: ModelInterface, prompt: ReadPrompt, before: Encoding, completion: str
    ) -> tuple[Encoding, int]:
        """Encode a prompt with a completion; `before` is the prompt as `read_prompt` encoded it.

        Returns:
            Both, and how many of the tokens are the prompt's.

        Raises:
            InputError: If the completion is empty or cannot be told from the prompt.
        """
        raise NotImplementedError

    def appended(self, model: ModelInterface, before: Encoding, ids: list[int]) -> Encoding:
        """Return a prompt and the tokens that follow it."""
        return append_tokens(self.tokenizer, before, ids)

    def locate(self, encodings: list[Encoding], position: Any) -> list[Encoding]:
        """Return the encodings with a note of the token whose prediction is to be explained.

        Raises:
            InputError: If the task has no position to choose, or a text no such place.
        """
        if position is None:
            return encodings
        hint = "; use explain_completion for the tokens of a text" if self.left_to_right else ""
        raise InputError(f"position= chooses a token of token classifiers and masked language models{hint}")

    def every_position(self, encoding: Encoding) -> list[int]:
        """Return the tokens whose predictions `position=ALL` explains.

        Raises:
            InputError: If the task has no position to choose, or a text no such place.
        """
        self.locate([encoding], 0)
        raise NotImplementedError

    def check_explains_inputs(self, model: ModelInterface) -> None:
        """Refuse models whose answer to a single text cannot be explained.

        Raises:
            UnsupportedModelError: If this is one.
        """

    def check_generates(self, model: ModelInterface) -> None:
        """Refuse models that do not generate text.

        Raises:
            UnsupportedModelError: If this is one.
        """
        if not self.generates:
            raise UnsupportedModelError(
                f"{type(model.module).__name__} is a model for {self.name}; only language models write text"
            )

    def check_prompts(self, model: ModelInterface) -> None:
        """Refuse models whose input is no prompt, which a completion could follow.

        Raises:
            InputError: If this is one.
        """

    def check_embeds(self, model: ModelInterface) -> None:
        """Refuse models that do not embed texts.

        Raises:
            UnsupportedModelError: If this is one.
        """
        raise UnsupportedModelError(
            f"{model.name} is a model for {self.name}; similarity needs one that embeds texts: load it with "
            "task='embedding', or pass a SentenceTransformer. A reranker, which reads both texts at once, is a "
            "classifier: explain the pair (query, document)"
        )

    def items_compared(self, items: Any) -> tuple[list[Any], bool]:
        """Return the items whose vectors are compared, and whether a single one was given.

        Raises:
            InputError: If an item is not a text.
        """
        texts, single = read_texts(items)
        if not all(isinstance(text, str) for text in texts):
            raise InputError("similarity compares single texts; a tuple is a pair that is read as one")
        return list(texts), single

    def part_for(self, model: nn.Module, item: Any) -> tuple[nn.Module, Any] | None:
        """Return the part of a model that embeds an item, with its tokenizer or processor; None for the whole model."""
        return None

    def encode_each(self, model: ModelInterface, items: Sequence[Any]) -> list[Encoding]:
        """Return the encodings of items whose vectors are compared."""
        return self.encoder(list(items))

    # Where the answer is read

    def positions(self, batch: Batch, logits: Tensor | None) -> Tensor | None:
        """Return the position whose prediction is explained, (B,), or start and end, (B, 2); None for whole-text heads.

        Args:
            batch: The batch.
            logits: The model's answers at every token, (B, T, C); not needed for language models.

        Raises:
            TargetError: If a text has no such position.
        """
        return None

    def known_position(self, encoding: Encoding) -> int | None:
        """Return the index of the token whose prediction is explained, None if it depends on the model's answer."""
        return encoding.position

    def answering_window(self, runs: Sequence[ForwardInterface]) -> int:
        """Return which of the windows of a long text holds the answer of a head that answers at a token."""
        return 0

    def in_whole_text(self, prediction: Prediction, places: Sequence[int]) -> Prediction:
        """Return the prediction of a window with its places counted in the whole text."""
        return prediction

    # Outputs

    def check_answer(self, logits: Tensor, name: str) -> None:
        """Refuse outputs that do not fit the task, such as two classes of a language model.

        Args:
            logits: The head's outputs, (B, C), or at every token, (B, T, C).
            name: The name of the model in errors.

        Raises:
            UnsupportedModelError: If it is not an answer for this task.
        """
        if (logits.ndim == 3) != self.per_token:
            expected = "every token" if self.per_token else "the whole text"
            raise UnsupportedModelError(
                f"{name} answers with logits of shape {tuple(logits.shape)}, and {self.name} needs logits for "
                f"{expected}"
            )

    def sized_by_answer(self, logits: Tensor, name: str, form: AnswerForm | None = None) -> "Task":
        """Return the task with as many outputs as a plain module returned.

        Args:
            logits: Its answer to one text.
            name: Its name in errors.
            form: What the module returns.

        Raises:
            UnsupportedModelError: If this is not an answer for the task.
            InputError: If the labels do not match the number of outputs.
        """
        Task.check_answer(self, logits, name)
        return self

    def check_contrast(self, contrast: Any) -> None:
        """Refuse a contrast where the outputs are not alternatives.

        Raises:
            TargetError: If there is one.
        """

    def default_target(self, logits: Tensor) -> Tensor:
        """Return the default target, (B, 1), for logits (B, C)."""
        return logits.argmax(-1, keepdim=True)

    def predicted(self, explained: Tensor) -> Tensor | None:
        """Return which output a prediction shows, (B, 1), if the explained ones, (B, K), decide it: those of values."""
        return explained[:, :1] if self.target_kind == "value" else None

    def output_index(self, name: str) -> int:
        """Return the index of the output with a name.

        Raises:
            TargetError: If there is none, or more than one.
        """
        matches = [index for index, label in enumerate(self.labels) if label == name]
        if not matches:
            matches = [index for index, label in enumerate(self.labels) if label.casefold() == name.casefold()]
        if len(matches) != 1:
            unlisted = (
                f" and {len(self.labels) - MAX_LISTED_LABELS} more" if len(self.labels) > MAX_LISTED_LABELS else ""
            )
            names = ", ".join(map(repr, self.labels[:MAX_LISTED_LABELS])) + unlisted
            similar = [] if matches else nearest(name, self.labels)
            hint = f"; did you mean {' or '.join(map(repr, similar))}?" if similar else ""
            problem = "more than one" if matches else "no"
            raise TargetError(f"{problem} label {name!r}; the model knows {names}{hint}")
        return matches[0]

    def output_name(self, index: int) -> str:
        """Return the name of an output."""
        return self.labels[index]

    def probabilities(self, logits: Tensor) -> Tensor | None:
        """Return the probabilities of the outputs, (N, C), of logits (N, C); None if they are values."""
        return logits.softmax(-1)

    def top(self, logits: Tensor, ids: Tensor | None = None) -> Tensor:
        """Return each row's predicted logit, its index and probability (NaN for none), (N, 3), of logits (N, C).

        With `ids`, (N, 1), those of these outputs instead of the predicted ones.
        """
        logits = logits.float()
        ids = self.default_target(logits) if ids is None else ids  # (N, 1)
        values, probabilities = logits.gather(-1, ids), self.probabilities(logits)  # (N, 1), (N, C)
        probability = torch.full_like(values, torch.nan)  # (N, 1)
        if probabilities is not None:
            probability = probabilities.gather(-1, ids)
        return torch.cat((values, ids.to(values.dtype), probability), -1)  # (N, 3)

    def describe(self, table: FloatArray) -> tuple[Prediction, ...]:
        """Return the predictions in a table of `top`, with their names."""
        values, indices = table[:, 0].tolist(), table[:, 1].astype(int).tolist()
        names = {index: self.output_name(index) for index in set(indices)}  # there may be a row for every token
        probabilities = [None if math.isnan(value) else value for value in table[:, 2].tolist()]
        return tuple(map(Prediction, map(names.__getitem__, indices), indices, values, probabilities))

    def answers(self, run: ForwardInterface) -> list[Prediction]:
        """Return the span that an extractive model predicts for each text of a batch."""
        raise NotImplementedError

    # Units

    def units(self, encoding: Encoding) -> tuple[Units, tuple[Medium, ...]]:
        """Return the units of an encoding, and its pictures and sounds."""
        return units_of_tokens(encoding), ()

    def result_inputs(self, encoding: Encoding) -> dict[str, Any]:
        """Return the fields of an `Attribution` that describe its input, by name."""
        units, media = self.units(encoding)
        texts = {"text": encoding.text, "text_pair": encoding.text_pair, "messages": message_spans(encoding.contents)}
        return {"units": units, "media": media, **texts, "notes": encoding.notes}


def message_spans(contents: Sequence[Content] | None) -> tuple[MessageSpan, ...] | None:
    """Return the spans of chat messages in the text that the model reads; None if it was one text from the start."""
    return None if contents is None else tuple(MessageSpan(c.role, c.start, c.end) for c in contents)


def of_prompt(tokenizer: Any, encoding: Encoding, prompt: ReadPrompt) -> Encoding:
    """Return the encoding of a prompt, with its notes and messages; tokens of the chat template count as special."""
    special_ids = set(tokenizer.all_special_ids)
    special = [
        is_special or token_id in special_ids
        for is_special, token_id in zip(encoding.special, encoding.ids, strict=True)
    ]
    if prompt.contents is not None and encoding.offsets is not None:
        for token, (start, end) in enumerate(encoding.offsets):
            inside = any(content.start < end and start < content.end for content in prompt.contents)
            special[token] |= not inside and start < len(prompt.text)
    notes = (*encoding.notes, *prompt.notes)
    return replace(encoding, special=tuple(special), notes=notes, contents=prompt.contents)


def units_of_tokens(encoding: Encoding) -> Units:
    """Return the tokens of a text as units."""
    return Units.of_tokens(
        encoding.tokens,
        special=encoding.special,
        sequence=encoding.sequence_ids,
        spans=encoding.offsets,
        words=encoding.words,
        ids=encoding.ids,
    )
