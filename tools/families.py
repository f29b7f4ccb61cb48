"""Compare how models of many families are explained in environments with other versions of transformers and torch.

Usage: python -m tools.families write FOLDER               # small random checkpoints, by the oldest of the versions
       python -m tools.families explain FOLDER SCORES.json # load and explain them, once in each environment
       python -m tools.families compare SCORES.json ...    # the last file is what the others are compared with

The checkpoints are written by one version and loaded by all, as a model that was saved long ago is. Explanations are
of the default method. `scripts/versions.py` runs all of this.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any, cast

import torch
import transformers
from transformers import CONFIG_MAPPING, PreTrainedModel, PreTrainedTokenizerBase

from normxlogit import Explainer, NormXLogitError
from normxlogit.compat import encoder_of
from tests import tiny

TEXT = "the movie is not good , but a great film with charm"
MASKED = "the movie is [MASK] , but a great film with charm"
TOLERANCE = 1e-5
"""Largest difference of scores and logits, relative to the largest of them, or to 1 if they are smaller."""

RANDOM_WEIGHTS = "its answers would come from random numbers"
"""Of the refusal of a model whose weights a version does not find in the checkpoint, as 5.0 Mamba's tied head."""

SIZES = tiny.COMMON | tiny.INNER
SHORT = {"max_position_embeddings": 40}
GROUPED = SIZES | tiny.IDS | {"num_key_value_heads": 2}

CONFIGS: dict[str, Any] = tiny.CONFIGS | {
    "deberta": SIZES | SHORT | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "type_vocab_size": 0},
    "mpnet": SIZES | SHORT | tiny.IDS,
    "convbert": SIZES | SHORT | {"embedding_size": 32, "conv_kernel_size": 3},
    "roformer": SIZES | SHORT | {"embedding_size": 32},
    "ernie": SIZES | SHORT,
    "rembert": SIZES | SHORT | {"input_embedding_size": 16, "output_embedding_size": 16},
    "mbart": tiny.CONFIGS["bart"],
    "gpt_neo": {"vocab_size": tiny.SIZE, "hidden_size": 32, "num_layers": 2, "num_heads": 4, **SHORT, **tiny.IDS}
    | {"attention_types": [[["global", "local"], 1]]},
    "gpt_neox": SIZES | SHORT | tiny.IDS,
    "gptj": cast(Any, tiny.CONFIGS["gpt2"]) | {"rotary_dim": 4},
    "mistral": GROUPED,
    "mixtral": GROUPED | {"num_local_experts": 4},
    "qwen3": GROUPED | {"head_dim": 8},
    "gemma": GROUPED | {"head_dim": 8},
    "gemma3_text": GROUPED | {"head_dim": 8},
    "phi": SIZES | tiny.IDS,
    "phi3": GROUPED,
    "falcon": {"vocab_size": tiny.SIZE, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4} | tiny.IDS,
    "stablelm": GROUPED,
    "starcoder2": GROUPED,
    "cohere": GROUPED,
    "granite": GROUPED,
    "olmo2": GROUPED,
}

DECODERS = [*tiny.CAUSAL_LMS, "bloom", "gpt_neo", "gpt_neox", "gptj", "mistral", "mixtral", "qwen3", "gemma"]
DECODERS += ["gemma3_text", "phi", "phi3", "falcon", "stablelm", "starcoder2", "cohere", "granite", "olmo2"]
HEADS: dict[str, list[str]] = {
    "CausalLM": DECODERS,
    "Seq2SeqLM": ["bart", "t5", "mbart"],
    "MaskedLM": [*tiny.MASKED_LMS, "deberta", "mpnet", "convbert", "roformer", "ernie", "rembert"],
    "SequenceClassification": [
        family for family in CONFIGS if family not in DECODERS or family in ("gpt2", "llama", "qwen2", "bloom")
    ],
}
"""The heads of transformers' auto classes, each with the families that are tried with it."""

TRIED = [(family, head) for head, families in HEADS.items() for family in families]


# --- checkpoints ------------------------------------------------------------------------------------------------------


def write(folder: Path) -> None:
    """Save a random model of each family with each of its heads, and its tokenizer."""
    for family, head in TRIED:
        torch.manual_seed(0)
        config = transformers.AutoConfig.for_model(family, **CONFIGS[family])
        model = getattr(transformers, f"AutoModelFor{head}").from_config(config)
        tiny.enlarge(model)
        model.save_pretrained(folder / f"{family}-{head}")
        tokenizer_for(family).save_pretrained(folder / f"{family}-{head}")


def tokenizer_for(family: str) -> PreTrainedTokenizerBase:
    """Return the tests' tokenizer in the form that goes with a family."""
    if family in DECODERS:
        return tiny.tokenizer(specials=False)
    return tiny.tokenizer_for(family)


# --- explanations -----------------------------------------------------------------------------------------------------


