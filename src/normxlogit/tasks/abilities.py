"""What some tasks can do beside explaining an answer: continue prompts, and embed what is compared."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from ..errors import InputError, UnsupportedModelError
from ..inputs.alignment import append_tokens
from ..inputs.chat import ReadPrompt
from ..inputs.encoding import Encoding
from ..inputs.texts import read_texts
from .interfaces import ModelInterface

Region = tuple[float, ...]
"""A box in pixels, or a span in seconds."""


class Generates:
    """The ability of tasks whose models continue prompts, with a text."""

    def check_generates(self, model: ModelInterface) -> None:
        """Refuse models whose completions cannot be explained.

        Raises:
            UnsupportedModelError: If this is one.
        """

    def check_prompts(self, model: ModelInterface) -> None:
        """Refuse models whose input is no prompt, which a completion could follow.

        Raises:
            InputError: If this is one.
        """

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

    def reads_medium(self, kind: str) -> bool:
        """Return whether a message of a prompt can hold a "picture", or a "sound"."""
        return False

    def check_reads(self, model: ModelInterface, kind: str) -> None:
        """Refuse media in messages that the model does not read.

        Raises:
            InputError: If it does not read those of this kind.
        """
        raise InputError(texts_alone(model, kind))

    def read_prompt(self, model: ModelInterface, prompt: ReadPrompt) -> Encoding:
        """Encode a prompt for the part of the model that generates."""
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
        return append_tokens(model.tokenizer, before, ids)

    def without_places(self, encoding: Encoding, prompt: ReadPrompt, places: Sequence[Sequence[Region]]) -> Encoding:
        """Return an encoding of a prompt, or of some of its tokens, whose media lack some places.

        Args:
            encoding: The encoding of the prompt.
            prompt: The prompt.
            places: Boxes or spans of each of the encoding's media.
        """
        raise NotImplementedError


class Embeds:
    """The ability of tasks whose models embed texts, or what else is compared, as vectors."""

    def check_embeds(self, model: ModelInterface) -> None:
        """Refuse models that give no vector of each input.

        Raises:
            UnsupportedModelError: If this is one.
        """

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
        return model.encoder(list(items))


def generating_task(model: ModelInterface) -> Generates:
    """Return the task of a model that generates text.

    Raises:
        UnsupportedModelError: If it does not.
    """
    task = model.task
    if not isinstance(task, Generates):
        raise UnsupportedModelError(
            f"{type(model.module).__name__} is a model for {task.name}; only language models write text"
        )
    task.check_generates(model)
    return task


def embedding_task(model: ModelInterface) -> Embeds:
    """Return the task of a model that embeds.

    Raises:
        UnsupportedModelError: If it does not.
    """
    task = model.task
    if not isinstance(task, Embeds):
        raise UnsupportedModelError(
            f"{model.name} is a model for {task.name}; similarity needs one that embeds texts: load it with "
            "task='embedding', or pass a SentenceTransformer. A reranker, which reads both texts at once, is a "
            "classifier: explain the pair (query, document)"
        )
    task.check_embeds(model)
    return task


def texts_alone(model: ModelInterface, kind: str) -> str:
    """Return the error for a medium in a message to a model that reads texts."""
    return f"{model.name} reads texts alone, and a message holds a {kind}"
