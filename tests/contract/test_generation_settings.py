"""Every setting of `generate`: what is explained is what the model itself generates with it, or an error names it.

The list is that of the installed version of transformers: a setting that is new there fails the first test.
"""

import functools
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from transformers import GenerationConfig, GenerationMixin, WatermarkingConfig

from normxlogit import Explainer, InputError
from tests import tiny
from tests.abilities import LACKING
from tests.contract.decided import Applied, Decision, Harmless, Refused, parameters_of, undecided

TEXTS = ("the movie is not good", "a cat")
STEPS = 5
pytestmark = [  # older versions of transformers, of settings that change nothing
    pytest.mark.filterwarnings("ignore:`(do_sample|return_dict_in_generate)` is:UserWarning"),
    pytest.mark.filterwarnings("ignore:This model does not support `Cache` instances:UserWarning"),
]

METHOD = "input-norm"  # the cheapest: the tokens are compared, not the scores
WRITTEN_BY_NOTHING = "this names what is returned beside the tokens"
OF_ASSISTANT = "this is for a model that drafts what another one checks, whose answer stays the same"
SPEED = "this changes how fast the model generates"
ELSEWHERE = "transformers generates so by code from the hub alone"
HIGH = list(range(5, 40))  # token ids, of which greedy answers of these models are

SAMPLES, BEAMS = {"do_sample": True}, {"num_beams": 3}

FIELDS: Mapping[str, Decision] = {
    "max_length": Applied(9, {"max_new_tokens": None}),
    "max_new_tokens": Applied(3),
    "do_sample": Applied(True),
    **{name: Applied(0.5, SAMPLES) for name in ("top_p", "min_p", "top_h", "typical_p")},
    "temperature": Applied(0.1, SAMPLES),
    "top_k": Applied(2, SAMPLES),
    "epsilon_cutoff": Applied(0.3, SAMPLES),
    "eta_cutoff": Applied(0.5, SAMPLES),
    "max_time": Applied(1e-9),
    "repetition_penalty": Applied(3.0),
    "encoder_repetition_penalty": Applied(3.0),
    "no_repeat_ngram_size": Applied(1),
    "bad_words_ids": Applied([[i] for i in HIGH]),
    "suppress_tokens": Applied(HIGH),
    "begin_suppress_tokens": Applied(HIGH),
    "sequence_bias": Applied([[[9], 100.0]]),
    "forced_eos_token_id": Applied(11),
    "exponential_decay_length_penalty": Applied((1, 5.0)),
    "guidance_scale": Applied(3.0),
    "watermarking_config": Applied(lambda: WatermarkingConfig(bias=50.0)),
    "eos_token_id": Applied(list(range(5, 64))),
    "num_return_sequences": Applied(2, BEAMS),
    "num_beams": Harmless("the likeliest of these answers is the greedy one", 3),
    "renormalize_logits": Harmless("normalised or not, the order of tokens is the same", True),
    "remove_invalid_values": Harmless("the logits are finite", True),
    "early_stopping": Harmless("it ends a search by beams once each has ended, and the best of these has", True, BEAMS),
    "length_penalty": Harmless("it weighs the beams of a search, which have one length here", -5.0, BEAMS),
    "min_length": Harmless("these answers do not end early; see the encoder-decoder model", 7),
    "min_new_tokens": Harmless("these answers do not end early; see the encoder-decoder model", 4),
    "pad_token_id": Harmless("padding is not read", 7),
    "bos_token_id": Harmless("a prompt has its first token", 8),
    "use_cache": Harmless(SPEED, False),
    "cache_implementation": Harmless(SPEED, "static"),
    "cache_config": Harmless(SPEED),
    "max_cache_len": Harmless(SPEED, 64),
    "prefill_chunk_size": Harmless(SPEED, 2),
    "compile_config": Harmless(SPEED),
    "disable_compile": Harmless(SPEED, True),
    "return_legacy_cache": Harmless("this is the form of a cache that is returned", True),  # of older versions
    "low_memory": Harmless(SPEED, True),
    "continuous_batching_config": Harmless(SPEED),
    **{f"output_{name}": Harmless(WRITTEN_BY_NOTHING, True) for name in ("attentions", "hidden_states", "scores")},
    "output_logits": Harmless(WRITTEN_BY_NOTHING, True),
    "return_dict_in_generate": Harmless(WRITTEN_BY_NOTHING, True),
    "forced_bos_token_id": Harmless("of decoders with an encoder, below", 9),
    "decoder_start_token_id": Harmless("of decoders with an encoder, below", 9),
    "encoder_no_repeat_ngram_size": Harmless("of decoders with an encoder, below", 1),
    "num_assistant_tokens": Harmless(OF_ASSISTANT, 5),
    "num_assistant_tokens_schedule": Harmless(OF_ASSISTANT, "constant"),
    "assistant_confidence_threshold": Harmless(OF_ASSISTANT, 0.4),
    "assistant_lookbehind": Harmless(OF_ASSISTANT, 3),
    "target_lookbehind": Harmless(OF_ASSISTANT, 3),
    "assistant_ensemble_weight": Harmless(OF_ASSISTANT),
    "speculation_type": Harmless(OF_ASSISTANT),
    "prompt_lookup_num_tokens": Harmless(OF_ASSISTANT, 3),
    "max_matching_ngram_size": Harmless(OF_ASSISTANT, 2),
    "is_assistant": Harmless(OF_ASSISTANT),
    "stop_strings": Harmless("in a test of its own, as it needs a tokenizer whose words end"),
    "token_healing": Refused(True, named="token healing"),
    "use_mtp": Refused(True, named="num_mtp_layers"),
    "assistant_early_exit": Refused(1, named="cannot continue"),
    "penalty_alpha": Refused(0.6, {"top_k": 4}, named=r"Contrastive Search|top_k="),
    "dola_layers": Refused("low", named="Dola|cannot continue"),
    "num_beam_groups": Refused(3, BEAMS | {"diversity_penalty": 1.0}, named="Group Beam Search"),
    "diversity_penalty": Refused(1.0, BEAMS | {"num_beam_groups": 3}, named="Group Beam Search"),
    "force_words_ids": Refused([[9]], BEAMS, named="Constrained Beam Search"),
    "constraints": Harmless(ELSEWHERE),
    "forced_decoder_ids": Refused([[1, 9]], named="forced_decoder_ids"),  # of older versions
    "generation_kwargs": Harmless("older versions keep others there"),
}
"""Fields of a configuration, for a model that continues prompts."""

