"""The checks on a fixed part of every mapping; `python -m tools.survey` makes them on all of them."""

import pytest
import transformers

from tools.survey.base import MAPPINGS, SIGNALS
from tools.survey.calls import call_all
from tools.survey.checks import check
from tools.survey.known import PADDING, REFUSED, SKIPPING
from tools.survey.outcomes import kind
from tools.survey.page import COLUMNS, IN_MAPPING, column_of_data, version_of_data
from tools.survey.workers import families

PART = {
    "sequence-classification": (
        "albert bart deberta-v2 distilbert falcon flaubert fnet funnel gpt2 ibert llama "
        "modernbert mt5 opt perceiver qwen3_next squeezebert t5 xlm xlnet xmod"
    ),
    "masked-lm": "albert bart bert convbert electra funnel ibert mobilebert perceiver reformer xlm",
    "causal-lm": (
        "blt deepseek_v4 falcon_h1 gemma2 gemma3n_text gpt_neo jamba llama mamba mamba2 mllama musicgen opt "
        "recurrent_gemma rwkv xlnet xlstm zamba2"
    ),
    "token-classification": "bert bros canine deberta-v2 gpt2 mt5",
    "question-answering": "bart big_bird bert lxmert splinter t5 xlnet",
    "multiple-choice": "bert canine funnel longformer mra xlnet",
    "image-classification": "clip deit swin vit",
    "audio-classification": "sew wav2vec2 whisper",
}
"""One family of each kind of trunk and head, and some that are refused."""

REFUSALS = {
    ("sequence-classification", "perceiver"): ("HeadMismatchError", "256 states for 18 tokens"),
    ("masked-lm", "perceiver"): ("HeadMismatchError", "512 states for 18 tokens"),
    ("causal-lm", "musicgen"): ("InputError", "shape '"),  # transformers' own reason, of inputs that are no text
    ("token-classification", "bros"): ("InputError", "bbox"),
    ("question-answering", "lxmert"): ("InputError", "visual_feats"),
    ("sequence-classification", "funnel"): ("HeadMismatchError", "states for .* tokens"),
    ("multiple-choice", "funnel"): ("HeadMismatchError", "states for .* tokens"),
    ("multiple-choice", "canine"): ("HeadMismatchError", "could not be applied by itself"),
    ("image-classification", "swin"): ("HeadMismatchError", "no state for each patch"),
    ("audio-classification", "sew"): ("UnsupportedModelError", "no embedding of its own"),
}
"""How the refused ones of these are refused: the error and a piece of its message."""


def of_each(part):
    """Run a test on the families of a part that this version of transformers has, without its warnings."""
    cases = [(task, name) for task, names in part.items() for name in names.split() if name in families(task)]
    run = pytest.mark.parametrize(("task", "family"), cases)
    return lambda test: pytest.mark.filterwarnings("ignore")(run(test))


@of_each(PART)
def test_a_family_is_exact(task, family):
    if family in REFUSED[task]:
        name, said = REFUSALS[task, family]
        with pytest.raises(Exception, match=said) as refusal:
            check(task, family)
        assert refusal.type.__name__ == name
        return
    facts = check(task, family)
    assert facts["layers"] > 0 or task in SIGNALS
    assert facts["resting"] == (family in SKIPPING)
    assert facts["padding"] == "same" or family in PADDING


@pytest.mark.parametrize("task", MAPPINGS)
def test_the_data_are_of_this_version_and_name_every_family(task):
    written, here = version_of_data(), transformers.__version__
    if written.split(".")[:2] != here.split(".")[:2]:
        pytest.skip(f"the data are of transformers {written}, this is {here}")
    assert set(column_of_data(task, "Class")) == set(families(task)), "run: python -m tools.survey"
    for title in IN_MAPPING.get(task, COLUMNS):
        if task == "causal-lm" or title not in ("Generation", "Completion", "Sources"):
            assert "error" not in column_of_data(task, title).values(), title


MEDIA_PART = {
    "image-text-to-text": "blip-2 internvl llava llava_next",
    "audio-text-to-text": "qwen3_asr",
    "speech-seq2seq": "cohere_asr moonshine seamless_m4t",
    "ctc": "lasr_ctc",
    "zero-shot-image": "chinese_clip siglip2",
}
"""Families with tiles and padding, with a Q-former, and that read waveforms, windows of spectra or masked frames, of
which no other test has a model."""


@of_each(MEDIA_PART)
def test_a_family_that_reads_pictures_or_sounds_adds_up_or_is_refused(task, family):
    result = call_all(task, family, ["generate", "similarity"])
    if result["head"] != "yes" and version_of_data() != transformers.__version__:
        pytest.skip("this version's processor is made otherwise")
    (outcome,) = result["calls"].values()
    assert kind(outcome) == ("refused" if family in ("blip-2", "siglip2") else "yes"), outcome


FROZEN_PART = {
    "sequence-classification": "bart bloom canine ctrl funnel ibert nystromformer perceiver squeezebert t5 yoso",
    "masked-lm": "convbert fnet mobilebert mra reformer",
    "causal-lm": (
        "blt deepseek_v3 falcon_h1 gemma3n_text jamba lfm2_moe mamba mamba2 minimax mixtral phimoe qwen3_next "
        "recurrent_gemma rwkv xlstm"
    ),
    "multiple-choice": "longformer xlnet",
    "image-classification": "convnext resnet swin vit",
    "audio-classification": "sew-d wav2vec2 whisper",
}
"""State spaces, experts, linear attention, convolutions, and models with autograd functions of their own."""


@of_each(FROZEN_PART)
def test_the_contributions_to_a_family_add_up(task, family):
    outcome = call_all(task, family, ["frozen-gradient"])["calls"]["frozen-gradient"]
    refused = family in ("sew-d", "reformer")  # without a state that is a frame's own; with a function of its own
    assert kind(outcome) == ("refused" if refused else "yes"), outcome
