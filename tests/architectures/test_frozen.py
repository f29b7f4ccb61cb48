"""The frozen gradient of one family of each kind adds up to the model's own logits, alone and in a batch."""

import pytest
import transformers

from tools.survey.calls import call_all
from tools.survey.workers import families

PART = {
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

REFUSED = ("sew-d",)
"""It has no state that is a frame's own."""

CASES = [(task, family) for task, names in PART.items() for family in names.split()]


@pytest.mark.filterwarnings("ignore")  # transformers' own, of many families
@pytest.mark.parametrize(("task", "family"), CASES)
def test_the_contributions_to_a_family_add_up(task, family):
    if family not in families(task):
        pytest.skip(f"transformers {transformers.__version__} has no {family} for {task}")
    outcome = call_all(task, family, ["frozen-gradient"])["calls"]["frozen-gradient"]
    assert outcome.split(":")[0] == ("refused" if family in REFUSED else "yes"), outcome
