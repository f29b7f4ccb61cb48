"""Alignment: which characters of a text each token stands for, found by decoding the tokens.

It serves tokens without a text (those that a model generated, or that came as numbers), whose text is what they decode
to, and tokenizers that do not report offsets, whose decoded tokens are searched for in the text.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import accumulate, groupby, pairwise

from transformers import PreTrainedTokenizerBase

from .encoding import Encoding, Spans, readable_tokens
from .texts import SplitText, Text, pair_of

Places = Sequence[int]
"""The index in a text of each folded character."""

BYTE = re.compile(r"<0x[0-9A-F]{2}>")
"""A token of a single byte, as SentencePiece writes it."""

CONTEXT = 8
"""Tokens before a token with which it is decoded: the text that it adds depends on them."""


def append_tokens(tokenizer: PreTrainedTokenizerBase, before: Encoding, ids: list[int]) -> Encoding:
    """Append generated tokens to an encoded prompt, without tokenising again."""
    special_ids = set(tokenizer.all_special_ids)
    text, offsets = before.text, None
    if text is not None and before.offsets is not None:
        spans = []
        for piece in _added_texts(tokenizer, before.ids, ids, special_ids):
            spans.append((len(text), len(text) + len(piece)))
            text += piece
        offsets = (*before.offsets, *spans)
    inputs = {name: values + values[-1:] * len(ids) for name, values in before.inputs.items()}
    special = (*before.special, *(token_id in special_ids for token_id in ids))
    return replace(
        before,
        inputs=inputs | {"input_ids": before.ids + ids},
        tokens=(*before.tokens, *readable_tokens(tokenizer, ids)),
        offsets=offsets,
        words=None,
        sequence_ids=tuple(None if is_special else 0 for is_special in special),
        special=special,
        text=None if offsets is None else text,
        text_pair=None,
        position=None,
    )


def with_decoded_text(tokenizer: PreTrainedTokenizerBase, encoding: Encoding) -> Encoding:
    """Return an encoding of token ids, with the decoded text if the original text is not known."""
    if encoding.text is not None:
        return encoding
    decoded = append_tokens(tokenizer, Encoding({"input_ids": []}, (), (), None, (), (), ""), encoding.ids)
    return replace(encoding, text=decoded.text, offsets=decoded.offsets)


def with_decoded_words(tokenizer: PreTrainedTokenizerBase, encoding: Encoding, words: Sequence[int | None]) -> Encoding:
    """Return an encoding of words that were split before they were tokenised, with the text that they decode to.

    Args:
        tokenizer: The tokenizer.
        encoding: The encoding, without its texts.
        words: The index of the word in its text that each token is of, None for special tokens.
    """
    ids: dict[tuple[int | None, int | None], list[int]] = {}  # of each word of each text
    for token, word in enumerate(zip(encoding.sequence_ids, words, strict=True)):
        ids.setdefault(word, []).append(encoding.ids[token])
    first, second = (
        SplitText(
            str(tokenizer.decode(word_ids, clean_up_tokenization_spaces=False)).strip()
            for (of, _), word_ids in ids.items()
            if of == sequence
        )
        for sequence in (0, 1)
    )
    text = (first, second) if second.words else first
    numbers = {word: number for of in (0, 1) for number, word in enumerate(word for word in ids if word[0] == of)}
    numbered = [numbers.get(word) for word in zip(encoding.sequence_ids, words, strict=True)]
    spans = spans_of_words(text, encoding.sequence_ids, numbered)
    offsets = aligned_offsets(tokenizer, encoding.ids, text, encoding.sequence_ids, spans)
    return replace(
        encoding, offsets=offsets, words=spans, text=str(first), text_pair=str(second) if second.words else None
    )


def spans_of_words(text: Text, sequences: Sequence[int | None], words: Sequence[int | None]) -> Spans | None:
    """Return the characters of the word that each token is of, (0, 0) for none; None if the words are not split.

    Args:
        text: The text, or a pair.
        sequences: Which text each token is of, None for special tokens.
        words: The index of its word, None for special tokens.
    """
    spans = [part.spans for part in pair_of(text) if isinstance(part, SplitText)]
    if not spans:
        return None
    pairs = zip(sequences, words, strict=True)
    return tuple((0, 0) if sequence is None or word is None else spans[sequence][word] for sequence, word in pairs)


def aligned_offsets(
    tokenizer: PreTrainedTokenizerBase,
    ids: Sequence[int],
    text: Text,
    sequences: Sequence[int | None],
    words: Spans | None,
) -> Spans | None:
    """Return the characters of each token of a text or a pair; None if there is no way to place them, or several.

    The tokens of a word that the caller has split are found in this word, and stand for all of it otherwise.

    Args:
        tokenizer: The tokenizer.
        ids: The token ids.
        text: The text, or a pair.
        sequences: Which text each token is of, None for special tokens.
        words: The result of `spans_of_words`.
    """
    texts = pair_of(text)
    offsets, parts = [(0, 0)] * len(ids), dict[tuple[int, int, int], list[int]]()  # tokens of each text, or each word
    for token, sequence in enumerate(sequences):
        if sequence is not None:
            span = (0, len(texts[sequence] or "")) if words is None else words[token]
            parts.setdefault((sequence, *span), []).append(token)
    for (sequence, start, end), tokens in parts.items():
        part = str(texts[sequence])[start:end]
        spans = align(tokenizer, [ids[token] for token in tokens], part)
        if spans is None and words is None:
            return None
        for token, (first, last) in zip(tokens, spans or [(0, len(part))] * len(tokens), strict=True):
            offsets[token] = start + first, start + last
    return tuple(offsets)


def align(tokenizer: PreTrainedTokenizerBase, ids: list[int], text: str) -> Spans | None:
    """Return the characters of a text that each of its tokens stands for, without special tokens around it.

    Decoded tokens and text are compared without white space; then without upper case, in Unicode's compatibility form
    (as sentencepiece normalises); and then without accents, with all punctuation alike. What is left are tokens that
    do not read like their text, such as unknown words: those between two others stand for what is between these.

    Args:
        tokenizer: The tokenizer.
        ids: The token ids of the text.
        text: The text.

    Returns:
        The span of each token; None if there is no way to place them, or several.
    """
    pieces = _pieces(tokenizer, ids, text)
    if "".join(piece or "" for piece in pieces) == text:
        return tuple(pairwise(accumulate((len(piece or "") for piece in pieces), initial=0)))
    for whole_words in (True, False):  # unknown tokens are whole words, except single bytes
        for fold in (str, _compatible, _without_accents, _with_plain_signs):
            folded, places = _folded(text, fold)
            literals = [None if piece is None else _folded(piece, fold)[0] for piece in pieces]
            if (spans := _spans(literals, folded, places, text, whole_words)) is not None:
                return spans
    return _spans(_common(literals, folded), folded, places, text, True)


def _pieces(tokenizer: PreTrainedTokenizerBase, ids: list[int], text: str) -> list[str | None]:
    """Return the text that each token adds, None for tokens that do not tell it, such as unknown ones."""
    special_ids = set(tokenizer.all_special_ids)
    surfaces: list[str] = tokenizer.tokenize(text)
    if tokenizer.convert_tokens_to_ids(surfaces) != ids:
        surfaces = [str(token) for token in tokenizer.convert_ids_to_tokens(ids)]
    decoded = _added_texts(tokenizer, [], ids, special_ids)
    # A special token in the text is typed there; sentencepiece tells the text of an unknown piece.
    return [
        None
        if surface == tokenizer.unk_token or BYTE.fullmatch(surface)
        else surface.replace("▁", " ")
        if token_id in special_ids
        else piece
        for token_id, surface, piece in zip(ids, surfaces, decoded, strict=True)
    ]


def _folded(text: str, fold: Callable[[str], str]) -> tuple[str, list[int]]:
    """Return a text whose characters are folded, without white space and controls, with their places in the text."""
    pairs = [
        (c, place)
        for place, character in enumerate(text)
        for c in fold(character)
        if not c.isspace() and unicodedata.category(c) not in ("Cc", "Cf")
    ]
    return "".join(c for c, _ in pairs), [place for _, place in pairs]


def _compatible(character: str) -> str:
    """Return a character decomposed, in Unicode's compatibility form and without upper case."""
    return unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())


