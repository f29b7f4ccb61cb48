"""Prompts with their completions, given or generated, before anything is explained."""

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import torch
from jinja2 import TemplateError
from transformers import GenerationConfig

from ...compat import parses_responses
from ...copies.memory import enough_memory
from ...errors import InputError
from ...inputs.chat import Prompt, ReadPrompt, has_chat_template, read_prompt
from ...inputs.encoder import private_tokenizer
from ...inputs.encoding import Encoding, check_ids
from ...inputs.texts import checked_whole_number, positive_integer
from ...model.generation import generated_ids
from ...model.task_model import TaskModel
from ...results.units.media import is_region
from ...results.units.spans import MessageSpan, Sequenced, SourceSpec
from ...tasks.base import generating_task, message_spans
from ...tasks.seq2seq import with_first_tokens

NAMES, MARKS = ("reasoning_content", "thinking", "reasoning"), ("<think>", "</think>")
"""What templates call the reasoning in a message, and what stands around it where the tokenizer declares nothing."""

Spans = tuple[tuple[int, int], ...]

ReasoningSpec = Iterable[tuple[int, int]] | tuple[str, str]
"""Where a completion reasons: spans of its characters, or what stands before and behind the reasoning."""


def reasoning_spans(model: TaskModel, completion: str, prompt: str, spec: Any = None) -> tuple[Spans, Spans]:
    """Return where a completion reasons.

    Args:
        model: The model.
        completion: The completion.
        prompt: What stands before it.
        spec: The caller's `ReasoningSpec`; without one, the tokenizer's response template says it, or what its chat
            template writes around the reasoning.

    Returns:
        The spans (start, end) of the reasoning, in characters of the completion, and those with the marks around.
    """
    by_marks = are_marks(spec)
    opening, ending = (spec[0].strip(), spec[1].strip()) if by_marks else reasoning_marks(model.reader)
    if spec is not None and not by_marks:
        spans = _checked(spec, completion)
    elif thought := "" if by_marks else _parsed(model.tokenizer, completion, prompt):
        start = completion.find(thought)
        spans = ((start, start + len(thought)),)
    elif ending in completion:
        end = completion.find(ending)
        start = completion.find(opening) + len(opening) if opening in completion[:end] else 0
        spans = ((start, end),)  # it may be empty, of a model that answers at once
    else:
        spans = ()
    return spans, tuple(_with_marks(completion, span, (opening, ending)) for span in spans)


def are_marks(spec: Any) -> bool:
    """Return whether the caller gave what stands around the reasoning, rather than spans."""
    return isinstance(spec, list | tuple) and len(spec) == 2 and all(isinstance(m, str) and m.strip() for m in spec)


def opens_reasoning(prompt: str, opening: str) -> bool:
    """Return whether a prompt ends with the mark that opens a reasoning, as some chat templates write it."""
    return prompt.rstrip().endswith(opening or MARKS[0])


def shifted(spec: Any, by: int) -> Any:
    """Return the spans of a `ReasoningSpec` moved by some characters; None and marks as they are.

    Args:
        spec: What the caller gave.
        by: By how many characters.

    Raises:
        InputError: If these are not spans.
    """
    if spec is None or are_marks(spec):
        return spec
    try:
        return sorted((checked_whole_number(start) + by, checked_whole_number(end) + by) for start, end in spec)
    except (TypeError, ValueError):  # of something else than pairs of whole numbers
        raise InputError("reasoning= takes spans (start, end) of the completion, or two texts around it") from None


def _checked(spec: ReasoningSpec, completion: str) -> Spans:
    """Return the spans of the caller in their order."""
    spans, end_before = shifted(spec, 0), 0
    for start, end in spans:
        if not end_before <= start < end <= len(completion):
            raise InputError(f"reasoning: {(start, end)} is empty, overlaps another, or ends after {len(completion)}")
        end_before = end
    return tuple(spans)


def _with_marks(completion: str, span: tuple[int, int], marks: tuple[str, str]) -> tuple[int, int]:
    """Return a span with the marks that stand around it, and the white space behind them."""
    before, behind = completion[: span[0]].rstrip(), completion[span[1] :].lstrip()
    start = len(before) - len(marks[0]) if marks[0] and before.endswith(marks[0]) else span[0]
    after = behind.removeprefix(marks[1])
    return start, span[1] if after == behind else len(completion) - len(after.lstrip())


