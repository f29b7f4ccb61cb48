"""Alignment: which characters of a text each token stands for, where a tokenizer does not tell.

The decoded tokens are searched for in the text.
"""

import re
import unicodedata
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from tokenizers import Regex, pre_tokenizers
from transformers import PreTrainedTokenizerBase

from ..text.characters import Span, moved
from .decoded_tokens import added_texts
from .encoding import Spans
from .texts import SplitText, Text, pair_of

BYTE = re.compile(r"<0x[0-9A-F]{2}>")
"""A token of a single byte, as SentencePiece writes it."""

SIGNS = r"\x{3400}-\x{4DBF}\x{4E00}-\x{9FFF}\x{F900}-\x{FAFF}\x{20000}-\x{3134F}\p{P}$+<=>^`|~"
"""Characters that are a word each: ideographs, punctuation, and the other signs of ASCII."""

NOT_COMPARED = ("Cc", "Cf", "Mn")
"""Categories of characters that are not compared: controls, marks of format, and accents."""


def spans_of_words(text: Text, sequences: Sequence[int | None], words: Sequence[int | None]) -> Spans | None:
    """Return the characters of the word that each token is of, (0, 0) for none; None if the words are not split.

    Args:
        text: A text or a pair, whose words the caller may have split.
        sequences: Which of two texts each token is of; None for neither.
        words: Which word each token is of; None for none.
    """
    spans = [part.spans for part in pair_of(text) if isinstance(part, SplitText)]
    if not spans:
        return None
    pairs = zip(sequences, words, strict=True)
    return tuple((0, 0) if sequence is None or word is None else spans[sequence][word] for sequence, word in pairs)


class _Part(NamedTuple):
    """A text, or a word of it."""

    sequence: int  # which of two texts
    start: int  # its first character there
    end: int  # one past its last


def aligned_offsets(
    tokenizer: PreTrainedTokenizerBase,
    ids: Sequence[int],
    text: Text,
    sequences: Sequence[int | None],
    words: Spans | None,
) -> Spans | None:
    """Return the characters of each token of a text or a pair; None if they are not found.

    The tokens of a word that the caller has split are found in this word, and stand for all of it otherwise.

    Args:
        tokenizer: The tokenizer.
        ids: The tokens, with special ones.
        text: The text or the pair.
        sequences: Which of two texts each token is of; None for special tokens.
        words: The characters of the word that each token is of, where the caller has split the words.
    """
    texts: Any = pair_of(text)
    tokens_of_part: dict[_Part, list[int]] = {}
    for token, sequence in enumerate(sequences):
        if sequence is not None:
            span = (0, len(texts[sequence])) if words is None else words[token]
            tokens_of_part.setdefault(_Part(sequence, *span), []).append(token)
    offsets = [(0, 0)] * len(ids)
    for part, tokens in tokens_of_part.items():
        spans = align(tokenizer, [ids[token] for token in tokens], texts[part.sequence][part.start : part.end])
        if spans is None and words is None:  # which token stands for what in a whole text is not known
            return None
        whole_word = ((0, part.end - part.start),) * len(tokens)
        for token, span in zip(tokens, spans or whole_word, strict=True):
            offsets[token] = moved(span, part.start)
    return tuple(offsets)


def align(tokenizer: PreTrainedTokenizerBase, ids: list[int], text: str) -> Spans | None:
    """Return the characters of a text that each of its tokens stands for.

    Decoded tokens are compared with the text, and where they do not read like it, with each of its words: tokens of a
    word that do not read like it either all stand for the word.

    Args:
        tokenizer: The tokenizer.
        ids: The tokens of the text, without special tokens around it.
        text: The text.

    Returns:
        The span of each token; None if the words one by one give other tokens.
    """
    spans = _matched(tokenizer, ids, text)
    if spans is None:
        spans = _matched_by_word(tokenizer, ids, text, _words_and_signs(tokenizer, text))
    if spans is None:
        words_between_spaces = [word.span() for word in re.finditer(r"\S+", text)]
        spans = _matched_by_word(tokenizer, ids, text, words_between_spaces)
    return spans


def _matched_by_word(
    tokenizer: PreTrainedTokenizerBase, ids: list[int], text: str, words: Sequence[Span]
) -> Spans | None:
    """Return the characters of the tokens of each word; None if the words one by one give other tokens."""
    tokens_of_words: list[Any] = [
        tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text[start:end])) for start, end in words
    ]
    if [token for tokens in tokens_of_words for token in tokens] != ids:
        return None
    spans: list[Span] = []
    for (start, end), tokens in zip(words, tokens_of_words, strict=True):
        whole_word = [(0, end - start)] * len(tokens)
        in_word = _matched(tokenizer, tokens, text[start:end]) or whole_word
        spans += [moved(span, start) for span in in_word]
    return tuple(spans)


