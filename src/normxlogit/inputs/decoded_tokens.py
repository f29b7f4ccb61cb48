"""The text of tokens: of each by itself, and of those that were generated or came as numbers."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from transformers import PreTrainedTokenizerBase

from .encoding import EMPTY, Encoding

CONTEXT = 8
"""Tokens before a token with which it is decoded: the text that it adds depends on them."""

UNFINISHED = "\N{REPLACEMENT CHARACTER}"
"""What a decoded text ends with if its last token is a part of a character."""


def append_tokens(tokenizer: PreTrainedTokenizerBase, before: Encoding, ids: list[int]) -> Encoding:
    """Append generated tokens to an encoded prompt, without tokenising again.

    Args:
        tokenizer: The tokenizer.
        before: The prompt.
        ids: The generated tokens.
    """
    special_ids = set(tokenizer.all_special_ids)
    text = before.text
    offsets = None
    if text is not None and before.offsets is not None:
        spans = []
        for piece in added_texts(tokenizer, before.ids, ids, special_ids):
            spans.append((len(text), len(text) + len(piece)))
            text += piece
        offsets = (*before.offsets, *spans)
    # Other inputs, such as token types, go on as for the last token.
    inputs = {name: values + values[-1:] * len(ids) for name, values in before.inputs.items()}
    special = (*before.special, *(token_id in special_ids for token_id in ids))
    return replace(
        before,
        inputs=inputs | {"input_ids": before.ids + ids},
        tokens=(*before.tokens, *readable_tokens(tokenizer, ids)),
        offsets=offsets,
        # Split words, a second text and the place of a prediction are of the text before alone.
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
    decoded = append_tokens(tokenizer, EMPTY, encoding.ids)
    return replace(encoding, text=decoded.text, offsets=decoded.offsets)


def added_texts(
    tokenizer: PreTrainedTokenizerBase, prompt_ids: list[int], ids: list[int], special_ids: Collection[int]
) -> list[str]:
    """Return the text that each token adds; a character of several tokens counts for the last one.

    Args:
        tokenizer: The tokenizer.
        prompt_ids: The tokens before.
        ids: The tokens whose texts are returned.
        special_ids: Tokens that add nothing.
    """
    # Special tokens, None here, count among the tokens of the window, and are left out when it is decoded.
    all_ids = [None if token_id in special_ids else token_id for token_id in prompt_ids + ids]
    window_start = max(0, len(prompt_ids) - CONTEXT)  # of the few tokens before, on which a token's text depends
    decoded_end = len(prompt_ids)  # the tokens before it have their text
    texts = []
    for end in range(len(prompt_ids) + 1, len(all_ids) + 1):
        text_before = _decoded(tokenizer, all_ids[window_start:decoded_end])
        text_now = _decoded(tokenizer, all_ids[window_start:end])
        if text_now.endswith(UNFINISHED) and end < len(all_ids):  # the next token may complete the character
            texts.append("")
            continue
        texts.append(text_now[len(text_before) :])
        window_start, decoded_end = max(window_start, decoded_end - CONTEXT), end
    return texts


def _decoded(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int | None]) -> str:
    """Return the text of tokens, without those that are None."""
    known_ids = [token_id for token_id in ids if token_id is not None]
    return str(tokenizer.decode(known_ids, clean_up_tokenization_spaces=False))


def readable_tokens(
    tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], known: dict[int, str] | None = None
) -> tuple[str, ...]:
    """Return tokens in readable form: a word's beginning is marked by a space, as in a text, and not by "▁" or "Ġ".

    Args:
        tokenizer: The tokenizer.
        ids: The token ids.
        known: The forms by id, to which new ones are added; None to keep none.
    """
    known = {} if known is None else known
    new_ids = [token_id for token_id in set(ids) if token_id not in known]
    pieces = tokenizer.convert_ids_to_tokens(new_ids) if new_ids else []
    known |= {token_id: _readable(tokenizer, piece) for token_id, piece in zip(new_ids, pieces, strict=True)}
    return tuple(map(known.__getitem__, ids))


def _readable(tokenizer: PreTrainedTokenizerBase, piece: str | None) -> str:
    """Return one token in readable form; "" for an id that the tokenizer does not know.

    Args:
        tokenizer: The tokenizer.
        piece: The token as its vocabulary has it, such as "Ġword"; None for an unknown id.
    """
    if piece is None or piece.isascii():  # markers are not ASCII
        return piece or ""
    text = tokenizer.convert_tokens_to_string([piece])
    # SentencePiece writes a space as "▁", and drops it at the beginning of a text.
    is_space_dropped = piece[0] == "▁" and not text.startswith(" ")
    # A piece that decodes to nothing is shown as the vocabulary has it.
    return " " + text if is_space_dropped else text or piece
