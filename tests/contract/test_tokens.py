"""Tokens, offsets and words of any text: what a reader sees is what stands in the text."""

import itertools
import re
import unicodedata

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from normxlogit import InputError

from .cases import Case
from .texts import texts

KINDS = [
    Case(family, "SequenceClassification") for family in ("bert", "roberta", "deberta-v2", "xlnet", "gpt2", "llama")
]
"""WordPiece, byte-level BPE and Unigram, with special tokens before, behind, or nowhere."""

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

inputs = st.one_of(texts, st.tuples(texts, texts))


def explained(case, text, **options):
    try:
        return case.explainer(text, target=0, **options)
    except InputError:
        assume(False)


@pytest.mark.parametrize("case", KINDS, ids=str)
@given(text=inputs)
@example(text="[SEP] [SEP]")
def test_tokens_and_offsets_are_those_of_the_callers_tokenizer(case, text):
    result = explained(case, text)
    parts = text if isinstance(text, tuple) else (text,)
    assert (result.text, result.text_pair) == (*parts, None)[:2]
    own = case.tokenizer(*parts, return_offsets_mapping=True)
    if not result.notes:
        assert list(result.token_ids) == own["input_ids"]
        assert list(result.offsets) == own["offset_mapping"]
        assert list(result.units.sequence) == own.sequence_ids()
    else:
        assert len(result) <= len(own["input_ids"])
    for (start, end), sequence, special in zip(
        result.offsets, result.units.sequence, result.special_tokens_mask, strict=True
    ):
        assert special == (sequence is None)
        if not special:
            assert 0 <= start <= end <= len(parts[sequence])
        elif not result.notes:  # an added token that the text ends with already has the characters of that one
            assert (start, end) == (0, 0)


@given(text=texts)
def test_word_pieces_are_the_characters_of_their_offsets(text):
    case = KINDS[0]
    result = explained(case, text)
    for token, (start, end), special in zip(result.tokens, result.offsets, result.special_tokens_mask, strict=True):
        if not special and token not in case.tokenizer.all_special_tokens:
            letters = unicodedata.normalize("NFD", result.text[start:end]).lower()
            plain = "".join(c for c in letters if unicodedata.category(c) not in ("Mn", "Cc", "Cf"))
            assert token.removeprefix("##") == plain


@given(text=texts)
def test_the_bytes_of_byte_level_tokens_are_the_text(text):
    case = Case("gpt2", "SequenceClassification")
    result = explained(case, text)
    assume(not result.notes)
    for start, end in result.offsets:
        assert end > start
    assert [start for start, _ in result.offsets] == sorted(start for start, _ in result.offsets)
    covered = {place for start, end in result.offsets for place in range(start, end)}
    assert covered == set(range(len(text)))


@pytest.mark.parametrize("case", KINDS, ids=str)
@given(text=inputs)
def test_every_token_of_the_text_is_in_one_word(case, text):
    result = explained(case, text)
    texts_of = (result.text, result.text_pair)
    words = result.words("sum")
    members = [token for word in words for token in word.tokens]
    assert sorted(members) == [i for i, special in enumerate(result.special_tokens_mask) if not special]
    for word in words:
        assert word.text == texts_of[word.sequence][word.start : word.end]
        assert {result.units.sequence[token] for token in word.tokens} == {word.sequence}
        for token in word.tokens:
            start, end = result.offsets[token]
            seen = texts_of[word.sequence][start:end]
            if seen.strip():
                assert word.start <= start + len(seen) - len(seen.lstrip())
                assert start + len(seen.rstrip()) <= word.end
        np.testing.assert_allclose(word.score, result.scores[list(word.tokens)].sum(), rtol=1e-4, atol=1e-4)
    for one, after in itertools.pairwise(words):
        assert (one.sequence, one.end) <= (after.sequence, after.start) or one.sequence < after.sequence


@pytest.mark.parametrize("case", KINDS[:3], ids=str)
@given(text=inputs)
def test_any_text_is_drawn_without_control_characters(case, text):
    result = explained(case, text)
    for drawn in (str(result), repr(result), result.to_html(), result.to_csv()):
        assert not CONTROL.search(drawn.replace("\r\n", "\n"))
    ranked = [token.score for token in result.top(len(result.units), special=True)]
    assert ranked == sorted(result.scores.tolist(), reverse=True)
