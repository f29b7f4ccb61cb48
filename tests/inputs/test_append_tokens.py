from tokenizers import Tokenizer, decoders, models
from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedTokenizerFast

from normxlogit.inputs.alignment import append_tokens
from normxlogit.inputs.encoder import Encoder
from tests import tiny


def test_text_after_a_prompt_of_one_token_is_as_the_tokenizer_spells_it():
    made = tiny.tokenizer_for("llama")
    before = Encoder(made, tiny.model("llama").config, None).opening("cat", special=True)
    assert len(before) == 1
    found = append_tokens(made, before, [tiny.VOCABULARY[word] for word in ("sat", ".", "cat")])
    assert found.text == "cat sat . cat", "spaces stay, before a full stop too"


def test_a_character_of_several_tokens_belongs_to_the_last_of_them_unless_it_never_ends():
    backend = Tokenizer(models.BPE({letter: i for i, letter in enumerate(sorted(ByteLevel.alphabet()))}, []))
    backend.pre_tokenizer, backend.decoder = ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    made = PreTrainedTokenizerFast(tokenizer_object=backend)
    before = Encoder(made, tiny.model("llama").config, None).opening("a", special=True)
    ids = made("é!", add_special_tokens=False).input_ids
    assert len(ids) == 3
    found = append_tokens(made, before, [*ids, ids[0]])
    assert found.text == "aé!\ufffd"
    assert found.offsets[1:] == ((1, 1), (1, 2), (2, 3), (3, 4))
