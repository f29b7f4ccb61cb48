"""Every table, figure and experiment of the paper: the command that runs it, and what was run in its place."""

from dataclasses import dataclass

__all__ = ["EXPERIMENTS", "Experiment", "experiments_table"]

NO_WEIGHTS = "another model"


@dataclass(frozen=True)
class Experiment:
    """One of the paper's tables, figures or experiments.

    Attributes:
        name: What it is in the paper.
        command: What runs it with the paper's model and data.
        here: What was run where this was written, with a link to it; empty where nothing was.
        deviates: What is different, and why.
    """

    name: str
    command: str
    here: str
    deviates: str


_RESULTS = "[results](#models)"
_ALIGNMENT = "[alignment](alignment.md)"
_COST = "[cost](cost.md)"

EXPERIMENTS = (
    Experiment(
        "Figure 1: signed scores of one text",
        "python -m paper figure1",
        "the model in the package, [results](#where-the-papers-order-holds-and-where-it-does-not)",
        "another sentence and another model",
    ),
    Experiment(
        "Table 1, BERT: AOPC and Pearson's correlation",
        "python -m paper table1 --base BERT=google-bert/bert-base-uncased",
        f"MiniLM, all tasks, {_RESULTS}",
        f"{NO_WEIGHTS}; of MNLI and QNLI only development sets, which were split",
    ),
    Experiment(
        "Table 1, DeBERTa",
        "python -m paper table1 --base DeBERTa=microsoft/deberta-v3-base",
        f"a small one trained from nothing, SST-2, {_RESULTS}",
        f"{NO_WEIGHTS}; 300 sentences",
    ),
    Experiment(
        "Table 1, Llama 2, trained with LoRA",
        'python -m paper table1 --base "Llama 2=meta-llama/Llama-2-7b-hf" --lora-rank 4 --bf16 --dtype bfloat16',
        f"SmolLM2-135M, SST-2, {_RESULTS}",
        f"{NO_WEIGHTS}; 300 sentences",
    ),
    Experiment(
        "Table 1, MNLI: the 495 texts of the authors' notebook",
        "python -m paper table1 --base BERT=google-bert/bert-base-uncased --tasks mnli --limit mnli=495",
        "",
        "the hub's `validation_mismatched` could not be downloaded",
    ),
    Experiment(
        "Sufficiency, MNLI and BERT (notebook)",
        "python -m paper table1 --base BERT=google-bert/bert-base-uncased --tasks mnli --limit mnli=495",
        f"MiniLM, SST-2, {_RESULTS}",
        f"{NO_WEIGHTS}; stands in the `results.md` of the column's folder",
    ),
    Experiment(
        "Accuracy under perturbation",
        "python -m paper table-accuracy --base BERT=google-bert/bert-base-uncased",
        f"MiniLM, SST-2, {_RESULTS}",
        f"{NO_WEIGHTS}; the published figures fit another formula, and both are printed",
    ),
    Experiment(
        "Curves of AOPC and accuracy over the share of masked tokens",
        "python -m paper figures --base BERT=google-bert/bert-base-uncased",
        f"MiniLM and SmolLM2, {_RESULTS}",
        NO_WEIGHTS,
    ),
    Experiment(
        "Fine-tuning of a classifier",
        "python -m paper finetune --task sst2 --model google-bert/bert-base-uncased --output runs/bert-sst2",
        f"MiniLM and SmolLM2, {_RESULTS}",
        NO_WEIGHTS,
    ),
    Experiment(
        "Table 2: examples of BLiMP's paradigms with their evidence",
        "python -m paper table2",
        "the five paradigms, [alignment](alignment.md#what-is-measured)",
        "antecedents by spaCy's parse, because neuralcoref cannot be installed any more",
    ),
    Experiment(
        "Fine-tuning on pairs of sentences",
        "python -m paper finetune --task blimp --model FacebookAI/roberta-base --output runs/roberta-blimp",
        f"MiniLM, {_ALIGNMENT}",
        NO_WEIGHTS,
    ),
    Experiment(
        "Alignment with evidence by layer, before and after fine-tuning",
        "python -m paper figure-alignment --base RoBERTa=FacebookAI/roberta-base",
        f"MiniLM, and SmolLM2 as it is, {_ALIGNMENT}",
        f"{NO_WEIGHTS}; MiniLM's masked-LM head was trained for 75 minutes",
    ),
    Experiment(
        'The extended figure of RoBERTa, with the random words "noun" and "apple"',
        'python -m paper figure-alignment --base RoBERTa=FacebookAI/roberta-base --words "plural noun apple"',
        f"MiniLM with other words, {_ALIGNMENT}",
        NO_WEIGHTS,
    ),
    Experiment(
        "Seconds for one text of 40 to 512 tokens",
        "python -m paper table-time",
        f"BERT-base with random weights on one CPU core, {_COST}",
        "the paper's GPU was not at hand; what compares is the ratio to NormXLogit",
    ),
    Experiment(
        "The largest batch of 512 tokens in 48 GB",
        "python -m paper table-memory",
        f"BERT-base with random weights on one CPU core, {_COST}",
        "on a CPU it is computed from measured peaks, on a GPU it is tried out",
    ),
)
"""In the paper's order. Numbers are given where they are known."""


def experiments_table() -> str:
    """Return all of them as a table in Markdown."""
    lines = ["| in the paper | command | run here on | what deviates |", "|---|---|---|---|"]
    lines += [f"| {e.name} | `{e.command}` | {e.here or 'not run'} | {e.deviates} |" for e in EXPERIMENTS]
    return "\n".join(lines) + "\n"
