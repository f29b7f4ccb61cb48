"""Append generated tokens to a prompt, with incremental detokenisation."""

from dataclasses import replace

from transformers import PreTrainedTokenizerBase

from .encoding import Encoding, readable_tokens


def append_tokens(tokenizer: PreTrainedTokenizerBase, before: Encoding, ids: list[int]) -> Encoding:
    """Append generated tokens to an encoded prompt, without tokenising again."""
    special_ids = set(tokenizer.all_special_ids)
    pieces = _added_texts(tokenizer, before.ids, ids, special_ids)
    text, offsets = None, None
    if before.text is not None and before.offsets is not None:
        text, spans = before.text, []
        for piece in pieces:
            spans.append((len(text), len(text) + len(piece)))
            text += piece
        offsets = (*before.offsets, *spans)
    all_ids = before.ids + ids
    inputs = {name: values + values[-1:] * len(ids) for name, values in before.inputs.items()}
    special = (*before.special, *(token_id in special_ids for token_id in ids))
    return replace(
        before,
        inputs=inputs | {"input_ids": all_ids},
        tokens=(*before.tokens, *readable_tokens(tokenizer, ids)),
        offsets=offsets,
        word_ids=None,
        sequence_ids=tuple(None if is_special else 0 for is_special in special),
        special=special,
        text=text,
        text_pair=None,
        position=None,
    )


def with_decoded_text(tokenizer: PreTrainedTokenizerBase, encoding: Encoding) -> Encoding:
    """Return an encoding of token ids, with the decoded text if the original text is not known."""
    if encoding.text is not None:
        return encoding
    decoded = append_tokens(tokenizer, Encoding({"input_ids": []}, (), (), None, (), (), ""), encoding.ids)
    return replace(encoding, text=decoded.text, offsets=decoded.offsets, word_ids=None)


def _added_texts(tokenizer: PreTrainedTokenizerBase, before: list[int], ids: list[int], special: set[int]) -> list[str]:
    """Return the text that each generated token adds; a character of several tokens counts for the last one."""
    all_ids = before + ids
    start, read_end = max(0, len(before) - 8), len(before)
    pieces = []

    def decode_until(end: int) -> str:
        visible = [token_id for token_id in all_ids[start:end] if token_id not in special]
        return str(tokenizer.decode(visible, clean_up_tokenization_spaces=False))

    for end in range(len(before) + 1, len(all_ids) + 1):
        text_before, text_now = decode_until(read_end), decode_until(end)
        if text_now.endswith("\ufffd") and end < len(all_ids):
            pieces.append("")
            continue
        pieces.append(text_now[len(text_before) :])
        start, read_end = max(start, read_end - 8), end
    return pieces