def _words_and_signs(tokenizer: PreTrainedTokenizerBase, text: str) -> list[Span]:
    """Return the characters of each word, sign, ideograph and special token, as BERT splits texts."""
    # The longest first, as one special token may begin with another.
    special = map(re.escape, sorted(tokenizer.all_special_tokens, key=len, reverse=True))
    pattern = "|".join([*special, f"[{SIGNS}]", rf"[^\s{SIGNS}]+"])
    pieces = pre_tokenizers.Split(Regex(pattern), "removed", invert=True).pre_tokenize_str(text)
    return [span for _, span in pieces]


def _matched(tokenizer: PreTrainedTokenizerBase, ids: list[int], text: str) -> Spans | None:
    """Return the characters of tokens whose joined pieces are a text, compared as `_folded`; None if they are not.

    The piece of one token may be unknown, or those of the bytes of one character: what is left of the text is theirs.
    """
    pieces = _pieces(tokenizer, ids, text)
    unknown = [token for token, piece in enumerate(pieces) if piece is None]  # indices of tokens
    literals = [piece or "" for piece in pieces]
    if "".join(literals) == text:
        return _spans_one_after_another(literals)
    return _matched_as_folded(literals, unknown, _folded(text))


def _matched_as_folded(literals: Sequence[str], unknown: Sequence[int], folded: "_Folded") -> Spans | None:
    """Return the characters of tokens in a folded text; None if their literals do not read like it.

    Args:
        literals: The text of each token, "" for those that are not known.
        unknown: The indices of tokens whose text is not known; the first gets the characters that the others leave.
        folded: The text.
    """
    pieces = [_folded(literal).text for literal in literals]
    if unknown:
        size = len(folded.text) - len("".join(pieces))  # of what no piece stands for
        if not _may_be_unknown(unknown, size):
            return None
        start = len("".join(pieces[: unknown[0]]))
        pieces[unknown[0]] = folded.text[start : start + size]
    if "".join(pieces) != folded.text:
        return None
    spans = list(_spans_one_after_another(pieces))
    for token in unknown[1:]:  # its bytes stand for the same character
        spans[token] = spans[unknown[0]]
    return tuple(folded.original_span(start, end) for start, end in spans)


def _spans_one_after_another(literals: Sequence[str]) -> Spans:
    """Return the characters of texts that follow each other."""
    return tuple(pairwise(accumulate(map(len, literals), initial=0)))


def _may_be_unknown(unknown: Sequence[int], size: int) -> bool:
    """Return whether unknown tokens can stand for so many characters: one for some, several in a row for one."""
    if len(unknown) == 1:
        return size >= 1
    return size == 1 and unknown[-1] - unknown[0] == len(unknown) - 1


def _pieces(tokenizer: PreTrainedTokenizerBase, ids: list[int], text: str) -> list[str | None]:
    """Return the text that each token adds, None where that is not known, as of unknown tokens and single bytes."""
    special_ids = set(tokenizer.all_special_ids)
    # The tokens as strings: those of the text also show what an unknown one stands for, which its id does not.
    surfaces: list[str] = tokenizer.tokenize(text)
    if tokenizer.convert_tokens_to_ids(surfaces) != ids:
        surfaces = [str(token) for token in tokenizer.convert_ids_to_tokens(ids)]
    pieces: list[str | None] = []
    for token_id, surface, decoded in zip(ids, surfaces, added_texts(tokenizer, [], ids, special_ids), strict=True):
        if surface == tokenizer.unk_token or BYTE.fullmatch(surface):
            pieces.append(None)
        elif token_id in special_ids:
            # It is typed in the text, or it is the id of an unknown piece, whose own text SentencePiece returns.
            pieces.append(surface.replace("▁", " "))
        else:
            pieces.append(decoded)
    return pieces


class _Folded(NamedTuple):
    """A text in the form in which tokens are compared with it."""

    text: str  # the form
    indices: list[int]  # of each character of the form, the index of the original's from which it was made
    original_length: int

    def original_span(self, start: int, end: int) -> Span:
        """Return the characters of the original that some of its characters stand for."""
        # A span that begins behind the last character is empty, at the end of the original.
        first = self.indices[start] if start < len(self.indices) else self.original_length
        return first, self.indices[end - 1] + 1 if end > start else first


def _folded(text: str) -> _Folded:
    """Return a text without white space, case, accents and kinds of punctuation.

    Tokenizers drop more than what makes two texts the same to a reader (accents), and are compared by this form alone.
    """
    characters = []
    indices = []
    for index, character in enumerate(text):
        decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())
        for part in decomposed:
            category = unicodedata.category(part)
            if not part.isspace() and category not in NOT_COMPARED:
                characters.append("." if category.startswith("P") else part)
                indices.append(index)
    return _Folded("".join(characters), indices, len(text))