def explain(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the model's own logits and the explanation of each checkpoint in a folder, or the reason why not."""
    explained: dict[str, dict[str, Any]] = {}
    for family, head in TRIED:
        name = f"{family}-{head}"
        if family not in CONFIG_MAPPING or not (folder / name).is_dir():
            explained[name] = {"missing": True}
            continue
        try:
            loaded = Explainer.from_pretrained(folder / name, device="cpu")
            # Newer versions read Qwen 2's tokenizer by a class of its own, which splits these texts otherwise.
            explained[name] = _explained(Explainer(loaded.model, tokenizer_for(family)), head)
        except NormXLogitError as error:
            explained[name] = {"refused": str(error)}
        except Exception as error:  # a fault, which the comparison shows
            explained[name] = {"refused": f"{type(error).__name__}: {error}"}
    return explained


def _explained(explainer: Explainer, head: str) -> dict[str, Any]:
    """Return the model's own logits and the explanation of one answer."""
    text = MASKED if head == "MaskedLM" else TEXT
    generates = head in ("CausalLM", "Seq2SeqLM")
    result = explainer.generate(text, max_new_tokens=3) if generates else explainer(text)
    return {
        "logits": _logits(
            cast(PreTrainedModel, explainer.model), explainer.tokenizer(text, return_tensors="pt")["input_ids"]
        ),
        "scores": result.scores.ravel().tolist(),
        "bias": None if result.bias is None else result.bias.ravel().tolist(),
        "tokens": list(result.tokens),
        "prediction": result.completion if generates else result.prediction.label,
        "method": result.method,
    }


def _logits(model: PreTrainedModel, ids: torch.Tensor) -> list[float]:
    """Return what the model itself answers, without this package."""
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if model.config.is_encoder_decoder and encoder_of(model) is not None and model.can_generate():
        inputs["decoder_input_ids"] = torch.tensor([[model.config.decoder_start_token_id]])
    with torch.inference_mode():
        logits: list[float] = model(**inputs).logits.flatten().tolist()
    return logits


# --- comparison -------------------------------------------------------------------------------------------------------


def compared(explained: dict[str, Any], reference: dict[str, Any]) -> str:
    """Return how an explanation compares with that of another version.

    Returns:
        "not there" if one version lacks the family, "model otherwise" if the models' own logits differ, "alike" if all
        is the same, and otherwise what differs.
    """
    if "missing" in explained or "missing" in reference:
        return "not there"
    if "refused" in explained or "refused" in reference:
        is_same = "refused" in explained and "refused" in reference
        if RANDOM_WEIGHTS in explained.get("refused", ""):
            return "model otherwise"
        return "alike" if is_same else str(explained.get("refused") or f"answered, and there: {reference['refused']}")
    if not _close(explained["logits"], reference["logits"]):
        return "model otherwise"
    for name in ("method", "tokens", "prediction"):
        if explained[name] != reference[name]:
            return f"{name} {explained[name]!r} for {reference[name]!r}"
    for name in ("scores", "bias"):
        if not _close(explained[name], reference[name]):
            return f"{name} differ"
    return "alike"


def _close(values: list[float] | None, expected: list[float] | None) -> bool:
    """Return whether two lists of numbers are the same within TOLERANCE."""
    if values is None or expected is None:
        return values is expected
    if len(values) != len(expected):
        return False
    largest = max([1.0, *map(abs, expected)])
    return all(abs(value - other) <= TOLERANCE * largest for value, other in zip(values, expected, strict=True))


def family_verdicts(explained: dict[str, Any], reference: dict[str, Any]) -> dict[str, str]:
    """Return one verdict for each family, that of its first head that is not alike."""
    verdicts: dict[str, str] = {}
    for family, head in TRIED:
        name = f"{family}-{head}"
        verdict = compared(explained[name], reference[name])
        if verdicts.get(family, "alike") == "alike":
            verdicts[family] = verdict if verdict in KINDS else f"{head}: {verdict}"
    return verdicts


KINDS = ("alike", "model otherwise", "not there")


def compare(files: list[Path]) -> int:
    """Print a row for each file but the last, which it is compared with, and what differs; return how much does."""
    *others, reference = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    print("| set | families | alike | model answers otherwise | not there | explained otherwise |")
    print("|---|---|---|---|---|---|")
    notes, different = [], 0
    for file, explained in zip(files, others, strict=False):
        verdicts = family_verdicts(explained, reference)
        counts = [sum(verdict == kind for verdict in verdicts.values()) for kind in KINDS]
        different += len(verdicts) - sum(counts)
        print(f"| {file.stem} | {len(verdicts)} | {' | '.join(map(str, counts))} | {len(verdicts) - sum(counts)} |")
        notes += [f"{file.stem}: {family}: {verdict}" for family, verdict in verdicts.items() if verdict != "alike"]
    print("", *notes, sep="\n")
    return different


def main() -> int:
    """Write, explain or compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("action", choices=["write", "explain", "compare"])
    parser.add_argument("paths", nargs="+", type=Path)
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    if arguments.action == "write":
        write(arguments.paths[0])
    if arguments.action == "explain":
        folder, file = arguments.paths
        file.write_text(json.dumps(explain(folder)), encoding="utf-8")
    return compare(arguments.paths) if arguments.action == "compare" else 0


if __name__ == "__main__":
    sys.exit(main())
