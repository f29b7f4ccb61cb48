"""A prompt and the tokens that follow it: nothing is tokenised again, and every character belongs to one token."""

import pytest

from normxlogit.inputs.encoder import Encoder
from normxlogit.models.append_tokens import append_tokens
from tests import tiny


@pytest.fixture
def prompt():
    made = tiny.tokenizer_for("llama")
    return made, Encoder(made, tiny.model("llama").config, None).opening("the cat sat", special=True)


def test_tokens_follow_the_prompt(prompt):
    made, before = prompt
    ids = [tiny.VOCABULARY[word] for word in ("on", "the", "mat")]
    found = append_tokens(made, before, ids)
    assert found.ids == [*before.ids, *ids]
    assert len(found.tokens) == len(found.special) == len(found.sequence_ids) == len(found)
    assert found.text.startswith("the cat sat")
    starts = [found.offsets[len(before) + i] for i in range(3)]
    assert [found.text[a:b].strip() for a, b in starts] == ["on", "the", "mat"]
    assert starts[-1][1] == len(found.text)


def test_special_tokens_are_marked_and_add_no_text(prompt):
    made, before = prompt
    found = append_tokens(made, before, [made.sep_token_id, tiny.VOCABULARY["mat"]])
    assert found.special[len(before) :] == (True, False)
    start, end = found.offsets[len(before)]
    assert start == end
    assert found.sequence_ids[len(before) :] == (None, 0)