def _parsed(tokenizer: Any, completion: str, prompt: str) -> str:
    """Return the reasoning that a tokenizer's response template finds in a completion; "" for none, as it stands."""
    if not parses_responses(tokenizer):
        return ""
    try:
        message = tokenizer.parse_response(completion, prefix=prompt)
    except ValueError:  # a field that it requires is not there
        return ""
    thought = next((str(message[name]).strip() for name in NAMES if message.get(name)), "")
    return thought if thought in completion else ""


def reasoning_marks(reader: Any) -> tuple[str, str]:
    """Return what a chat template writes before the reasoning of a message, and between it and the content."""
    if not has_chat_template(reader):
        return MARKS
    thought, answer, question = "First this is thought.", "Then that is said.", {"role": "user", "content": "?"}
    message = {"role": "assistant", "content": answer, **dict.fromkeys(NAMES, thought)}
    render = partial(reader.apply_chat_template, tokenize=False)
    try:
        prompt = render([question], add_generation_prompt=True)
        answered = render([question, message], add_generation_prompt=False)
    except (TemplateError, TypeError, ValueError):  # of a template that takes no such message
        return MARKS
    before, _, after = answered.partition(thought)
    ending = after.partition(answer)[0].strip()
    opening = before.removeprefix(prompt).strip() if before.startswith(prompt) else ""  # or the prompt ends with it
    return (opening, ending) if ending else MARKS


NO_MESSAGES = ReadPrompt("", None)


@dataclass(frozen=True)
class Completed:
    """A prompt with its completion.

    Attributes:
        encoding: Both, as the model reads them; of an encoder-decoder model what its decoder reads, with the source.
        named_sources: Spans of the sources that the caller named, in characters of the text, by name.
        other: The same prompt with another completion, which this one is explained against.
        reasoning: Spans in which the completion reasons, in its characters; `marked_reasoning` with the marks around.
        by_model: Whether the model generated it, with its cache.
    """

    encoding: Encoding
    prompt_tokens: int
    prompt_characters: int
    prompt: ReadPrompt = NO_MESSAGES
    named_sources: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    other: "Completed | None" = None
    reasoning: Spans = ()
    marked_reasoning: Spans = ()
    by_model: bool = False

    @cached_property
    def context(self) -> Encoding:
        """What the model reads: all but the last token, from which nothing is predicted."""
        return self.encoding.take(range(len(self.encoding) - 1))

    @property
    def generated_ids(self) -> list[int]:
        """The tokens of the completion."""
        return self.encoding.ids[self.prompt_tokens :]

    def part(self, first: int, stop: int) -> "Completed":
        """Return the generated tokens from `first` to `stop`, exclusive, as a completion of all tokens before them."""
        encoding = self.encoding.take(range(self.prompt_tokens + stop))
        return replace(self, encoding=encoding, prompt_tokens=self.prompt_tokens + first)

    def joined(self) -> "Completed":
        """Return a copy whose prompt begins with the source of an encoder-decoder model, on a line of its own."""
        encoded, source = self.encoding, self.encoding.source
        if source is None:
            return self
        text, offsets, shift = None, None, 0
        if None not in (source.text, source.offsets, encoded.text, encoded.offsets):
            shift = len(source.text or "") + 1
            text = f"{source.text}\n{encoded.text}"
            offsets = (*(source.offsets or ()), *((start + shift, end + shift) for start, end in encoded.offsets or ()))
        ids, tokens = {"input_ids": [*source.ids, *encoded.ids]}, (*source.tokens, *encoded.tokens)
        sequences, special = (*source.sequence_ids, *encoded.sequence_ids), (*source.special, *encoded.special)
        encoding = Encoding(ids, tokens, offsets, None, sequences, special, text, notes=encoded.notes)
        start, characters = len(source) + self.prompt_tokens, shift + self.prompt_characters
        return replace(self, encoding=encoding, prompt_tokens=start, prompt_characters=characters)

    def with_reasoning(self, model: TaskModel, spec: ReasoningSpec | None = None) -> "Completed":
        """Return a copy that knows where the completion reasons; see `reasoning_spans`."""
        text, start = self.encoding.text or "", self.prompt_characters
        spans, marked = reasoning_spans(model, text[start:], text[:start], spec)
        return replace(self, reasoning=spans, marked_reasoning=marked)

    def without(self, out: Collection[int]) -> Encoding:
        """Return the model's input without some tokens of the prompt, by their places in `joined`."""
        encoded, source = self.encoding, self.encoding.source
        start = 0 if source is None else len(source)
        kept = encoded.take(place for place in range(len(encoded)) if start + place not in out)
        if source is None:
            return kept
        return replace(kept, source=source.take(place for place in range(start) if place not in out))

    @property
    def messages(self) -> tuple[MessageSpan, ...] | None:
        """The spans of a chat's messages in the text; None if the prompt was one text."""
        return message_spans(self.prompt.contents)

    def sequenced(self) -> Sequenced:
        """Return prompt and completion as characters and tokens; `joined` for an encoder-decoder model."""
        joined, reasoning = self.joined(), list(zip(self.reasoning, self.marked_reasoning, strict=True))
        text, offsets, special = joined.encoding.text, joined.encoding.offsets, joined.encoding.special
        if offsets is None or text is None:
            raise InputError("sources need the text and the character offsets of its tokens")
        prompt = joined.prompt_tokens, joined.prompt_characters
        return Sequenced(text, offsets, special, *prompt, self.messages, reasoning=reasoning)

    def without_reasoning(self) -> "Completed":
        """Return the answer without its reasoning; the marks around it stay, as of a model that answers at once."""
        if not self.reasoning:
            return self
        sequence = self.sequenced()
        shift = sequence.prompt_characters
        spans = [(shift + start, shift + end) for start, end in self.reasoning]
        tokens = {token for span in spans for token in sequence.tokens_in(*span, of_answer=True)}
        return replace(self, encoding=self.without(tokens))

    def division(self, sources: SourceSpec | Mapping[str, Sequence[int]]) -> SourceSpec:
        """Return the division of the prompt into sources, with spans in its whole text; see `span_of`."""
        if not isinstance(sources, Mapping):
            return sources
        named = {str(name): tuple(span) for name, span in sources.items()}
        return {name: span if is_region(span) else self.span_of(name, span) for name, span in named.items()}

    def span_of(self, name: str, span: tuple[int, ...]) -> tuple[int, int]:
        """Return a span (start, end), or (message, start, end) in a message's content, in the whole prompt."""
        contents = self.prompt.contents
        if len(span) != (2 if contents is None else 3):
            form = "(start, end)" if contents is None else "(message, start, end)"
            raise InputError(f"source {name!r}: in this prompt a span is {form}, in characters, not {span!r}")
        if contents is None:
            return span[0], span[1]
        content = next((c for c in contents if c.holds(*span)), None)
        if content is None:
            raise InputError(f"source {name!r}: {span[1:]} is not a span of message {span[0]} as the prompt holds it")
        return content.place_of(span[1]), content.place_of(span[2])


