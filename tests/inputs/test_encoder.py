from dataclasses import replace

import pytest
from tokenizers import Tokenizer, models

from normxlogit import InputError
from normxlogit.inputs.encoded_media import EncodedMedium
from normxlogit.inputs.encoder import Encoder, private_tokenizer
from tests import tiny

LONG = "the movie is not good but a great film with charm and wit . " * 5
PAIRS = [("the cat sat", LONG), (LONG, "the cat sat"), (LONG, LONG), ("the " * 21, "a " * 20), ("a " * 21, "the " * 21)]


def encoder(tokenizer=None, limit=40, **changes):
    return Encoder(tokenizer or tiny.tokenizer_for("bert"), tiny.model("bert", **changes).config, limit)


def test_the_tokenizer_is_read_as_it_is_now():
    tokenizer = tiny.tokenizer_for("bert")
    own = encoder(tokenizer)
    assert own(["zebra"])[0].ids == [2, 1, 3]
    tokenizer.add_tokens(["zebra"])
    assert own(["zebra"])[0].ids == [2, len(tokenizer) - 1, 3]
    tokenizer.backend_tokenizer.post_processor = None
    assert own(["zebra"])[0].ids == [len(tokenizer) - 1]


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("family", ["bert", "xlnet", "gpt2"])
@pytest.mark.parametrize("limit", [40, 7, 4])
def test_texts_are_cut_as_the_tokenizer_cuts_them(family, side, limit):
    tokenizer = tiny.tokenizer_for(family)
    tokenizer.truncation_side = side
    own = encoder(tokenizer, limit)
    for text in [LONG, *PAIRS]:
        pair = text if isinstance(text, tuple) else (text,)
        wanted = tiny.tokenizer_for(family)
        wanted.truncation_side = side
        expected = wanted(*pair, truncation=True, max_length=limit)
        (found,) = own([text])
        assert found.ids == expected["input_ids"]
        assert found.inputs.get("token_type_ids") == expected.get("token_type_ids")
        assert found.offsets == tuple(expected.encodings[0].offsets)
        end = "last" if side == "left" else "first"
        assert f"only the {end} {limit} were read" in found.notes[0]


def test_the_smallest_of_all_limits_holds():
    assert [len(e) for e in encoder(limit=40)([LONG, "bad"], max_length=10)] == [10, 3]
    assert [len(e) for e in encoder(limit=10)([LONG], max_length=40)] == [10]
    at_limit, beyond = encoder(limit=40)(["the " * 38, "the " * 39])
    assert (len(at_limit), at_limit.notes, len(beyond)) == (40, (), 40)
    assert beyond.notes


def test_a_mask_typed_into_the_text_is_no_special_token():
    (found,) = encoder()(["the [MASK] sat"])
    assert found.special == (True, False, False, False, True)
    assert found.offsets == ((0, 0), (0, 3), (4, 10), (11, 14), (0, 0))


def test_a_copy_that_would_number_tokens_otherwise_is_refused():
    backend = Tokenizer(models.WordLevel({"[UNK]": 0, "the": 1, "cat": 2}, unk_token="[UNK]"))
    backend.add_special_tokens(["[PAD]"])
    made = tiny.PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]", pad_token="[PAD]")
    assert private_tokenizer(made)("cat [PAD]")["input_ids"] == made("cat [PAD]")["input_ids"]
    made.backend_tokenizer.model = models.WordLevel({"[UNK]": 0, "the": 1}, unk_token="[UNK]")
    with pytest.raises(InputError, match="vocabulary was replaced"):
        private_tokenizer(made)


def test_the_note_on_unknown_words_counts_them():
    notes = [encoding.notes[-1] for encoding in encoder()(["a zebra is", "a zebra and quagga is", "zebra"])]
    assert notes[0].startswith("1 of 3 tokens is unknown")
    assert notes[1].startswith("2 of 5 tokens are unknown")
    assert [note.endswith("in its language?") for note in notes] == [False, False, True]
    assert encoder()(["a film"])[0].notes == ()


def test_the_characters_that_stand_for_a_picture():
    (encoding,) = encoder()(["a film is bad"])  # [CLS] a film is bad [SEP]
    for tokens, expected in (((2, 3), (2, 9)), ((3, 2), (2, 9)), ((4,), (10, 13)), ((), (0, 0))):
        medium = EncodedMedium("picture", "picture 1", tokens, None, None, ())
        assert encoding.characters_of(medium) == expected
        assert replace(encoding, offsets=None).characters_of(medium) == (0, 0)
