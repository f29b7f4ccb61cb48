"""Decoders beside an encoder: completions begin as `generate` begins them, and each side has its own limit."""

from typing import Any

import pytest
import torch
import transformers
from tokenizers import processors
from transformers import GenerationConfig, PreTrainedTokenizerFast

from normxlogit import Explainer, InputError
from tests import tiny
from tests.contract.compare import refused, total

TEXT, ANSWER = "the cat sat on the mat", "a great film"
LANGUAGE, OTHER = tiny.VOCABULARY["[MASK]"], tiny.VOCABULARY["[CLS]"]  # special tokens stand for languages
WORDS = [tiny.VOCABULARY[word] for word in ANSWER.split()]
END = tiny.VOCABULARY["[SEP]"]


def tokenizer(labels: str = "$A [SEP]") -> Any:
    """Build a tokenizer that writes labels, of which `text_target` are made, by a template."""

    class Translating(PreTrainedTokenizerFast):
        def _switch_to_target_mode(self) -> None:
            ids = [(f"[{name}]", tiny.VOCABULARY[f"[{name}]"]) for name in ("CLS", "SEP", "MASK")]
            self._tokenizer.post_processor = processors.TemplateProcessing(single=labels, special_tokens=ids)

        def _switch_to_input_mode(self) -> None:
            self._tokenizer.post_processor = tiny.tokenizer().backend_tokenizer.post_processor

    special = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "pad", "cls", "sep", "mask")}
    backend = tiny.tokenizer().backend_tokenizer
    made = Translating(tokenizer_object=backend, eos_token="[SEP]", model_max_length=10**30, **special)
    made.model_input_names = ["input_ids", "attention_mask"]
    return made


def translator(labels: str = "$A [SEP]") -> Explainer:
    return Explainer(tiny.model("bart", "Seq2SeqLM", decoder_start_token_id=END), tokenizer(labels))


def decoder_ids(result: Any) -> list[int]:
    """Return what the decoder read and wrote, which stands behind the source."""
    ids = list(result.token_ids)
    return ids[len(tiny.tokenizer()(TEXT).input_ids) :]


@pytest.mark.parametrize("labels", ["$A [SEP]", "[CLS] $A [SEP]", "$A [SEP] [CLS]"], ids=["none", "before", "behind"])
@pytest.mark.parametrize("way", ["argument", "configuration"])
def test_a_forced_language_is_read_in_completions_too(way, labels) -> None:
    """As of mBART-50, M2M and NLLB; the tokenizer may write no language, or that of its own settings."""
    explainer, options = translator(labels), {"forced_bos_token_id": LANGUAGE}
    if way == "configuration":
        explainer.model.generation_config.forced_bos_token_id, options = LANGUAGE, {}
    generated = explainer.generate(TEXT, max_new_tokens=3, **options)
    assert decoder_ids(generated)[:2] == [END, LANGUAGE]
    given = explainer.explain_completion(TEXT, ANSWER, **options)
    assert decoder_ids(given) == [END, LANGUAGE, *WORDS, END]
    logits = explainer.model(
        input_ids=torch.tensor([tiny.tokenizer()(TEXT).input_ids]),
        decoder_input_ids=torch.tensor([[END, LANGUAGE, *WORDS]]),
    ).logits[0]
    targets = torch.tensor([LANGUAGE, *WORDS, END])
    expected = logits.gather(1, targets[:, None])[:, 0] - logits.mean(-1)
    torch.testing.assert_close(torch.tensor(total(given)), expected.detach(), rtol=1e-3, atol=1e-3)


def test_without_one_the_language_of_the_tokenizer_stays() -> None:
    assert decoder_ids(translator("[CLS] $A [SEP]").explain_completion(TEXT, ANSWER)) == [END, OTHER, *WORDS, END]
    assert decoder_ids(translator("$A [SEP] [CLS]").explain_completion(TEXT, ANSWER)) == [END, *WORDS, END]


def test_a_decoder_begins_with_the_tokens_that_a_call_gives() -> None:
    explainer = translator()
    ids = torch.tensor([tiny.tokenizer()(TEXT).input_ids])
    for begun in ([END, 20, 21], [20, 21]):
        own = explainer.model.generate(ids, decoder_input_ids=torch.tensor([begun]), max_new_tokens=3)[0].tolist()
        result = explainer.generate(TEXT, decoder_input_ids=[begun], max_new_tokens=3)
        assert decoder_ids(result) == own
        assert len(result.targets) == len(own) - 3  # what was given is read, and not explained
    refused(InputError, "row of token ids", lambda: explainer.generate(TEXT, decoder_input_ids=[[1], [2]]))
    given = explainer.explain_completion(TEXT, ANSWER, decoder_start_token_id=OTHER)
    assert decoder_ids(given) == [OTHER, *WORDS, END]
    alone = tiny.explainer("gpt2", "CausalLM")
    refused(InputError, "no decoder", lambda: alone.explain_completion(TEXT, ANSWER, forced_bos_token_id=LANGUAGE))
    refused(InputError, "is made of the prompt", lambda: alone.generate(TEXT, decoder_input_ids=[[1]]))


def two_tables(source: int, answer: int) -> Any:
    """Build a BERT with a BERT as its decoder, whose position embeddings have so many rows."""
    sides = [
        transformers.BertConfig(**tiny.COMMON | tiny.INNER | {"max_position_embeddings": rows} | more)
        for rows, more in ((source, {}), (answer, {"is_decoder": True, "add_cross_attention": True}))
    ]
    config = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(*sides)
    model = tiny.random_model(lambda config: transformers.EncoderDecoderModel(config=config), config)
    model.config.decoder_start_token_id, model.config.pad_token_id = 2, 0
    model.generation_config = GenerationConfig(decoder_start_token_id=2, pad_token_id=0, eos_token_id=63)
    return model


def led(source: int, answer: int) -> Any:
    heads = {f"{side}_attention_heads": 4 for side in ("encoder", "decoder")}
    layers = {f"{side}_layers": 2 for side in ("encoder", "decoder")}
    config = transformers.LEDConfig(
        vocab_size=64,
        d_model=32,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        attention_window=[4, 4],
        **heads | layers | tiny.IDS | {"decoder_start_token_id": 2},
        max_encoder_position_embeddings=source,
        max_decoder_position_embeddings=answer,
    )
    return tiny.random_model(transformers.LEDForConditionalGeneration, config)


@pytest.mark.parametrize("build", [two_tables, led])
def test_source_and_answer_have_their_own_limits(build) -> None:
    long = "the cat sat on the mat . " * 4
    explainer = Explainer(build(64, 16), tokenizer())
    ids = explainer.tokenizer(long).input_ids
    assert len(ids) > 16
    result = explainer.generate(long, max_new_tokens=5, min_new_tokens=5)
    own = explainer.model.generate(torch.tensor([ids]), max_new_tokens=5, min_new_tokens=5)[0].tolist()
    assert list(result.token_ids)[len(ids) :] == own
    refused(InputError, "the model reads 16", lambda: explainer.explain_completion(TEXT, long))
    other = Explainer(build(16, 64), tokenizer())
    assert len(other.explain_completion("a cat", long).targets) > 16
    refused(InputError, "the model reads 16", lambda: other.generate(long, max_new_tokens=2))
