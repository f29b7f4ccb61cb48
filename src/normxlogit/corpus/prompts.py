"""The shard function for prompts and completions, and for answers: which sources each rests on."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..inputs.chat import Prompt
from ..inputs.documents.conversations import read_conversation
from ..model.task_model import TaskModel
from ..pipeline.citations.cite import Answered, ask, ask_in, cite_answered
from ..pipeline.completions.completed import Completed
from ..pipeline.completions.sources import explain_sources, sources_and_parts
from ..pipeline.completions.writing import generate_each, opened, read_completion
from ..results.attribution import Attribution
from ..results.citations import Citations
from ..results.units.spans import PartSpec, SourceKind, SourceSpec
from .halving import Halving
from .rows.media import BESIDE, media_of
from .rows.shards import Shard
from .settings import Settings
from .worker import ExplainedShard

WRITTEN_AT_ONCE = 8
"""Prompts that are continued together."""


@dataclass(frozen=True)
class PreparedPrompts:
    """A shard of prompts.

    Attributes:
        prompts: Its prompts that can be read, by row, texts or chat messages.
        completed: Those with a completion, by row.
        answers: Those whose answer is cited, by row.
        problems: Why the other rows have none, by row.
    """

    shard: Shard
    prompts: dict[int, Prompt]
    completed: dict[int, Completed]
    answers: dict[int, Answered]
    problems: dict[int, str]


class PromptWorker:
    """Explains shards of prompts with one language model.

    Raises:
        UnsupportedModelError: If the model is not a language model.
        InputError: If its tokenizer reports no character offsets.
    """

    def __init__(self, model: TaskModel, settings: Settings) -> None:
        self.model = model.generating()
        self.model.task.check_generates(self.model)
        if not self.model.tokenizer.is_fast:
            raise InputError("sources need a tokenizer that reports character offsets")
        self.settings = settings
        self._sources: SourceKind = settings.sources or "sentence"
        self._reading, self._explaining = Halving(), Halving()  # in a thread each

    def prepare(self, shard: Shard) -> PreparedPrompts:
        """Tokenise the prompts with the completions of the input.

        Raises:
            InputError: If the tokenizer has no chat template and the first rows all need one.
        """
        columns = shard.table.to_pydict()
        problems = {row: reason for row, reason in enumerate(columns["problem"]) if reason is not None}
        texts = zip(columns["text"], columns.get("messages", [False] * len(columns["text"])), strict=True)
        prompts: dict[int, Prompt] = {
            row: json.loads(text) if chat else text for row, (text, chat) in enumerate(texts) if row not in problems
        }
        if self.settings.columns.image is not None:
            pictures = media_of(shard.table, BESIDE)
            prompts = {row: _about_picture(prompt, pictures[row], problems, row) for row, prompt in prompts.items()}
        completed: dict[int, Completed] = {}
        answers: dict[int, Answered] = {}
        readers = (self.model.tokenizer, self.model.reader)
        template = any(getattr(reader, "chat_template", None) for reader in readers)

        def read(rows: list[int]) -> list[Any]:
            (row,) = rows
            try:
                if self.settings.columns.cited:
                    answers[row] = self._answer({name: column[row] for name, column in columns.items()})
                    completed[row] = answers[row].completed
                elif self.settings.max_new_tokens is None:
                    completed[row] = read_completion(self.model, prompts[row], columns["completion"][row])
                else:
                    opened(self.model, prompts[row])
            except InputError as error:
                if "messages" in columns and columns["messages"][row] and not template:
                    raise  # the model's fault and not the row's
                problems[row] = str(error)
            return []

        for row in [row for row in prompts if row not in problems]:
            self._reading(read, [row], lambda row, reason: problems.update({row: reason}))
        readable = {row: prompt for row, prompt in prompts.items() if row not in problems}
        return PreparedPrompts(shard, readable, completed, answers, problems)

    def _answer(self, row: Mapping[str, Any]) -> Answered:
        """Encode the answer of a row, with its documents or what was said before it."""
        if not self.settings.columns.messages:
            question, documents = row["text"], json.loads(row["documents"])
            return Answered(ask(self.model, question, documents, answer=row["completion"]), question)
        conversation = read_conversation(json.loads(row["text"]))
        _, answer = conversation.until(self.settings.turn)
        if answer is None:
            raise InputError("the assistant says nothing in this conversation")
        return ask_in(self.model, conversation, self.settings.turn)

    def explain(self, prepared: PreparedPrompts) -> ExplainedShard:
        """Generate the completions that the input lacks, and explain the sources of each.

        Raises:
            NormXLogitError: If the model or the settings are at fault, not single rows.
        """
        settings, problems = self.settings, dict(prepared.problems)
        options, cited = settings.options(), settings.columns.cited
        completed = dict(prepared.completed)
        sources: dict[int, Attribution | Citations] = {}

        def write(rows: list[int]) -> list[Any]:
            count = settings.max_new_tokens or 1
            written = generate_each(self.model, [prepared.prompts[row] for row in rows], {"max_new_tokens": count})
            completed.update(zip(rows, written, strict=True))
            return []

        def explain(rows: list[int]) -> list[Any]:
            for row in rows:
                prompt = completed[row]
                kinds: SourceSpec = prompt.named_sources if cited else self._sources
                parts: PartSpec = "sentence" if cited else settings.parts
                try:
                    sources_and_parts(prompt, kinds, parts)
                except InputError as error:  # the row's fault, however many there are
                    report(row, str(error))
                    continue
                if cited:
                    sources[row] = cite_answered(self.model, prepared.answers[row], options)
                else:
                    sources[row] = explain_sources(self.model, prompt, options, kinds, parts)
            return []

        def report(row: int, reason: str) -> None:
            problems[row] = reason

        if settings.max_new_tokens is not None:
            waiting = list(prepared.prompts)
            for start in range(0, len(waiting), WRITTEN_AT_ONCE):
                self._explaining(write, waiting[start : start + WRITTEN_AT_ONCE], report)
        for row in completed:
            self._explaining(explain, [row], report)
        rows = sorted(sources)
        encodings = [completed[row].encoding for row in rows]
        results = {place: sources[row] for place, row in enumerate(rows)}
        return ExplainedShard(prepared.shard, rows, encodings, [], results, problems)


def _about_picture(prompt: Prompt, picture: Any, problems: dict[int, str], row: int) -> Prompt:
    """Return a text as a message with a picture before it."""
    if not isinstance(prompt, str):
        problems[row] = "the prompt is chat messages, which hold their pictures themselves, and not in a column"
        return prompt
    return [{"role": "user", "content": [{"type": "image", "image": picture}, {"type": "text", "text": prompt}]}]
