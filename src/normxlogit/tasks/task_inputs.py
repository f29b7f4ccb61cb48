"""The part of a task that encodes inputs, rows of a corpus, prompts and completions."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..inputs.append_tokens import append_tokens
from ..inputs.chat import ReadPrompt
from ..inputs.encoder import LongText
from ..inputs.encoding import Encoding
from ..results.units.characters import safe
from .interfaces import ModelInterface

EXAMPLE_TEXT = "Is it so?"

LONGEST_PATH = 1000
"""Characters from which on a string is data and not the path of a file."""

NAMED = 60
"""Characters of an input that an error about it repeats at least."""


@contextmanager
def naming_input(place: int, item: Any) -> Iterator[None]:
    """Name an input in the errors about it: by its place, and by its path where that is not named yet."""
    try:
        yield
    except InputError as error:
        is_path = isinstance(item, Path) or (isinstance(item, str) and len(item) < LONGEST_PATH)  # not a data URI
        path = f", {safe(str(item))}" if is_path and not str(error).startswith(str(item)[:NAMED]) else ""
        raise InputError(f"input {place}{path}: {error}") from None


class TaskInputs:
    """How inputs are read."""

    tokenizer: Any

    def encode(
        self, model: ModelInterface, inputs: Any, *, long_text: LongText | None = None
    ) -> tuple[list[Encoding], bool]:
        """Encode whatever the caller gave, and return whether that was a single input rather than a collection.

        Raises:
            InputError: If something cannot be read.
        """
        return model.encoder.encode_input(inputs, long_text=long_text)

    def encode_rows(
        self, model: ModelInterface, rows: Sequence[Any], *, long_text: LongText = "truncate"
    ) -> tuple[Sequence[Encoding], dict[int, str]]:
        """Encode rows of a corpus.

        Returns:
            The encodings of the rows that can be read, in their order, and what is wrong with the others by place.
        """
        return model.encoder.columns(rows, long_text=long_text)

    def example_input(self, model: ModelInterface) -> Any:
        """Return an input on which a model shows what works on it before there is any other."""
        return EXAMPLE_TEXT

    def read_prompt(self, model: ModelInterface, prompt: ReadPrompt, *, special: bool) -> Encoding:
        """Encode a prompt as the side of the model that generates reads it; `special` adds special tokens."""
        raise NotImplementedError

    def read_completion(
        self, model: ModelInterface, prompt: ReadPrompt, before: Encoding, completion: str, *, special: bool
    ) -> tuple[Encoding, int]:
        """Encode a prompt, of which `read_prompt` made `before`, with a completion.

        Returns:
            Both, and how many of the tokens are the prompt's.

        Raises:
            InputError: If the completion is empty or cannot be told from the prompt.
        """
        raise NotImplementedError

    def appended(self, model: ModelInterface, before: Encoding, ids: list[int]) -> Encoding:
        """Return a prompt and the tokens that follow it."""
        return append_tokens(self.tokenizer, before, ids)