def _without_accents(character: str) -> str:
    """Return a character as `_compatible` does, without accents."""
    return "".join(c for c in _compatible(character) if unicodedata.category(c) != "Mn")


def _with_plain_signs(character: str) -> str:
    """Return a character as `_without_accents` does; all punctuation is alike."""
    return "".join("." if unicodedata.category(c)[0] == "P" else c for c in _without_accents(character))


def _common(literals: Sequence[str | None], text: str) -> list[str | None]:
    """Return literals without those of which a part is not in the text at the same place, as it was replaced there."""
    joined = "".join(literal or "" for literal in literals)
    shared = {
        block.a + i
        for block in SequenceMatcher(None, joined, text, autojunk=False).get_matching_blocks()
        for i in range(block.size)
    }
    kept, start = [], 0
    for literal in literals:
        end = start + len(literal or "")
        kept.append(literal if literal is not None and shared.issuperset(range(start, end)) else None)
        start = end
    return kept


def _spans(literals: Sequence[str | None], folded: str, places: Places, text: str, whole_words: bool) -> Spans | None:
    """Return the spans of tokens in a text of which their literals are pieces, in their order.

    Args:
        literals: The text of each token, folded; None for one that may be any text.
        folded: The folded text.
        places: Where each of its characters is in the text.
        text: The text.
        whole_words: Whether what is between the literals begins and ends where words do.

    Returns:
        The spans; None if there is no way to place the tokens, or more than one.
    """
    visible = [i for i, literal in enumerate(literals) if literal != ""]
    runs = [(is_gap, list(run)) for is_gap, run in groupby(visible, lambda i: literals[i] is None)]
    fixed = ["".join(literals[i] or "" for i in run) for is_gap, run in runs if not is_gap]
    opens, closes = bool(runs) and runs[0][0], bool(runs) and runs[-1][0]
    bounded = [_is_boundary(text, places, at) for at in range(len(folded) + 1)]
    allowed = bounded if whole_words else [True] * len(bounded)
    starts = _only_places(fixed, folded, allowed, opens, closes)
    if starts is None:
        return None
    ends = [at + len(piece) for at, piece in zip(starts, fixed, strict=True)]
    gaps = iter(zip([0, *ends] if opens else ends, [*starts, len(folded)][0 if opens else 1 :], strict=False))
    matched, spans = iter(starts), dict[int, tuple[int, int]]()
    for is_gap, run in runs:
        if is_gap:
            if (of_gap := _spans_of_gap(len(run), *next(gaps), places, text, bounded)) is None:
                return None
            spans |= zip(run, of_gap, strict=True)
            continue
        at = next(matched)
        for i in run:
            size = len(literals[i] or "")
            spans[i] = places[at], places[at + size - 1] + 1
            at += size
    end = len(text)
    for i in reversed(range(len(literals))):  # tokens without characters stand before the next one
        end = spans.setdefault(i, (end, end))[0]
    return tuple(spans[i] for i in range(len(literals)))