OF_DECODERS: Mapping[str, Decision] = {
    "forced_bos_token_id": Applied(9),
    "decoder_start_token_id": Applied(9),
    "min_length": Applied(5),
    "min_new_tokens": Applied(3),
    "num_beams": Applied(3),
    "encoder_no_repeat_ngram_size": Applied(1),
    "num_return_sequences": Applied(2, BEAMS),
}
"""Those that matter to a decoder with an encoder, or change its answers alone."""

ARGUMENTS: Mapping[str, Decision] = {
    "generation_config": Harmless("every field is tried in one"),
    "logits_processor": Applied(lambda: [lambda ids, scores: scores.roll(1, -1)]),
    "stopping_criteria": Applied(lambda: [lambda ids, scores: torch.ones(len(ids), dtype=torch.bool)]),
    "prefix_allowed_tokens_fn": Applied(lambda: lambda batch, ids: [9, 10]),
    "assistant_model": Harmless(OF_ASSISTANT, lambda: tiny.model("gpt2", "CausalLM", seed=1)),
    "negative_prompt_ids": Applied(lambda: torch.tensor([[9, 10, 11]]), {"guidance_scale": 3.0}),
    "negative_prompt_attention_mask": Harmless("it masks the padding of a negative prompt"),
    "streamer": Harmless("it shows the tokens as they come"),
    "synced_gpus": Harmless("it keeps several GPUs in step", False),
    "inputs": Refused(lambda: torch.tensor([[9]]), named="inputs= is made of the prompt"),
    "custom_generate": Harmless("it is code of the caller's, or from the hub, in the place of generate"),
    "use_model_defaults": Harmless("the model's own configuration is applied"),  # of older versions
}
"""Arguments of `generate` beside the fields."""


SEARCHES = {
    "num_beam_groups": "_group_beam_search",
    "diversity_penalty": "_group_beam_search",
    "force_words_ids": "_constrained_beam_search",
}
"""Settings of searches that older versions of transformers make themselves: what they answer is explained there."""

USUAL = {"gpt2": [[38, 38, 38, 38, 38]], "bart": [[3, 3]]}
SAMPLED = [[58, 10, 40, 59, 1]]
"""What the models answer of which the tables are true: older versions draw other numbers from the same seed."""


def models() -> dict[str, Explainer]:
    """Return a model that continues prompts, and one with an encoder."""
    made = {}
    for family, kind in (("gpt2", "CausalLM"), ("bart", "Seq2SeqLM")):
        tokenizer = tiny.tokenizer_for(family) if kind == "CausalLM" else tiny.tokenizer()
        made[family] = Explainer(tiny.model(family, kind), tokenizer)
    return made


EXPLAINERS = models()


def own_answer(family: str, text: str, settings: Mapping[str, Any]) -> list[list[int]]:
    """Return what the model itself generates after a text; of a decoder the whole sequence."""
    explainer = EXPLAINERS[family]
    ids = torch.tensor([explainer.tokenizer(text).input_ids])
    torch.manual_seed(0)
    output = explainer.model.generate(ids, attention_mask=torch.ones_like(ids), **settings)
    start = 0 if family == "bart" else ids.shape[1]
    return [row[start:].tolist() for row in getattr(output, "sequences", output)]


@functools.cache
def usual_answer(family: str, beside: tuple[tuple[str, Any], ...]) -> list[list[int]]:
    """Return what the model itself generates without the setting that is tried."""
    return own_answer(family, TEXTS[0], {"max_new_tokens": STEPS, **dict(beside)})


