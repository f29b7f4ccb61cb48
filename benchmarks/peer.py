"""One other package explaining one sentence: what `peers` runs in an environment of its own.

    python -m benchmarks.peer PACKAGE MODEL_FOLDER TEXT COMPLETION ROUNDS

The sentence, the model and the explained label are the same for all. Prints one line of JSON: versions, and for every
method the seconds of each round beside those of a bare forward pass in the same process.
"""

import json
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import torch
import transformers

from normxlogit.evaluation.timing import in_turn

__all__ = ["GRADIENT", "INTEGRATED", "STEPS", "WORK"]

Sides = dict[str, Callable[[], Any]]
"""What is timed, by the name of the method."""

STEPS = 50
"""Of Integrated Gradients, the paper's number."""

GRADIENT, INTEGRATED = "gradient x input", f"integrated gradients, {STEPS} steps"


def _captum(model: Any, tokenizer: Any, text: str, label: int) -> Sides:
    from captum.attr import LayerGradientXActivation, LayerIntegratedGradients

    inputs = tokenizer(text, return_tensors="pt")
    ids, mask = inputs["input_ids"], inputs["attention_mask"]  # (1, T)
    blank = torch.zeros_like(ids)

    def answer(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = model(input_ids=ids, attention_mask=mask.expand(len(ids), -1)).logits
        return logits

    words = model.get_input_embeddings()
    simple, path = LayerGradientXActivation(answer, words), LayerIntegratedGradients(answer, words)
    return {
        GRADIENT: lambda: simple.attribute(ids, target=label, additional_forward_args=mask).abs().sum(-1),
        INTEGRATED: lambda: (
            path.attribute(ids, blank, target=label, additional_forward_args=mask, n_steps=STEPS).abs().sum(-1)
        ),
    }


def _interpreto(model: Any, tokenizer: Any, text: str, label: int) -> Sides:
    from interpreto import IntegratedGradients, Saliency

    simple = Saliency(model, tokenizer, batch_size=STEPS, input_x_gradient=True)
    path = IntegratedGradients(model, tokenizer, batch_size=STEPS, n_perturbations=STEPS)
    target = torch.tensor([label])
    return {GRADIENT: lambda: simple(text, targets=target), INTEGRATED: lambda: path(text, targets=target)}


def _ferret(model: Any, tokenizer: Any, text: str, label: int) -> Sides:
    from ferret import GradientExplainer, IntegratedGradientExplainer

    simple, path = GradientExplainer(model, tokenizer), IntegratedGradientExplainer(model, tokenizer)
    return {
        GRADIENT: lambda: simple.compute_feature_importance(text, label),
        INTEGRATED: lambda: path.compute_feature_importance(text, label, call_args={"n_steps": STEPS}),
    }


def _transformers_interpret(model: Any, tokenizer: Any, text: str, label: int) -> Sides:
    from transformers_interpret import SequenceClassificationExplainer

    path = SequenceClassificationExplainer(model, tokenizer)
    return {INTEGRATED: lambda: path(text, index=label, n_steps=STEPS)}


def _shap(model: Any, tokenizer: Any, text: str, label: int) -> Sides:
    import shap

    pipe = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer, top_k=None)
    explainer = shap.Explainer(pipe)
    return {"partition Shapley values": lambda: explainer([text], silent=True)[0, :, label]}


def _inseq(model: Any, tokenizer: Any, text: str, completion: str) -> Sides:
    import inseq

    inseq_model = inseq.load_model(model, "input_x_gradient", tokenizer=tokenizer)
    full_text = f"{text} {completion}"
    return {GRADIENT: lambda: inseq_model.attribute(text, full_text, show_progress=False)}


WORK: dict[str, Callable[..., Sides]] = {
    "captum": _captum,
    "inseq": _inseq,
    "interpreto": _interpreto,
    "ferret-xai": _ferret,
    "transformers-interpret": _transformers_interpret,
    "shap": _shap,
}
"""Package name to what makes its work ready; only the explaining is timed."""


def main(package: str, folder: str, text: str, completion: str, rounds: str) -> None:
    """Print one line of JSON."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    kind = "AutoModelForCausalLM" if completion else "AutoModelForSequenceClassification"
    model = getattr(transformers, kind).from_pretrained(folder, dtype=torch.float32).eval()
    inputs = tokenizer(f"{text} {completion}".strip(), return_tensors="pt")

    @torch.inference_mode()
    def bare() -> Any:
        return model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits

    explained = completion or int(bare()[0].argmax())
    sides = WORK[package](model, tokenizer, text, explained)
    times = in_turn({"forward": bare} | sides, rounds=int(rounds), warmup=1)
    result = {
        "version": version(package),
        "transformers": transformers.__version__,
        "forward": times["forward"].seconds,
        "methods": {name: times[name].seconds for name in sides},
    }
    sys.stdout.write("\n" + json.dumps(result) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