def _only_places(
    fixed: Sequence[str], text: str, allowed: Sequence[bool], opens: bool, closes: bool
) -> list[int] | None:
    """Return the places of literals with other text between them; None if there are none, or several ways.

    The arguments are those of `_first_places`. The only way is the one that is found from either end.
    """
    first, reverse = _first_places(fixed, text, allowed, opens, closes), [piece[::-1] for piece in fixed[::-1]]
    mirrored = _first_places(reverse, text[::-1], allowed[::-1], closes, opens)
    if first is None or mirrored is None:
        return None
    last = [len(text) - at - len(piece) for at, piece in zip(mirrored, reverse, strict=True)]
    return first if first == last[::-1] else None


def _first_places(
    fixed: Sequence[str], text: str, allowed: Sequence[bool], opens: bool, closes: bool
) -> list[int] | None:
    """Return the first places of literals with other text between them; None if they do not fit into the text.

    Args:
        fixed: The literals.
        text: The text.
        allowed: At which places, (N + 1,), a gap may begin or end.
        opens: Whether a gap precedes the first literal.
        closes: Whether a gap follows the last one; otherwise it ends the text.
    """
    starts: list[int] = []
    end = 0
    for number, piece in enumerate(fixed):
        follows_gap, is_last = bool(number) or opens, number == len(fixed) - 1
        at = end + follows_gap
        if is_last and not closes:
            at = max(at, len(text) - len(piece)) if follows_gap else at
        while not (
            text.startswith(piece, at)
            and (not follows_gap or allowed[at])
            and ((is_last and not closes) or (at + len(piece) < len(text) and allowed[at + len(piece)]))
        ):
            at = text.find(piece, at + 1) if follows_gap else -1
            if at < 0:
                return None
        starts.append(at)
        end = at + len(piece)
    return starts if closes or end == len(text) else None


