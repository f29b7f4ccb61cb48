"""Prompts that are longer than what the model reads: their sources are read in windows.

Each window is the prompt without the sources of the other windows, so what stands around the sources (the question, the
words of a chat template) is in each. All sources are scored once, and the best ones that fit are read together.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from ...errors import InputError
from ...pipeline.completions.completed import Completed
from ...results.storage.schema import Indices


def read_in_windows(completed: Completed, limit: int, score: Callable[[Completed], Mapping[str, float]]) -> Completed:
    """Return a prompt and its answer, which do not fit, with only the best sources that fit.

    Args:
        completed: The prompt with its answer; its named sources are the sources.
        limit: The most tokens that the model reads.
        score: Returns the scores of the sources in a shorter prompt, by name.

    Raises:
        InputError: If not one source fits beside the rest of the prompt.
    """
    length, sequence = len(completed.encoding), completed.sequenced()
    spans = completed.named_sources.items()
    tokens = {name: sequence.tokens_in(*span, of_answer=False) for name, span in spans}
    counts = {name: len(places) for name, places in tokens.items()}  # sources do not overlap
    room = limit - (length - sum(counts.values()))
    fitting = {name: count for name, count in counts.items() if count <= room}
    if not fitting:
        rest = f"{length} tokens, {limit - room} of them without the sources"
        raise InputError(f"prompt and answer have {rest}, and the model reads {limit}: no source fits beside the rest")
    windows = _windows(fitting, room)  # a source that fits nowhere is not read at all
    scores = dict[str, float]()
    for window in windows:
        scores |= score(_only(window, tokens, completed))
    kept_sources = _first_that_fit(sorted(fitting, key=scores.__getitem__, reverse=True), fitting, room)
    note = (
        f"prompt and answer have {length} tokens and the model reads {limit}: the sources were read in {len(windows)} "
        f"windows, and the {len(kept_sources)} of {len(tokens)} that scored highest are read together"
    )
    shortened = _only(kept_sources, tokens, completed)
    encoding = replace(shortened.encoding, notes=(*shortened.encoding.notes, note))
    return replace(shortened, encoding=encoding)


def _only(names: Collection[str], tokens: Mapping[str, Indices], completed: Completed) -> Completed:
    """Return a prompt and its answer with some of the named sources, without the tokens of the others.

    The text stays whole, so the spans of the sources and the offsets of the tokens, in its characters, still hold.

    Args:
        names: The sources that stay.
        tokens: The indices of each source's tokens, all of them in the prompt.
        completed: The prompt with its answer.
    """
    removed = {token for name, places in tokens.items() if name not in names for token in places}
    return replace(
        completed,
        encoding=completed.without(removed),
        prompt_tokens=completed.prompt_tokens - len(removed),
        named_sources={name: span for name, span in completed.named_sources.items() if name in names},
    )


def _windows(counts: Mapping[str, int], room: int) -> list[list[str]]:
    """Divide sources into windows of at most `room` tokens each, of similar lengths.

    Args:
        counts: How many tokens each source has, by its name.
        room: The most tokens of a window.
    """
    total = sum(counts.values())
    size = math.ceil(total / math.ceil(total / room))  # of as few windows as could hold them; `room` at most
    windows, remaining = list[list[str]](), list(counts)
    while remaining:
        windows.append(_first_that_fit(remaining, counts, size))
        remaining = [name for name in remaining if name not in windows[-1]]
    return windows


def _first_that_fit(names: Sequence[str], counts: Mapping[str, int], room: int) -> list[str]:
    """Return the first source, and those of the others that fit beside the ones before them."""
    # The first is taken in any case: each fits by itself, though it may be longer than windows of similar lengths.
    first, *others = names
    selected, free = [first], room - counts[first]
    for name in others:
        if counts[name] <= free:
            selected.append(name)
            free -= counts[name]
    return selected