DECODER_IDS = "decoder_input_ids"
PROMPT_INPUTS = {"attention_mask", DECODER_IDS, "encoder_outputs", "input_ids", "inputs", "inputs_embeds"}
PROMPT_INPUTS |= {"input_features", "past_key_values", "pixel_values"}
MOST = 40
"""The argument of `generate` with which a decoder begins, those that hold a prompt, and its default length."""

GREEDY = "generated greedily, where the model's own settings sample; do_sample=True samples"


@enough_memory("let the model go on with this prompt")
def generate_each(
    model: TaskModel,
    prompts: Sequence[Prompt | ReadPrompt | Encoding],
    options: Mapping[str, Any],
    reasoning: ReasoningSpec | None = None,
) -> list[Completed]:
    """Generate completions of prompts, in batches if that gives the same tokens; several of a prompt are in a row."""
    model.refresh()
    generating_task(model)
    prompted = [encode_prompt(model, prompt) for prompt in prompts]
    options = merged_settings(model, options)
    begun, rooms = _decoder_ids(options), [_room(model, prompt, options) for prompt in prompted]
    completions: dict[int, list[Completed]] = {}
    with torch.inference_mode():
        for count in sorted({room.most for room in rooms}, reverse=True):  # generate has one limit for a batch
            indices = [index for index, room in enumerate(rooms) if room.most == count]
            config, generate_options = generation_config(model, options, count)
            generated = generated_ids(model, [prompted[index].encoding for index in indices], config, generate_options)
            for index, sequences in zip(indices, generated, strict=True):
                notes = (*sampling_note(model, options), *rooms[index].notes)
                completions[index] = [_completed(model, prompted[index], ids, notes, begun) for ids in sequences]
    return [
        completed.with_reasoning(model, reasoning)
        for _, several in sorted(completions.items())
        for completed in several
    ]


class _Room(NamedTuple):
    """How many tokens are generated at most, and a note if that is fewer than requested."""

    most: int
    notes: tuple[str, ...] = ()


