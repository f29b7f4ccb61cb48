"""What NormXLogit costs over the forward pass that the model runs anyway, at the size of BERT-base.

    python benchmarks/overhead.py

Random weights: the time does not depend on them. Both sides get the same token ids; the explanation includes the
prediction, the scores of every token and the finished result object.
"""

import argparse
import sys

import torch
from transformers import BertConfig, BertForSequenceClassification

from normxlogit import Explainer
from normxlogit.evaluation.timing import environment, in_turn, ratio
from normxlogit.modeling.loading import default_model_folder


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=[40, 120, 360, 512])
    parser.add_argument("--rounds", type=int, default=31)
    arguments = parser.parse_args()

    from transformers import AutoTokenizer

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(default_model_folder())
    model = BertForSequenceClassification(BertConfig(num_labels=3)).eval()
    explainer = Explainer(model, tokenizer, name="BERT-base, random weights")
    out = [f"{environment()}", ""]
    out += ["| tokens | model(**inputs), ms | explainer(inputs), ms | ratio |", "|---|---|---|---|"]
    for length in arguments.lengths:
        inputs = {"input_ids": torch.randint(1000, 5000, (1, length))}
        inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])

        @torch.inference_mode()
        def forward(inputs: dict[str, torch.Tensor] = inputs) -> None:
            model(**inputs)

        def explain(inputs: dict[str, torch.Tensor] = inputs) -> None:
            explainer(inputs)

        times = in_turn({"forward": forward, "explain": explain}, rounds=arguments.rounds)
        bare, full = times["forward"], times["explain"]
        out.append(f"| {length} | {bare.median * 1e3:.1f} | {full.median * 1e3:.1f} | {ratio(full, bare):.3f} |")
    sys.stdout.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
