"""The settings of a corpus run: everything that its results depend on, as a manifest keeps it."""

import json
from dataclasses import asdict, dataclass
from typing import Any, get_args

from .._version import __version__
from ..errors import InputError
from ..inputs.encoder import LongText
from ..inputs.texts import counted
from ..methods import Method, method_named
from ..model.layers import Layers
from ..pipeline.options import Options, Verify, checked_verify
from ..results.units.spans import PartKind, SourceKind
from ..results.units.words import MERGES, Merge
from ..tasks.targets import All, Choice, TargetSpec
from .rows.shards import InputColumns

SHARD_ROWS = 4096
"""Rows of a shard: what is sorted by length, what is written at once, and the most that a kill can cost."""

SLOW_ROWS = 64
"""Rows of a shard of prompts, pictures or sounds, of which each takes as long as hundreds of short texts."""


@dataclass(frozen=True)
class Settings:
    """The settings of a run.

    The other arguments are those of `attribute`.

    Attributes:
        columns: Which columns of the input are what.
        sources: How a prompt is divided into sources; None where texts are explained and not completions.
        media_method: The method of prompts with pictures; None for the same.
        turn: Which of the assistant's texts in a conversation is the answer, counted from 0; None for the last.
        verify: How many sources of an answer are left out to test its citations; None for none.
    """

    columns: InputColumns
    target: TargetSpec = None
    contrast: Choice | None = None
    method: str | Method = "normxlogit"
    layers: Layers = None
    long_text: LongText = "truncate"
    words: bool = False
    merge: Merge | None = None
    keep_text: bool = False
    shard_rows: int = SHARD_ROWS
    sources: SourceKind | None = None
    parts: PartKind | None = None
    max_new_tokens: int | None = None
    media_method: str | Method | None = None
    turn: int | None = None
    verify: Verify = None

    def __post_init__(self) -> None:
        """Check what can be checked without a model."""
        counted(self.shard_rows, "shard_rows")
        if self.merge is not None and self.merge not in MERGES:
            raise InputError(f"merge must be {', '.join(map(repr, MERGES))} or None, not {self.merge!r}")
        if self.columns.target is not None and self.target is not None:
            raise InputError("give a target for all rows or a column with one for each, not both")
        if self.turn is not None and not self.columns.messages:
            raise InputError("turn picks an answer of a conversation: give the column of the messages with it")
        if isinstance(self.turn, bool) or not isinstance(self.turn, int | None):
            raise InputError(f"turn is a number, not {self.turn!r}")
        object.__setattr__(self, "verify", checked_verify(self.verify))
        if self.verify is not None and not self.columns.cited:
            raise InputError(
                "verify tests the citations of answers: give their column, or that of conversations; "
                "of labels summarize(..., verify=) deletes words"
            )
        self.options()
        if self.sources is None:
            self._check_texts()
        else:
            self._check_prompts()

    def _check_texts(self) -> None:
        if self.merge is not None and not self.words:
            raise InputError("merge says how tokens make words, and there are none without words: give words too")
        of_prompts = {
            "a column of pictures beside texts": self.columns.image,
            "a column of completions": self.columns.completion,
            "parts": self.parts,
            "max_new_tokens": self.max_new_tokens,
        }
        for name, value in of_prompts.items():
            if value is not None:
                raise InputError(f"{name} is for the sources of completions: give sources, such as 'sentence'")
        of_texts = {
            "a column of pairs": self.columns.pair is not None,
            "words": self.words,
            "long_text": self.long_text != "truncate",
        }
        for name, is_set in of_texts.items():
            if self.columns.media and is_set:
                raise InputError(f"{name} is for texts, not for pictures and sounds")

    def _check_prompts(self) -> None:
        for name, kind, kinds in (("sources", self.sources, SourceKind), ("parts", self.parts, PartKind)):
            if kind not in (None, *get_args(kinds)):
                raise InputError(f"{name} must be {', '.join(map(repr, get_args(kinds)))} or None, not {kind!r}")
        if self.columns.cited and (self.sources, self.parts) != ("sentence", None):
            raise InputError("answers are cited by sentence: leave out parts, and sources or give 'sentence'")
        if not self.columns.messages and (self.columns.completion is None) == (self.max_new_tokens is None):
            raise InputError("completions come from a column or from the model: give their column or max_new_tokens")
        if self.max_new_tokens is not None:
            counted(self.max_new_tokens, "max_new_tokens")
        if self.columns.cited and self.columns.image is not None:
            raise InputError("a column of pictures is for prompts, not for answers that are cited")
        unfit = {
            "a column of pairs": self.columns.pair,
            "a column of targets": self.columns.target,
            "target": self.target,
            "contrast": self.contrast,
            "layers": self.layers,
            "merge": self.merge,
            "words": self.words or None,
            "long_text": None if self.long_text in ("truncate", "error") else self.long_text,
        }
        for name, value in unfit.items():
            if value is not None:
                raise InputError(f"{name} is for texts, not for the sources of completions")

    def options(self, targets: list[Choice] | None = None) -> Options:
        """Return the options that each batch is explained with."""
        return Options(
            self.target,
            targets,
            self.contrast,
            self.layers,
            method_named(self.method),
            None,
            self.long_text,
            token_predictions=False,
            progress=False,
            media_method=None if self.media_method is None else method_named(self.media_method),
            verify=self.verify,
        )

    def described(self) -> dict[str, Any]:
        """Return the settings as plain values, by the names that a user knows."""
        method = method_named(self.method)
        media = self.options().media_method
        columns = asdict(self.columns)
        settings = {
            **{f"{name} column": columns[name] for name in columns if name not in ("keep", "prompts", "media")},
            "kept columns": list(self.columns.keep),
            "target": _plain(self.target),
            "contrast": _plain(self.contrast),
            "method": {"name": method.info.name, **method.settings},
            "method of pictures": None if media is None else {"name": media.info.name, **media.settings},
            "layers": _plain(self.layers),
            "long texts": self.long_text,
            "words": self.words,
            "merge": self.merge,
            "kept text": self.keep_text,
            "rows of a shard": self.shard_rows,
            "sources": self.sources,
            "parts of completions": self.parts,
            "most tokens written": self.max_new_tokens,
            "turn": self.turn,
            "verify": self.verify,
            "version of normxlogit": __version__,
        }
        plain: dict[str, Any] = json.loads(json.dumps(settings))  # as a manifest reads it
        return plain


def _plain(value: Any) -> Any:
    if isinstance(value, All):
        return {"all": True}  # a label may be called "all"
    if value is None or isinstance(value, str):
        return value
    if hasattr(value, "__index__"):
        return int(value)
    return [_plain(part) for part in value]
