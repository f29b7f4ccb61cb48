"""Completions of prompts: which sources of its prompt each rests on."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, get_args

from ...errors import InputError, check_choice
from ...inputs.chat import Prompt
from ...inputs.texts import positive_integer
from ...long_runs.cells import text_of
from ...model.task_model import TaskModel
from ...pipeline.arguments import checked_methods
from ...pipeline.completions.completed_prompts import encode_prompt, generate_each, read_completion
from ...pipeline.completions.sources import explain_sources
from ...pipeline.options import Options
from ...results.base import Record
from ...results.units.kinds import PartKind, SourceKind
from ...tasks.base import generating_task
from .base import Job, column
from .steps import Step

Cells = Mapping[str, Any]
"""What a job reads of a row, by the roles of the columns."""

GENERATED_AT_ONCE = 8
"""Prompts that are completed in one batch."""

TEXTS_OF_SOURCES = ("text", "units", "target", "question", "sentence_missing", "result_json")
"""Columns of results that hold text of the input."""


class CompletionJob(Job):
    """The base of jobs whose rows are prompts with completions."""

    max_new_tokens: int | None = None

    @abstractmethod
    def row(self, model: TaskModel, cells: Cells) -> Any:
        """Return a row with its completion, or a prompt for the model to complete.

        Args:
            model: The model.
            cells: The cells of the row, by role.
        """

    @abstractmethod
    def result(self, model: TaskModel, row: Any, options: Options) -> tuple[Record, int]:
        """Return the result of a row with its completion, and how many tokens were explained.

        Args:
            model: The model.
            row: The row with its completion.
            options: How it is explained.
        """

    def absent_columns(self, *, keep_text: bool) -> list[str]:
        """Return the columns of texts, if they were not asked for."""
        return [] if keep_text else [*TEXTS_OF_SOURCES]

    def model_of(self, model: TaskModel) -> TaskModel:
        """Return the part of the model that generates."""
        model = model.generating()
        generating_task(model)
        return model

    def steps(self, model: TaskModel, options: Options) -> Sequence[Step]:
        """Return the steps: a prompt is tokenised, completed if the input has no completions, and explained."""
        settings = {"max_new_tokens": self.max_new_tokens}
        # Rows are read and explained one by one: nothing is gained by several at once, and one may fail alone.
        read = Step(lambda rows: [self.row(model, cells) for cells in rows], at_once=1, row_errors=InputError)
        # It has no errors of rows: prompts that cannot be continued were refused when they were read.
        generate = Step(lambda prompts: generate_each(model, prompts, settings), at_once=GENERATED_AT_ONCE)
        explain = Step(
            lambda rows: [self.result(model, row, options) for row in rows], at_once=1, row_errors=InputError
        )
        return [read, explain] if self.max_new_tokens is None else [read, generate, explain]


@checked_methods
@dataclass(frozen=True)
class Completions(CompletionJob):
    """Which sources of its prompt a completion rests on, as `Explainer.explain_completion` explains them.

    Attributes:
        prompt_column: The column of the prompts, texts or lists of chat messages; "prompt" by default.
        completion_column: The column of the completions; "completion" by default.
        max_new_tokens: Let the model generate the completions instead, each of at most this many tokens.
        sources: How a prompt is divided into sources: "word", "sentence", "paragraph" or "message".
        parts: How a completion is divided into parts, each of which is explained: "token", "word", "sentence" or
            "paragraph"; by default it is explained as a whole.
        image_column: The column of a picture for each prompt, for models that read pictures beside words. Prompts that
            are chat messages hold their pictures and sounds themselves.
        audio_column: The same of a sound.

    Raises:
        InputError: If an argument has an invalid value.
    """

    kind: ClassVar[str] = "sources"

    prompt_column: str | None = column("prompt")
    completion_column: str | None = column("completion")
    _: KW_ONLY
    max_new_tokens: int | None = None
    sources: SourceKind = "sentence"
    parts: PartKind | None = None
    image_column: str | None = column(is_media=True)
    audio_column: str | None = column(is_media=True)

    def __post_init__(self) -> None:
        """Check what can be checked without a model."""
        check_choice("sources", self.sources, get_args(SourceKind), optional=False)
        check_choice("parts", self.parts, get_args(PartKind))
        if self.max_new_tokens is not None:
            positive_integer(self.max_new_tokens, "max_new_tokens")
            if self.completion_column is not None:
                raise InputError("completions come from a column or from the model: give one of the two, not both")

    def roles(self, *, reads_media: bool) -> dict[str, Sequence[str]]:
        """Return the prompts, their pictures and sounds, and the completions unless the model generates them."""
        roles = super().roles(reads_media=reads_media)
        if self.max_new_tokens is not None:
            del roles["completion"]
        return roles

    def row(self, model: TaskModel, cells: Cells) -> Any:
        """Return the prompt with its completion, or alone if the model generates it."""
        cell = cells["prompt"]
        # A list holds chat messages.
        prompt: Prompt = cell if isinstance(cell, list) else text_of(cell, self.prompt_column)
        media = [{"type": kind, kind: cells[kind]} for kind in ("image", "audio") if kind in cells]
        if media and not isinstance(prompt, str):
            raise InputError("chat messages hold their pictures and sounds themselves, and not in a column")
        if media:
            prompt = [{"role": "user", "content": [*media, {"type": "text", "text": prompt}]}]
        if self.max_new_tokens is None:
            return read_completion(model, prompt, text_of(cells["completion"], self.completion_column))
        encode_prompt(model, prompt)  # raises InputError for a prompt that cannot be continued
        return prompt

    def result(self, model: TaskModel, row: Any, options: Options) -> tuple[Record, int]:
        """Return the sources of a completion, and the number of tokens of prompt and completion."""
        return explain_sources(model, row, options, self.sources, self.parts), len(row.encoding)
