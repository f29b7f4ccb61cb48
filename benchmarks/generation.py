"""What explaining 64 generated tokens costs over one forward pass of the sequence, at the size of SmolLM2-135M.

    python benchmarks/generation.py

Random weights: the time does not depend on them. Both sides read the same token ids and run in turn; the explanation
includes the probability of every generated token, its scores over the whole context and the finished result object.
"""

import argparse
import sys

import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from normxlogit import Explainer
from normxlogit.evaluation.timing import environment, in_turn, ratio
from normxlogit.modeling.loading import default_model_folder


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, nargs="+", default=[16, 64, 256], help="tokens of the prompt")
    parser.add_argument("--generated", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config).eval()
    tokenizer = AutoTokenizer.from_pretrained(default_model_folder())  # only for names; the ids are given
    tokenizer.model_max_length = 100_000
    explainer = Explainer(model, tokenizer, name="SmolLM2-135M's shape, random weights")
    out = [f"{environment()}", ""]
    out += ["| prompt | generated | model(**inputs), ms | explain_completion, ms | ratio |", "|---|---|---|---|---|"]
    for length in arguments.prompts:
        prompt = " ".join(["movie"] * (length - 1))  # and the token that begins every text
        completion = torch.randint(1000, 5000, (arguments.generated,)).tolist()
        found = explainer.explain_completion(prompt, completion)
        ids = torch.tensor([found.token_ids])

        @torch.inference_mode()
        def forward(ids: torch.Tensor = ids) -> None:
            model(input_ids=ids, use_cache=False)

        def explain(prompt: str = prompt, completion: list[int] = completion) -> None:
            explainer.explain_completion(prompt, completion)

        times = in_turn({"forward": forward, "explain": explain}, rounds=arguments.rounds)
        bare, full = times["forward"], times["explain"]
        row = f"| {found.prompt_tokens} | {len(found)} | {bare.median * 1e3:.0f} | {full.median * 1e3:.0f} |"
        out.append(f"{row} {ratio(full, bare):.3f} |")
    sys.stdout.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
