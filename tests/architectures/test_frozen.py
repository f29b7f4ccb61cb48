"""The frozen network on one family of each kind, also where the head is refused."""

import pytest
import transformers

from tests.architectures.frozen import check
from tests.architectures.survey import families

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

CASES = [(task, family) for task, names in PART.items() for family in names.split()]


@pytest.mark.filterwarnings("ignore")  # transformers' own, of many families
@pytest.mark.parametrize(("task", "family"), CASES)
def test_a_family_is_exact_and_affine(task, family):
    if family not in families(task):
        pytest.skip(f"transformers {transformers.__version__} has no {family} for {task}")
    assert check(task, family)["held"]


@pytest.mark.filterwarnings("ignore")
def test_the_weights_of_state_spaces_and_experts_are_held():
    held = check("causal-lm", "mamba")["held"]
    assert held["mul: a factor: computed from the other factor"] == 2  # what is written to the state of each layer
    assert held["matmul: a factor: stretched"] > 2  # and read from it, at each token
    assert held["mul: a factor: activated"] == 4  # the step's width, and the gate
    held = check("causal-lm", "mixtral")["held"]
    assert held["softmax: its result"] == 4  # attention and router of each layer
