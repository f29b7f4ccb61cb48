"""The settings of a corpus run, as the manifest stores them."""

import json
from dataclasses import dataclass, replace
from typing import Any

from .._version import __version__
from ..inputs.texts import positive_integer
from ..methods import Method
from ..pipeline.options import Options
from ..tasks.targets import Choice
from .jobs import Job
from .rows.shards import InputColumns


@dataclass(frozen=True)
class Settings:
    """The settings of a run.

    Attributes:
        job: The job, with all its columns.
        columns: The columns of the input.
        method: The method.
        media_method: The method of prompts with pictures; None for the same.
        keep_text: Whether the texts are written, too.
        shard_rows: Rows of a shard.
    """

    job: Job
    columns: InputColumns
    method: Method
    media_method: Method | None
    keep_text: bool
    shard_rows: int

    def __post_init__(self) -> None:
        """Check what can be checked without a model."""
        positive_integer(self.shard_rows, "shard_rows")
        self.options()

    def options(self, targets: list[Choice] | None = None) -> Options:
        """Return the options for explaining a batch."""
        options = Options(
            targets=targets,
            method=self.method,
            media_method=self.media_method,
            token_predictions=False,
            progress=False,
        )
        return replace(options, **self.job.options())

    def described(self) -> dict[str, Any]:
        """Return the settings as plain values, by their public names."""
        media = self.media_method
        settings = {
            **self.job.described(),
            "id_column": self.columns.id,
            "keep": list(self.columns.keep),
            "keep_text": self.keep_text,
            "method": {"name": self.method.info.name, **self.method.settings},
            "method of pictures": None if media is None else {"name": media.info.name, **media.settings},
            "shard_rows": self.shard_rows,
            "version of normxlogit": __version__,
        }
        plain: dict[str, Any] = json.loads(json.dumps(settings))  # as a manifest reads it
        return plain
