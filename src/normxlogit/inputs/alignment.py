"""Alignment: which characters of a text each token stands for, found by decoding the tokens.

It serves tokens without a text (those that a model generated, or that came as numbers), whose text is what they decode
to, and tokenizers that do not report offsets, whose decoded tokens are searched for in the text.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

from tokenizers import Regex, pre_tokenizers
from transformers import PreTrainedTokenizerBase

from .encoding import Encoding, Spans, readable_tokens
from .texts import SplitText, Text, pair_of

BYTE = re.compile(r"<0x[0-9A-F]{2}>")
"""A token of a single byte, as SentencePiece writes it."""

SIGNS = r"\x{3400}-\x{4DBF}\x{4E00}-\x{9FFF}\x{F900}-\x{FAFF}\x{20000}-\x{3134F}\p{P}$+<=>^`|~"
"""Characters that are a word each: ideographs, punctuation, and the other signs of ASCII."""

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


def spans_of_words(text: Text, sequences: Sequence[int | None], words: Sequence[int | None]) -> Spans | None:
    """Return the characters of the word that each token is of, (0, 0) for none; None if the words are not split."""
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
    """Return the characters of each token of a text or a pair; None if they are not found.

    The tokens of a word that the caller has split are found in this word, and stand for all of it otherwise.
    """
    texts = pair_of(text)
    offsets, parts = [(0, 0)] * len(ids), dict[tuple[int, int, int], list[int]]()  # tokens of each text, or each word
    for token, sequence in enumerate(sequences):
        if sequence is not None:
            start, end = (0, len(texts[sequence] or "")) if words is None else words[token]
            parts.setdefault((sequence, start, end), []).append(token)
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

    Decoded tokens are compared with the text, and where they do not read like it, with each of its words: tokens of a
    word that do not read like it either all stand for the word. None if the words one by one give other tokens.
    """
    spans = _matched(tokenizer, ids, text)
    for words in (_words_and_signs(tokenizer, text), [word.span() for word in re.finditer(r"\S+", text)]):
        if spans is None:
            tokens: list[Any] = [
                tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text[start:end])) for start, end in words
            ]
            if [token_id for of_word in tokens for token_id in of_word] == ids:
                spans = tuple(
                    (start + first, start + last)
                    for (start, end), of_word in zip(words, tokens, strict=True)
                    for first, last in _matched(tokenizer, of_word, text[start:end])
                    or [(0, end - start)] * len(of_word)
                )
    return spans


def _words_and_signs(tokenizer: PreTrainedTokenizerBase, text: str) -> list[tuple[int, int]]:
    """Return the characters of each word, sign, ideograph and special token, as BERT splits texts."""
    special = map(re.escape, sorted(tokenizer.all_special_tokens, key=len, reverse=True))
    pattern = "|".join([*special, f"[{SIGNS}]", rf"[^\s{SIGNS}]+"])
    pieces = pre_tokenizers.Split(Regex(pattern), "removed", invert=True).pre_tokenize_str(text)
    return [span for _, span in pieces]


def _matched(tokenizer: PreTrainedTokenizerBase, ids: list[int], text: str) -> Spans | None:
    """Return the characters of tokens that read like a text; one of them, or the bytes of a character, may be unknown.

    They are compared as `_folded`. None if they read like something else, or more is unknown.
    """
    pieces = _pieces(tokenizer, ids, text)
    if "".join(piece or "" for piece in pieces) == text:
        return tuple(pairwise(accumulate((len(piece or "") for piece in pieces), initial=0)))
    folded, indices = _folded(text)
    literals = [None if piece is None else _folded(piece)[0] for piece in pieces]
    unknown = [index for index, literal in enumerate(literals) if literal is None]
    size = len(folded) - sum(len(literal or "") for literal in literals)  # characters of the unknown tokens
    is_run = unknown == list(range(unknown[0], unknown[-1] + 1)) if unknown else True
    if (unknown and size < 1) or (len(unknown) > 1 and (size > 1 or not is_run)):
        return None
    spans, start = [], 0
    for index, literal in enumerate(literals):
        end = start + (size if literal is None else len(literal))
        if literal is not None and folded[start:end] != literal:
            return None
        first = indices[start] if start < len(indices) else len(text)
        spans.append((first, indices[end - 1] + 1 if end > start else first))
        start = start if literal is None and index < unknown[-1] else end  # the bytes of a character stand for it
    return tuple(spans) if start == len(folded) else None


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


def _folded(text: str) -> tuple[str, list[int]]:
    """Return a text without white space, case, accents and kinds of punctuation, and each character's index in it."""
    pairs = []
    for index, character in enumerate(text):
        decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())
        for c in decomposed:
            kind = unicodedata.category(c)
            if not c.isspace() and kind not in ("Cc", "Cf", "Mn"):
                pairs.append(("." if kind[0] == "P" else c, index))
    return "".join(c for c, _ in pairs), [index for _, index in pairs]


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