def _room(model: TaskModel, prompt: Completed, options: Mapping[str, Any]) -> _Room:
    """Return the room for what is generated after a prompt."""
    limit, encoding = model.answer_limit, prompt.encoding
    requested = most_new_tokens(model, options, len(encoding) if encoding.source is None else 1)
    if limit is None or requested <= limit - len(encoding):
        return _Room(requested)
    count = limit - len(encoding)
    return _Room(count, (f"the model reads {limit} tokens, so it could write only {count}",))


def _completed(
    model: TaskModel, prompt: Completed, ids: list[int], notes: tuple[str, ...], given: Sequence[int] = ()
) -> Completed:
    """Return a prompt with the tokens that `generate` returned, of which a decoder was `given` the first."""
    encoding = prompt.encoding
    if encoding.source is not None:  # generate chose the decoder's first token, by settings of this call
        count = len(given) + (ids[: len(given)] != list(given)) if given else 1  # it may put its own before those
        encoding, ids = with_first_tokens(model.tokenizer, encoding, ids[:count]), ids[count:]
        prompt = replace(prompt, prompt_tokens=len(encoding))
    sequence = generating_task(model).appended(model, encoding, ids)
    return replace(prompt, encoding=replace(sequence, notes=(*prompt.encoding.notes, *notes)))