def _spans_of_gap(
    count: int, start: int, end: int, places: Places, text: str, bounded: Sequence[bool]
) -> list[tuple[int, int]] | None:
    """Return the spans of unknown tokens that stand for a part of the folded text; None if they cannot be told apart.

    They are words, or words and signs; the tokens of a single character or word, such as its bytes, all stand for it.
    """
    spaced = [at for at in range(start + 1, end) if any(map(str.isspace, text[places[at - 1] : places[at]]))]
    edges = [at for at in range(start + 1, end) if bounded[at]]
    for cuts in (spaced, edges):
        if len(cuts) + 1 == count:
            return [(places[first], places[last - 1] + 1) for first, last in pairwise([start, *cuts, end])]
    return None if spaced else [(places[start], places[end - 1] + 1)] * count


def _is_boundary(text: str, places: Places, at: int) -> bool:
    """Return whether a word may begin or end at a folded character: not between letters of an alphabet."""
    if not 0 < at < len(places):
        return True
    before, after = places[at - 1], places[at]
    if any(map(str.isspace, text[before + 1 : after])):
        return True
    return before != after and not all(_is_letter(text[place]) for place in (before, after))


def _is_letter(character: str) -> bool:
    """Return whether a character can be inside a word: neither punctuation nor an ideograph, as BERT splits texts."""
    kind = unicodedata.category(character)
    is_ideograph = kind == "Lo" and unicodedata.name(character, "").startswith("CJK")
    return not (kind[0] == "P" or (kind[0] == "S" and character.isascii()) or is_ideograph)


def _added_texts(
    tokenizer: PreTrainedTokenizerBase, prompt_ids: list[int], ids: list[int], special_ids: set[int]
) -> list[str]:
    """Return the text that each token adds; a character of several tokens counts for the last one."""
    all_ids = prompt_ids + ids
    window_start, read_end = max(0, len(prompt_ids) - CONTEXT), len(prompt_ids)
    texts = []

    def decode_until(end: int) -> str:
        visible = [token_id for token_id in all_ids[window_start:end] if token_id not in special_ids]
        return str(tokenizer.decode(visible, clean_up_tokenization_spaces=False))

    for end in range(len(prompt_ids) + 1, len(all_ids) + 1):
        text_before, text_now = decode_until(read_end), decode_until(end)
        if text_now.endswith("\ufffd") and end < len(all_ids):  # a part of a character
            texts.append("")
            continue
        texts.append(text_now[len(text_before) :])
        window_start, read_end = max(window_start, read_end - CONTEXT), end
    return texts
