"""What DecompX costs: against as many forward passes as the text has tokens, and its peak memory.

    python benchmarks/decompx.py                                # time at length 128
    python benchmarks/decompx.py --length 512 --memory          # peak memory at length 512, no timing

BERT-base with random weights: neither time nor memory depends on them. DecompX carries one vector for each token in
the place of every state, so the formula costs about T forward passes; both sides run in turn.
"""

import argparse
import resource
import sys

import torch
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

from normxlogit import Explainer
from normxlogit.evaluation.timing import environment, in_turn, ratio
from normxlogit.modeling.loading import default_model_folder


def main() -> None:
    """Print one line for the machine and one for the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", action="store_true", help="measure the peak memory of one run instead")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(default_model_folder())
    model = BertForSequenceClassification(BertConfig(num_labels=3)).eval()
    explainer = Explainer(model, tokenizer, name="BERT-base, random weights")
    length = arguments.length
    inputs = {"input_ids": torch.randint(1000, 5000, (1, length))}
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])

    @torch.inference_mode()
    def passes() -> None:
        for _ in range(length):
            model(**inputs)

    def decompx() -> None:
        explainer(inputs, method="decompx")

    out = [str(environment())]
    if arguments.memory:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        decompx()
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        out.append(f"{length} tokens: peak {after / 2**20:.2f} GiB, {before / 2**20:.2f} GiB of it before the call")
    else:
        times = in_turn({"passes": passes, "decompx": decompx}, rounds=arguments.rounds, warmup=1)
        bare, full = times["passes"], times["decompx"]
        text = f"{length} tokens: {length} forward passes {bare.median:.2f} s, DecompX {full.median:.2f} s"
        out.append(f"{text}, ratio {ratio(full, bare):.3f}")
    sys.stdout.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
