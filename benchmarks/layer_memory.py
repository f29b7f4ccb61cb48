"""Peak memory of the frozen gradient read at all layers or where the input enters, beside the forward pass."""

import json
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from PIL import Image

from normxlogit import Explainer
from normxlogit.evaluation.report import markdown_table
from paper.costs.memory import FORWARD
from paper.costs.peak import Peak
from paper.costs.random_models import random_bert, random_ids, reference_tokenizer

from .processes import measured_apart
from .random_models import SMOLLM2, language_model

__all__ = ["MODELS", "Peaks", "as_table", "compare"]

MODELS = {
    "bert": "BERT-base, 12 layers, {} tokens",
    "llama": "Llama of SmolLM2-135M's shape, 30 layers, {} tokens",
    "llava": "LLaVA, a picture of 576 patches and {} tokens after it explained one by one",
}
METHODS = (FORWARD, "frozen-gradient:read_at=0", "frozen-gradient:read_at=all")


@dataclass(frozen=True)
class Peaks:
    """Peak memory beside the model, in MiB; medians over rounds.

    Attributes:
        model: A key of `MODELS`.
        tokens: Length of the text.
        added: By method.
    """

    model: str
    tokens: int
    added: dict[str, float]


VISION: dict[str, Any] = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "image_size": 336,
    "patch_size": 14,
}
"""CLIP's base tower, with the 24 x 24 patches of LLaVA's."""

TEMPLATE = (
    "{% for part in messages[0]['content'] %}{{ '<image>' if part['type'] == 'image' else part['text'] }}{% endfor %}"
)


def compare(
    models: Sequence[str] = ("bert", "llama"),
    tokens: int = 512,
    batch: int = 1,
    rounds: int = 5,
    on_progress: Callable[[str], None] | None = None,
) -> Iterator[Peaks]:
    """Measure each model and method, each round in a process of its own.

    Args:
        models: Keys of `MODELS`.
        tokens: Length of the texts; with a picture the tokens that are explained.
        batch: Texts at once.
        rounds: Processes for each figure.
        on_progress: Called with what is measured next.

    Raises:
        DataError: If a process fails, for want of memory for example.
    """
    for model in models:
        added: dict[str, list[float]] = {method: [] for method in METHODS}
        for _ in range(rounds):
            for method, values in added.items():
                if on_progress is not None:
                    on_progress(f"{model} {method}")
                job = [model, method, tokens, batch, torch.get_num_threads()]
                values.append(measured_apart(__name__, job, f"{method} on {model}"))
        yield Peaks(model, tokens, {method: statistics.median(values) for method, values in added.items()})


def as_table(peaks: list[Peaks]) -> str:
    """Return the measurements in Markdown, a row for each model."""
    rows = []
    for row in peaks:
        forward, embeddings, layers = (row.added[method] for method in METHODS)
        cells = [f"{value:.0f} MiB" for value in (forward, embeddings, layers)]
        ratios = [f"{embeddings / forward:.2f}", f"{layers / embeddings:.3f}"]
        rows.append([MODELS[row.model].format(row.tokens), *cells, *ratios])
    return markdown_table(["model", "forward pass", "`read_at=0`", "`read_at=all`", "0 / forward", "all / 0"], rows)


def _of_texts(name: str, method: str, tokens: int, batch: int) -> Callable[[bool], None]:
    if name == "bert":
        model, tokenizer = random_bert({}), reference_tokenizer()
    else:
        model, tokenizer = language_model(SMOLLM2)
    explainer = Explainer(model, tokenizer, batch_tokens=batch * tokens)
    vocabulary = model.config.vocab_size

    def work(small: bool) -> None:
        inputs = random_ids(8 if small else tokens, vocabulary, 1 if small else batch)
        if method == FORWARD:
            with torch.inference_mode():
                model(**inputs)
        else:
            explainer(inputs, method=method)

    return work


def _of_a_picture(method: str, tokens: int) -> Callable[[bool], None]:
    model, processor = _llava()
    explainer = Explainer(model, processor)
    content: list[dict[str, Any]] = [
        {"type": "image", "image": Image.effect_noise((400, 360), 80).convert("RGB")},
        {"type": "text", "text": " what is on the left of the picture ?"},
    ]
    messages: Any = [{"role": "user", "content": content}]
    read: Any = processor.apply_chat_template(messages, tokenize=True, return_dict=True, return_tensors="pt")
    completion = torch.randint(1000, 5000, (tokens,))
    ids = torch.cat([read["input_ids"], completion[None]], 1)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "pixel_values": read["pixel_values"]}

    def work(small: bool) -> None:
        if method == FORWARD:
            with torch.inference_mode():
                model(**inputs)
        else:
            explainer.explain_completion(messages, completion[: 2 if small else tokens].tolist(), method=method)

    return work


def _llava() -> tuple[transformers.LlavaForConditionalGeneration, transformers.LlavaProcessor]:
    tokenizer = reference_tokenizer()
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.init_kwargs.pop("max_length", None)
    tokenizer.init_kwargs.pop("truncation_side", None)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(**VISION),
        text_config=transformers.LlamaConfig(**SMOLLM2),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
    )
    side = VISION["image_size"]
    processor = transformers.LlavaProcessor(
        transformers.CLIPImageProcessorPil(size={"shortest_edge": side}, crop_size={"height": side, "width": side}),
        tokenizer,
        patch_size=VISION["patch_size"],
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=TEMPLATE,
    )
    return transformers.LlavaForConditionalGeneration(config).eval(), processor


def _measure(name: str, method: str, tokens: int, batch: int) -> float:
    torch.manual_seed(0)
    work = _of_a_picture(method, tokens) if name == "llava" else _of_texts(name, method, tokens, batch)
    work(True)  # the proofs, and what libraries set up once
    with Peak() as peak:
        work(False)
    return peak.added / 2**20


def main(arguments: list[str]) -> None:
    """Print the MiB that a call added."""
    *job, threads = json.loads(arguments[0])
    torch.set_num_threads(threads)
    sys.stdout.write(f"{_measure(*job)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
