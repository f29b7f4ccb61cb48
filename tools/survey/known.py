"""What does not work, and why; a class that is otherwise than it is listed here is printed by the survey."""

from typing import Any

from tools.survey.base import MEDIA, SIGNALS
from tools.survey.outcomes import kind

PICTURES = "reads pictures of pages through detectron2 besides the text"
MOLECULES = (
    "pools characters into molecules before the head and reads them again as characters after it: a molecule alone "
    "cannot go that way"
)
POOLS = "pools tokens before the head, so a token has no state of its own there"
LATENTS = "answers from latent vectors, none of which stands for a token"
DRAFTS = "drafts for another model and needs its keys and values"
SOUND = "reads four streams of audio codes, not text"

MERGES = "convolves or merges patches on the way, so no state is a patch's own from the first layer to the last"
SQUEEZES = "squeezes neighbouring frames before its layers and spreads them after"

REFUSED: dict[str, dict[str, str]] = {
    "sequence-classification": {"canine": MOLECULES, "funnel": POOLS, "layoutlmv2": PICTURES, "perceiver": LATENTS},
    "masked-lm": {"perceiver": LATENTS},
    "causal-lm": {
        "gemma4_assistant": DRAFTS,
        "gemma4_unified_assistant": DRAFTS,
        "musicgen": SOUND,
        "musicgen_melody": SOUND,
        "prophetnet": "its head reads a stream of its own for the next token, beside the hidden states",
    },
    "token-classification": {
        "bros": "needs each word's place on the page besides the text",
        "layoutlmv2": PICTURES,
    },
    "question-answering": {
        "layoutlmv2": PICTURES,
        "lxmert": "answers questions about pictures, with a label instead of a span",
    },
    "multiple-choice": {"canine": MOLECULES, "funnel": POOLS},
    "image-classification": {
        **dict.fromkeys(
            [
                "bit",
                "convnext",
                "convnextv2",
                "cvt",
                "donut-swin",
                "efficientnet",
                "focalnet",
                "hgnet_v2",
                "hiera",
                "levit",
                "mobilenet_v1",
                "mobilenet_v2",
                "mobilevit",
                "mobilevitv2",
                "poolformer",
                "pp_lcnet",
                "pvt",
                "pvt_v2",
                "regnet",
                "resnet",
                "segformer",
                "swiftformer",
                "swin",
                "swinv2",
                "textnet",
            ],
            MERGES,
        ),
        "dinat": "needs natten, and merges patches",
        "imagegpt": "reads a picture as tokens of colour clusters, not as pixels",
        "perceiver": LATENTS,
        "shieldgemma2": "answers yes or no to a written policy about a picture, as a language model",
        "siglip2": "reads patches of any shape with a mask and their places besides",
        "timm_wrapper": "stands for models of timm, which is not installed",
    },
    "image-text-to-text": {},
    "audio-text-to-text": {},
    "speech-seq2seq": {},
    "ctc": {},
    "zero-shot-image": {},
    "audio-classification": {
        "audio-spectrogram-transformer": "pools inside its trunk, over two places",
        "sew": SQUEEZES,
        "sew-d": SQUEEZES,
    },
}
"""Family to the reason, by task."""

SKIPPING: dict[str, str] = {
    "blt": "its layers work on bytes and on patches of bytes by turns",
    "canine": "its layers work on characters and on molecules by turns",
    "cpmant": "puts a prompt of its own before the text inside the trunk",
    "funnel": "its layers work on ever fewer states",
    "hrm_text": "runs two stacks of layers in turns, each fed with the sum of both",
    "reformer": "its layers pass two streams on, of which `hidden_states` shows one",
    "xlstm": "its layers must return a recurrent state besides the hidden states",
}
"""Families whose `hidden_states` cannot be brought to the head one by one: the later layers are skipped instead."""

PADDING: dict[str, str] = {
    "canine": "its convolutions see padding",
    "convbert": "its convolutions see padding",
    "cpmant": "expects padding on the left",
    "fnet": "its Fourier transform sees padding",
    "funnel": "its pooling sees padding",
    "nystromformer": "its landmarks are means over padding too",
    "yoso": "its approximate attention is not quite closed to padding",
}
"""Families that answer differently when a text is padded, and so get batches of texts of one length."""

ALIKE: dict[str, str] = {"mra": "its attention is a CUDA kernel; elsewhere transformers puts zeros in its place"}
"""Families that answer all texts alike here, so that their first token tells nothing of the text."""

PROCESSORS: dict[str, str] = {
    "glm_ocr": "glm46v",
    "glmga": "glm46v",
    "glm4v_moe": "glm4v",
    "qwen3_vl_moe": "qwen3_vl",
    "cosmos3_omni": "qwen3_vl",
    "diffusion_gemma": "gemma4",
    "seamless_m4t_v2": "seamless_m4t",
    "data2vec-audio": "wav2vec2",
    "wav2vec2-bert": "seamless_m4t",
    "fast_vlm": "llava",
    "qwen2_5_omni_thinker": "qwen2_5_omni",
    "qwen3_omni_moe_thinker": "qwen3_omni_moe",
}
"""Families whose processor transformers' auto mappings name for another family alone."""

PROMPTS: dict[str, str] = {
    "florence2": "",
    "blip-2": "",
    "instructblip": "",
    "fuyu": "",
    "pp_chart2table": "<imgpad>",
    "qianfan_ocr": "<image>",
}
"""What a prompt holds for a picture where it is not the processor's `image_token`; empty if the processor adds it."""


def differences(task: str, family: str, result: dict[str, Any]) -> list[str]:
    """Return the outcomes of a class that are errors, and those that are other than they are listed here."""
    head = f"error: {result['error']}" if "error" in result else result.get("head", "")
    outcomes = result.get("calls", {}) | {"head": head}
    found = [f"{name}: {outcome}" for name, outcome in outcomes.items() if kind(outcome) == "error"]
    if found or not head or task in MEDIA:
        return found
    if kind(head) != "yes":
        return [] if family in REFUSED[task] else [f"head: {head}, which is not listed"]
    if family in REFUSED[task]:
        found.append("head: yes, and listed as refused")
    if result["resting"] != (family in SKIPPING):
        found.append("its later layers are skipped or not, and listed otherwise")
    if result["padding"] != "same" and family not in PADDING:
        found.append(f"padding: {result['padding']}, which is not listed")
    if not result["layers"] and task not in SIGNALS:
        found.append("gives no layers")
    return found
