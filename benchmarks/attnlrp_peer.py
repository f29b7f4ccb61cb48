"""AttnLRP by its authors' package, run in an environment of its own: what `attnlrp` starts.

    python -m benchmarks.attnlrp_peer MODEL_FOLDER INPUTS.json OUTPUT.json

INPUTS holds texts as the model reads them (`input_ids`, `token_type_ids`) and the label to explain. OUTPUT gets a
relevance for each token, relevance = embedding x gradient under the package's rules, and logits with and without these
rules.
"""

import json
import sys
import types
from pathlib import Path

import torch
from transformers.models.bert import modeling_bert


def _without_torchvision() -> None:
    """Stand in for torchvision, which the package imports for its vision models only."""
    vision, models, transformer = (
        types.ModuleType(name)
        for name in ("torchvision", "torchvision.models", "torchvision.models.vision_transformer")
    )
    transformer.nn = torch.nn  # type: ignore[attr-defined]
    models.vision_transformer = transformer  # type: ignore[attr-defined]
    sys.modules |= {module.__name__: module for module in (vision, models, transformer)}


def main(folder: str, inputs: str, output: str) -> None:
    """Explain every text, and write what was found."""
    texts = json.loads(Path(inputs).read_text(encoding="utf-8"))
    plain = modeling_bert.BertForSequenceClassification.from_pretrained(folder).eval()
    _without_torchvision()
    from lxt.efficient import monkey_patch

    monkey_patch(modeling_bert)
    patched = modeling_bert.BertForSequenceClassification.from_pretrained(folder, attn_implementation="eager").eval()

    def tensors(text: dict[str, list[int]]) -> dict[str, torch.Tensor]:
        return {name: torch.tensor([text[name]]) for name in ("input_ids", "token_type_ids") if name in text}

    def relevance(text: dict[str, list[int]], label: int) -> tuple[list[float], list[float]]:
        inputs_of_text = tensors(text)
        embedded = (
            patched.get_input_embeddings()(inputs_of_text.pop("input_ids")).detach().requires_grad_()
        )  # (1, T, H)
        logits = patched(inputs_embeds=embedded, **inputs_of_text).logits  # (1, C)
        logits[0, label].backward()
        return (embedded * embedded.grad).sum(-1)[0].tolist(), logits[0].tolist()

    results = [relevance(text["inputs"], text["label"]) for text in texts]
    with torch.inference_mode():
        bare = [plain(**tensors(text["inputs"])).logits[0].tolist() for text in texts]
    state = {
        "scores": [scores for scores, _ in results],
        "logits": [logits for _, logits in results],
        "plain logits": bare,
    }
    Path(output).write_text(json.dumps(state), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
