from normxlogit.inputs.decoded_tokens import append_tokens
from normxlogit.inputs.encoder import Encoder
from tests import tiny


def test_text_after_a_prompt_of_one_token_is_as_the_tokenizer_spells_it():
    made = tiny.tokenizer_for("llama")
    before = Encoder(made, tiny.model("llama").config, None).opening("cat", special=True)
    assert len(before) == 1
    found = append_tokens(made, before, [tiny.VOCABULARY[word] for word in ("sat", ".", "cat")])
    assert found.text == "cat sat . cat", "spaces stay, before a full stop too"