def merged_settings(model: TaskModel, called: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of `generate` that a call gives, with those of the pipeline that the model came with."""
    return model.pipeline.generation.of_call(called, _configured(getattr(model.module, "generation_config", None)))


def _configured(config: Any) -> dict[str, Any]:
    """Return what a configuration of `generate` sets to other values than transformers does."""
    return config.to_diff_dict() if isinstance(config, GenerationConfig) else {}


def sampling_note(model: TaskModel, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a note if the model or its pipeline would sample, and the call does not say whether to."""
    of_call = {**_configured(settings.get("generation_config")), **settings}
    if of_call.get("do_sample") is not None:
        return ()
    config = getattr(model.module, "generation_config", None)
    return (GREEDY,) if model.pipeline.generation.samples or getattr(config, "do_sample", False) else ()


def most_new_tokens(model: TaskModel, options: Mapping[str, Any], before: int) -> int:
    """Return the maximal number of generated tokens after so many, which `max_length` counts, as transformers does.

    `max_new_tokens` goes before `max_length`, and both before those of a `generation_config`: that of the call, and
    then the model's own.
    """
    configs = options.get("generation_config"), getattr(model.module, "generation_config", None)
    for settings in (options, *map(_configured, configs)):
        if settings.get("max_new_tokens") is not None:
            return positive_integer(settings["max_new_tokens"], "max_new_tokens")
        if settings.get("max_length") is not None:
            length = positive_integer(settings["max_length"], "max_length")
            if length <= before:
                raise InputError(
                    f"max_length={length} leaves no room: {before} tokens stand before the answer; pass max_new_tokens="
                )
            return length - before
    return MOST


def encode_prompt(model: TaskModel, prompt: Prompt | ReadPrompt | Encoding) -> Completed:
    """Encode a prompt, without a completion."""
    encoding, rendered = _read_prompt(model, prompt)
    limit = model.answer_limit
    if limit is not None and limit <= len(encoding):
        lengths = f"the prompt has {len(encoding)} tokens and the model reads {limit}"
        raise InputError(f"{lengths}: there is no room to generate")
    return Completed(encoding, len(encoding), len(encoding.text or ""), rendered)


def read_completion(
    model: TaskModel,
    prompt: Prompt | ReadPrompt | Encoding,
    completion: str | Sequence[int],
    *,
    longer: bool = False,
    reasoning: ReasoningSpec | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Completed:
    """Encode a prompt and a given completion as one text, which only with `longer` may exceed the model's length.

    A token that holds the end of the one and the beginning of the other belongs to the completion. `settings` are
    those of `generate` with which it is written.
    """
    model.refresh()
    task = generating_task(model)
    prompt_encoding, rendered = _read_prompt(model, prompt)
    if isinstance(completion, str) and isinstance(prompt, Encoding):
        completion = private_tokenizer(model.tokenizer).encode(completion, add_special_tokens=False)
    if isinstance(completion, str):
        settings = merged_settings(model, settings or {})
        encoding, count = task.read_completion(model, rendered, prompt_encoding, completion, settings)
    else:
        count, ids = len(prompt_encoding), _row_of_ids(completion, "a completion is a text or a row of token ids")
        check_ids(ids, model.encoder.vocabulary, "the completion")
        encoding = task.appended(model, prompt_encoding, ids)
    if count == 0:
        raise InputError("nothing stands before the completion; give a prompt")
    if len(encoding) <= count:
        raise InputError("the completion is empty")
    limit = model.answer_limit
    if limit is not None and len(encoding) > limit and not longer:
        parts = "prompt and completion have" if encoding.source is None else "the completion has"
        raise InputError(f"{parts} {len(encoding)} tokens and the model reads {limit}; shorten them")
    completed = Completed(encoding, count, len(prompt_encoding.text or ""), rendered)
    return completed.with_reasoning(model, reasoning)


def generation_config(
    model: TaskModel, options: Mapping[str, Any], room: int
) -> tuple[GenerationConfig, dict[str, Any]]:
    """Return the generation settings, greedy unless sampling is requested, and the remaining options."""
    of_prompt = PROMPT_INPUTS - ({DECODER_IDS} if model.copy.decoder_limit is not None else set())
    if inputs := sorted(name for name in of_prompt if options.get(name) is not None):
        raise InputError(f"generate: {inputs[0]}= is made of the prompt; leave it out")
    settings = dict(options)
    if settings.get(DECODER_IDS) is not None:
        settings[DECODER_IDS] = torch.tensor([_decoder_ids(options)], device=model.device)  # (1, D)
    of_call = settings.pop("generation_config", None)
    config = _merged_config(of_call, model.module.generation_config)
    if not settings.get("do_sample", getattr(of_call, "do_sample", False)):
        settings |= {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
    if config.pad_token_id is None:
        config.pad_token_id = model.pad_id
    config.max_length = None
    settings.pop("max_length", None)
    settings["max_new_tokens"] = room
    if settings.get("stop_strings") or config.stop_strings:
        settings.setdefault("tokenizer", model.tokenizer)
    try:
        return config, config.update(**settings)
    except ValueError as error:  # settings that do not go together, such as several sequences of greedy search
        raise InputError(f"generate: {str(error).strip().splitlines()[0]}") from None


def _merged_config(of_call: Any, of_model: Any) -> GenerationConfig:
    """Return a copy of the configuration of a call; what it leaves open is the model's, as `generate` has it."""
    config = copy.deepcopy(of_call or of_model or GenerationConfig())
    if not isinstance(config, GenerationConfig):
        raise InputError(f"generation_config must be a GenerationConfig of transformers, not {type(config).__name__}")
    for name in _configured(of_model).keys() - _configured(config).keys():
        setattr(config, name, getattr(of_model, name))
    return config


def _decoder_ids(options: Mapping[str, Any]) -> list[int]:
    """Return the token ids with which a call lets a decoder beside an encoder begin."""
    given = options.get(DECODER_IDS)
    if given is None:
        return []
    return _row_of_ids(given, f"{DECODER_IDS}= is a row of token ids for all prompts")


def _row_of_ids(values: Any, expected: str) -> list[int]:
    """Return token ids as plain numbers, of a row or of the only row of a table, as cut out of what `generate` returns.

    Args:
        values: What the caller gave.
        expected: What it should be, for the error.

    Raises:
        InputError: If these are not whole numbers in a row.
    """
    try:
        if isinstance(values, bytes):
            raise TypeError
        numbers = list(values)
        if len(numbers) == 1 and (isinstance(numbers[0], list) or getattr(numbers[0], "ndim", 0) == 1):
            numbers = numbers[0]
        return [checked_whole_number(number) for number in numbers]
    except (TypeError, RuntimeError):  # also of a tensor of several rows, of floats, or without an axis
        raise InputError(f"{expected}, not {type(values).__name__}") from None


def _read_prompt(model: TaskModel, prompt: Prompt | ReadPrompt | Encoding) -> tuple[Encoding, ReadPrompt]:
    task = generating_task(model)
    if isinstance(prompt, Encoding):
        return prompt, ReadPrompt(prompt.text or "", None)
    if isinstance(prompt, ReadPrompt):
        return task.read_prompt(model, prompt), prompt
    if isinstance(prompt, str):
        prompt = model.pipeline.prefix + prompt
    rendered = read_prompt(model.reader, prompt, model.pipeline.chat)
    for medium in rendered.media:
        task.check_reads(model, medium.kind)
    encoding, longest = task.read_prompt(model, rendered), model.pipeline.longest_prompt
    if longest is not None and len(encoding) > longest:
        raise InputError(
            f"the prompt has {len(encoding)} tokens, and the pipeline was made with max_length={longest}, to which it "
            "truncates prompts; shorten it, or make the pipeline without"
        )
    return encoding, rendered