def explained_answer(family: str, prompt: Any, settings: Mapping[str, Any]) -> list[list[int]]:
    """Return the tokens of the explained answers."""
    torch.manual_seed(0)
    results = EXPLAINERS[family].generate(prompt, method=METHOD, **settings)
    before = 1 if family == "bart" else 0
    each = [results] if hasattr(results, "scores") else results
    return [list(result.token_ids)[result.prompt_tokens - before :] for result in each]


def settings_of(name: str, decision: Any) -> dict[str, Any]:
    value = decision.value() if callable(decision.value) else decision.value
    settings = {"max_new_tokens": STEPS, **decision.beside, name: value}
    return {name: value for name, value in settings.items() if value is not None}


def tried(table: Mapping[str, Decision], kind: type) -> list[str]:
    return [name for name, decision in table.items() if isinstance(decision, kind) and decision.value is not None]


def known(names: list[str]) -> list[str]:
    """Return the fields that the installed version has."""
    return [name for name in names if name in vars(GenerationConfig())]


def same(family: str, name: str, decision: Any, way: str, monkeypatch: Any) -> None:
    """Compare the explained tokens with the model's own, for a setting that is given in one of three ways."""
    settings = settings_of(name, decision)
    usual = usual_answer(family, tuple(decision.beside.items()) if name != "max_length" else ())
    if way == "configuration of the model":
        for field, value in settings.items():
            monkeypatch.setattr(EXPLAINERS[family].model.generation_config, field, value)
        settings = {}
    if way == "configuration of the call":
        base = EXPLAINERS[family].model.generation_config.to_diff_dict()
        settings = {"generation_config": GenerationConfig(**base | settings)}
    expected = own_answer(family, TEXTS[0], settings)
    samples = way == "configuration of the model" and name in SAMPLING
    if samples:  # a call must say so
        (note,) = EXPLAINERS[family].generate(TEXTS[0], method=METHOD).notes
        assert "greedily" in note
        settings = {"do_sample": True}
    assert explained_answer(family, TEXTS[0], settings) == expected
    if name not in SAMPLING and way == "argument":  # a batch has padding, which no setting may take for text
        together = [row for text in TEXTS for row in own_answer(family, text, settings)]
        assert explained_answer(family, list(TEXTS), settings) == together
    if usual_answer(family, ()) == USUAL[family] and (decision.beside != SAMPLES or usual == SAMPLED):
        assert (expected != usual) == isinstance(decision, Applied), "what is decided of it does not hold"


SAMPLING = {name for name, decision in FIELDS.items() if getattr(decision, "beside", None) == SAMPLES} | {"do_sample"}

each_way = pytest.mark.parametrize(
    "way", ["argument", "configuration of the call", "configuration of the model"], ids=["argument", "call", "model"]
)


def test_every_setting_is_decided() -> None:
    fields = {name for name in vars(GenerationConfig()) if not name.startswith("_")} - {"transformers_version"}
    assert not undecided(fields, FIELDS)
    assert not undecided(parameters_of(GenerationMixin.generate), ARGUMENTS)


@each_way
@pytest.mark.parametrize("name", known(tried(FIELDS, Applied)))
def test_prompts_are_continued_as_the_model_does(name, way, monkeypatch) -> None:
    lengths = "lengths of the model's configuration that count the prompt"
    if name == "max_length" and way == "configuration of the model" and lengths in LACKING:
        pytest.skip(f"this version of transformers lacks {lengths}")
    same("gpt2", name, FIELDS[name], way, monkeypatch)


@pytest.mark.parametrize("name", known(tried(FIELDS, Harmless)))
def test_other_settings_change_nothing(name, monkeypatch) -> None:
    if name == "prefill_chunk_size" and "prefilling in chunks" in LACKING:
        pytest.skip("this version of transformers lacks prefilling in chunks")
    same("gpt2", name, FIELDS[name], "argument", monkeypatch)


@each_way
@pytest.mark.parametrize("name", known(list(OF_DECODERS)))
def test_a_decoder_writes_what_the_model_writes(name, way, monkeypatch) -> None:
    same("bart", name, OF_DECODERS[name], way, monkeypatch)


@pytest.mark.parametrize("name", [*tried(ARGUMENTS, Applied), *tried(ARGUMENTS, Harmless)])
def test_arguments_of_generate_go_to_the_model(name, monkeypatch) -> None:
    if name not in parameters_of(GenerationMixin.generate):
        pytest.skip("not of this version of transformers")
    same("gpt2", name, ARGUMENTS[name], "argument", monkeypatch)


@pytest.mark.parametrize("name", known(tried(FIELDS, Refused)) + tried(ARGUMENTS, Refused))
def test_what_the_model_refuses_is_an_error_of_one_line(name) -> None:
    decision = {**FIELDS, **ARGUMENTS}[name]
    if hasattr(GenerationMixin, SEARCHES.get(name, "")):
        settings = settings_of(name, decision)
        assert explained_answer("gpt2", TEXTS[0], settings) == own_answer("gpt2", TEXTS[0], settings)
        return
    with pytest.raises(InputError, match=decision.named) as refusal:
        explained_answer("gpt2", TEXTS[0], settings_of(name, decision))
    assert "\n" not in str(refusal.value)
