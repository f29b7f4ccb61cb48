"""Transformers' auto mappings, shrunk models out of them, and what all checks share."""

from dataclasses import dataclass
from typing import Any

import torch
import transformers
from tokenizers import processors
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from normxlogit.parts.headpiece import Head
from tests import tiny
from tools.survey.shrink import shrunk

TOLERANCE = 1e-4


@dataclass(frozen=True)
class Mapping:
    """One of transformers' auto mappings.

    Attributes:
        name: Of the table in `transformers.models.auto.modeling_auto`.
        auto: The auto class that builds from it.
        title: For readers.
        options: Set on every configuration.
    """

    name: str
    auto: str
    title: str
    options: dict[str, Any]


MAPPINGS = {
    "sequence-classification": Mapping(
        "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
        "AutoModelForSequenceClassification",
        "Sequence classification",
        {"num_labels": 3},
    ),
    "masked-lm": Mapping("MODEL_FOR_MASKED_LM_MAPPING_NAMES", "AutoModelForMaskedLM", "Masked language models", {}),
    "causal-lm": Mapping("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "AutoModelForCausalLM", "Causal language models", {}),
    "token-classification": Mapping(
        "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES",
        "AutoModelForTokenClassification",
        "Token classification",
        {"num_labels": 3},
    ),
    "question-answering": Mapping(
        "MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES", "AutoModelForQuestionAnswering", "Question answering", {}
    ),
    "multiple-choice": Mapping(
        "MODEL_FOR_MULTIPLE_CHOICE_MAPPING_NAMES", "AutoModelForMultipleChoice", "Multiple choice", {}
    ),
    "image-classification": Mapping(
        "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
        "AutoModelForImageClassification",
        "Image classification",
        {"num_labels": 3},
    ),
    "audio-classification": Mapping(
        "MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES",
        "AutoModelForAudioClassification",
        "Audio classification",
        {"num_labels": 3},
    ),
    "image-text-to-text": Mapping(
        "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES", "AutoModelForImageTextToText", "Vision-language models", {}
    ),
    "audio-text-to-text": Mapping(
        "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES", "AutoModelForMultimodalLM", "Language models that read sounds", {}
    ),
    "speech-seq2seq": Mapping(
        "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES", "AutoModelForSpeechSeq2Seq", "Speech to text", {}
    ),
    "ctc": Mapping("MODEL_FOR_CTC_MAPPING_NAMES", "AutoModelForCTC", "Speech to text, an answer at each frame", {}),
    "zero-shot-image": Mapping(
        "MODEL_FOR_ZERO_SHOT_IMAGE_CLASSIFICATION_MAPPING_NAMES",
        "AutoModelForZeroShotImageClassification",
        "Pictures compared with texts",
        {},
    ),
}
WITHOUT: dict[str, tuple[str, ...]] = {
    "audio-text-to-text": ("image-text-to-text", "causal-lm"),
    "speech-seq2seq": ("audio-text-to-text",),
}
"""Mappings whose classes stand in another one, too, where they are surveyed."""

SIGNALS = ("image-classification", "audio-classification")
MEDIA = ("image-text-to-text", "audio-text-to-text", "speech-seq2seq", "ctc", "zero-shot-image")


class CheckError(Exception):
    """A check that failed, and how."""


def build(task: str, family: str) -> PreTrainedModel:
    """Build a shrunk model of a family with random weights, in evaluation mode."""
    mapping = MAPPINGS[task]
    options = dict(mapping.options)
    if task == "causal-lm":
        options["is_decoder"] = True
    torch.manual_seed(0)
    config = shrunk(family, **options)
    auto = getattr(transformers, mapping.auto)
    known = auto._model_mapping[type(config)]
    if isinstance(known, tuple):  # several heads, such as one for distillation
        config.architectures = [known[0].__name__]
    try:
        model = auto.from_config(config)
    except AttributeError:  # a composite whose language model is loaded with the inner configuration
        inner = config.get_text_config(decoder=True)
        if inner is config:
            raise
        model = auto._model_mapping[type(config)](inner)
    text = model.config.get_text_config()
    if getattr(text, "pad_token_id", None) is None:
        text.pad_token_id = 0
    if hasattr(model, "set_default_language"):
        model.set_default_language(next(iter(model.config.languages)))
    built: PreTrainedModel = model.float().eval()
    return built


def tokenizer_for(task: str, family: str) -> PreTrainedTokenizerFast:
    """Return the tokenizer that goes with a family."""
    tokenizer = tiny.tokenizer(specials=task != "causal-lm")
    if family == "longformer":  # looks for three separators in a pair, as RoBERTa's tokenizer puts them
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
    return tokenizer


def stir(model: PreTrainedModel, factor: float) -> None:
    """Larger weights, biases off zero and norms off one: a layer left out, or a norm, must show in the logits."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim == 2 and "norm" not in name.lower():
                parameter.mul_(factor)
            elif parameter.ndim == 1:
                parameter.add_(noise * 0.1)


def near(found: torch.Tensor, wanted: torch.Tensor, what: str) -> None:
    """Compare to TOLERANCE, relative to the largest value.

    Raises:
        CheckError: If they differ.
    """
    if found.shape != wanted.shape:
        raise CheckError(f"{what}: shape {tuple(found.shape)}, not {tuple(wanted.shape)}")
    if not wanted.isfinite().all():
        raise CheckError(f"{what}: the model's own values are not finite")
    difference = (found - wanted).abs().max().item()
    if not difference <= TOLERANCE * max(1.0, wanted.abs().max().item()):
        raise CheckError(f"{what}: off by {difference:.2g} at a size of {wanted.abs().max().item():.2g}")


def tokens_read(head: Head, hidden: torch.Tensor, inputs: dict[str, Any], own: torch.Tensor) -> str:
    """Which tokens of a text the head reads, by the gradient; where it is one, the head on it gives the output.

    Args:
        head: The head.
        hidden: What it reads, (1, T, H).
        inputs: The model's inputs.
        own: The model's answer, (1, C).
    """
    hidden = hidden.detach().clone()
    with torch.enable_grad():
        hidden.requires_grad_()
        (slope,) = torch.autograd.grad(head.texts(hidden, inputs).sum(), hidden)  # (1, T, H)
    read = (slope[0].abs().sum(-1) > 0).nonzero().flatten().tolist()
    count = hidden.shape[1]
    if len(read) != 1:
        return "the mean" if len(read) == count else f"{len(read)} of {count} tokens"
    place = read[0]
    near(head.tokens(hidden[0, place : place + 1].detach()), own, "head at the pooled position")
    return {0: "the first token", count - 1: "the last token"}.get(place, f"token {place + 1} of {count}")
