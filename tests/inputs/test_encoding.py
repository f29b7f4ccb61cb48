from types import SimpleNamespace

from normxlogit.inputs.decoded_tokens import readable_tokens

PIECES = {0: "a", 1: "▁é", 2: "é", 3: "▁", 4: "▁a", 5: None}


def test_a_token_is_shown_with_the_space_before_it():
    tokenizer = SimpleNamespace(
        convert_ids_to_tokens=lambda ids: [PIECES[index] for index in ids],
        convert_tokens_to_string=lambda pieces: "".join(pieces).replace("▁", " ").strip(),
    )
    assert readable_tokens(tokenizer, [0, 1, 2, 3, 4, 5, 1]) == ("a", " é", "é", " ", " a", "", " é")
