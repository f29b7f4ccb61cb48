"""The frozen network on one family of each kind, and on all of them with `-m slow`."""

import pytest
import transformers

from tests.architectures.base import MAPPINGS, SIGNALS
from tests.architectures.frozen import FrozenWorker, check
from tests.architectures.page import not_frozen_on_page, version_on_page
from tests.architectures.survey import families, survey

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

MISSING = {
    "sequence-classification": {"layoutlmv2"},
    "causal-lm": {"gemma4_assistant", "gemma4_unified_assistant", "musicgen", "musicgen_melody"},
    "token-classification": {"bros", "layoutlmv2"},
    "question-answering": {"layoutlmv2", "lxmert"},
    "image-classification": {
        "dinat", "imagegpt", "perceiver", "pp_lcnet", "shieldgemma2", "siglip2", "timm_wrapper",
    },
}  # fmt: skip
"""What cannot be run here at all: it needs another package, or more than a text or picture, or has no logits."""

CASES = [(task, family) for task, names in PART.items() for family in names.split()]
AT_LEAST = 0.97


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


@pytest.mark.parametrize("task", MAPPINGS)
def test_the_page_says_which_networks_freeze(task):
    written, here = version_on_page(), transformers.__version__
    if written.split(".")[:2] != here.split(".")[:2]:
        pytest.skip(f"the page is of transformers {written}, this is {here}")
    assert not_frozen_on_page(task) == MISSING.get(task, set()), "run: python -m tests.architectures.survey"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("task", MAPPINGS)
def test_everything_is_exact_and_affine_but_what_is_known(task):
    results = survey([(task, family) for family in families(task)], kind=FrozenWorker)
    failed = {family: result["error"] for (_, family), result in results.items() if "error" in result}
    assert failed.keys() == MISSING.get(task, set()), failed
    if task not in SIGNALS:
        assert len(results) - len(failed) >= AT_LEAST * len(results)
