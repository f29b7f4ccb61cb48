"""The commands that compare methods on models of other tasks: pointing, next-token, similarity."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from normxlogit.cli.console import quiet
from normxlogit.cli.options import (
    AUTO,
    NO_LANGUAGE_MODEL,
    Device,
    DType,
    EmbeddingModel,
    GGUFFile,
    Loading,
    required,
)
from normxlogit.errors import DataError
from normxlogit.evaluation.datasets import load_examples
from normxlogit.evaluation.options import DataDir, Methods, Rounds, Seed, Split, method_names
from normxlogit.evaluation.report import report
from normxlogit.long_runs.console import ReportFolder, check_folder, progress, write_report

from . import contrasts as next_token_contrasts
from .answer_pairs import explain_pairs, load_pairs, pairs_table
from .named_words import evaluate_named_words, load_prompts, named_words_table
from .next_token import evaluate_next_token, load_beginnings, next_token_table, split_sentences
from .pointing import evaluate_pointing, losses_table, pointing_table
from .pointing_cases import load_pointing_cases
from .pointing_verdicts import evaluate_verdicts, verdicts_table
from .similarity import evaluate_similarity, similarity_table

__all__ = ["contrasts", "named_words", "next_token", "pointing", "similarity"]


def pointing(
    data: Annotated[
        str,
        typer.Option(
            help='JSON lines with "image", "question", "answer" and "boxes" of the evidence in pixels, or with '
            '"audio", "answer" and "times" of each word in seconds.'
        ),
    ] = "",
    model: Annotated[str, typer.Option(help="Name or folder of a vision-language model, or of speech.")] = "",
    gguf_file: GGUFFile = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Names separated by spaces: methods of this library, and gradient-x-input, integrated-gradients, "
            "occlusion and attention-rollout on the numbers of the picture."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many questions.")] = 300,
    seed: Seed = 0,
    device: Device = AUTO,
    dtype: DType = None,
    output: ReportFolder = None,
) -> None:
    """Measure how well methods point at the evidence in a picture or a sound, where it is known.

    Example: python -m benchmarks pointing --data heldout.jsonl --model FOLDER --limit 100
    """
    required(model, "name a vision-language model or one of speech with --model")
    required(data, "name a file of questions with their evidence with --data")
    check_folder(output)
    with quiet():
        cases = load_pointing_cases(data, limit)
        explainer = Loading(device, dtype, gguf_file).load(model)
        folder = None if output is None else output / "runs"
        with progress(pieces_of_work=1) as on_progress:
            chosen = (methods or "").split()
            results = evaluate_pointing(explainer, cases, chosen, seed=seed, folder=folder, on_progress=on_progress)
        metadata = {"data": Path(data).name, "model": explainer.task_model.name, "cases": len(cases)}
        tables = f"{pointing_table(results, seed)}\nWould it have mattered\n\n{losses_table(results, seed)}"
        if cases[0].is_picture:
            with progress(pieces_of_work=1) as on_progress:
                answers = evaluate_verdicts(explainer, cases, on_progress)
            tables += f"\n\nIs it grounded: {len(answers)} right answers\n\n{verdicts_table(answers, seed)}"
        text = report(metadata, tables, output, "pointing", results=results)
    write_report(text)


def next_token(
    data: Annotated[
        str, typer.Option(help="Sentences, one a line, or JSON lines with a text (.gz too); their beginnings are read.")
    ] = "",
    model: Annotated[str, typer.Option(help="Name or folder of a causal language model.")] = "",
    gguf_file: GGUFFile = None,
    methods: Annotated[
        str | None, typer.Option(help="Names separated by spaces; settings as name:setting=value,setting=value.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many texts.")] = 200,
    split: Split = "validation",
    rounds: Rounds = 3,
    seed: Seed = 0,
    device: Device = AUTO,
    dtype: DType = None,
    output: ReportFolder = None,
) -> None:
    """Compare methods with leave-one-out: which tokens of a text does its next token rest on?

    Example: python -m benchmarks next-token --data texts.txt --model FOLDER --limit 50
    """
    required(model, NO_LANGUAGE_MODEL.replace("language", "causal language"))
    required(data, "name a file of sentences with --data")
    check_folder(output)
    with quiet():
        texts = load_beginnings(data, limit, split, seed)
        explainer = Loading(device, dtype, gguf_file).load(model)
        folder = None if output is None else output / "runs"
        options: dict[str, Any] = {"rounds": rounds, "seed": seed, "folder": folder}
        with progress(pieces_of_work=1) as on_progress:
            results = evaluate_next_token(explainer, texts, (methods or "").split(), on_progress=on_progress, **options)
        metadata = {
            "data": Path(data).name,
            "split": split,
            "model": explainer.task_model.name,
            "texts": results[0].texts,
        }
        table = next_token_table(results)
        text = report(metadata, table, output, "next-token", results=results)
    write_report(text)


def named_words(
    model: Annotated[str, typer.Option(help="Name or folder of a causal language model.")] = "",
    gguf_file: GGUFFile = None,
    methods: Annotated[
        str, typer.Option(help="Names separated by spaces; settings as name:setting=value,setting=value.")
    ] = "frozen-gradient frozen-gradient:read_at=0 frozen-gradient:read_at=middle normxlogit occlusion",
    split: Split = "validation",
    device: Device = AUTO,
    dtype: DType = None,
) -> None:
    """Compare the words that methods put first with those that a person named before any score was seen.

    Example: python -m benchmarks named-words --model FOLDER --gguf-file FILE.gguf
    """
    required(model, NO_LANGUAGE_MODEL.replace("language", "causal language"))
    with quiet():
        explainer = Loading(device, dtype, gguf_file).load(model)
        prompts = load_prompts(split)
        with progress(pieces_of_work=1) as on_progress:
            results = evaluate_named_words(explainer, prompts, methods.split(), on_progress)
        metadata = {"split": split, "model": explainer.task_model.name, "prompts": len(prompts)}
        text = report(metadata, named_words_table(results))
    write_report(text)


def contrasts(
    data: Annotated[
        str, typer.Option(help="Sentences, one a line (.gz too): the mean state is taken over a few.")
    ] = "",
    model: Annotated[str, typer.Option(help="Name or folder of a causal language model.")] = "",
    gguf_file: GGUFFile = None,
    split: Split = "train",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first prompts.")] = None,
    sentences: Annotated[int, typer.Option(min=1, help="Sentences that the mean state is taken over.")] = 80,
    seed: Annotated[int, typer.Option(min=0, help="Draws them.")] = 1,
    answers: Annotated[bool, typer.Option("--answers", help="Of two answers of any length; needs no --data.")] = False,
    dtype: DType = None,
) -> None:
    """Compare what is explained of a next token, and where: named words, and leave-one-out before the last token.

    With --answers: of two answers to one prompt, by what the likelier one loses without each token of the prompt.

    Example: python -m benchmarks contrasts --data texts.txt --model FOLDER --gguf-file FILE.gguf
    """
    required(model, NO_LANGUAGE_MODEL.replace("language", "causal language"))
    if answers:
        with quiet():
            explainer = Loading("cpu", dtype, gguf_file).load(model)
            with progress(pieces_of_work=1) as on_progress:
                pairs = explain_pairs(explainer, load_pairs()[:limit], on_progress)
            text = report({"model": explainer.task_model.name, "pairs": len(pairs)}, pairs_table(pairs))
        write_report(text)
        return
    required(data, "name a file of sentences with --data")
    with quiet():
        explainer = Loading("cpu", dtype, gguf_file).load(model)
        prompts = load_prompts(split)[:limit]
        lines = split_sentences(data, "train")
        order = np.random.default_rng(seed).permutation(len(lines))[:sentences].tolist()
        means = next_token_contrasts.mean_states(explainer, [lines[place] for place in order])
        with progress(pieces_of_work=1) as on_progress:
            explained = next_token_contrasts.explain(explainer, prompts, means, on_progress)
        metadata = {"split": split, "model": explainer.task_model.name, "prompts": len(prompts)}
        text = report(metadata, next_token_contrasts.table(prompts, explained))
    write_report(text)


def similarity(
    dataset: Annotated[str, typer.Option(help="stsb, or a file with two columns of texts.")] = "stsb",
    model: EmbeddingModel = "",
    methods: Methods = "frozen-gradient normxlogit logat random",
    data_dir: DataDir = None,
    split: Split = "validation",
    columns: Annotated[str | None, typer.Option(help="The two text columns, separated by a comma.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="So many pairs, drawn at random.")] = 200,
    seed: Seed = 0,
    gguf_file: GGUFFile = None,
    device: Device = AUTO,
    dtype: DType = None,
) -> None:
    """Measure how far the tokens that each method names for a cosine are those that it loses most without.

    Example: python -m benchmarks similarity --dataset stsb --data-dir DATA --model FOLDER
    """
    required(model, "name an embedding model with --model; the model in the package is a classifier")
    with quiet():
        column_names = columns.split(",") if columns else []
        examples = load_examples(dataset, split=split, data_dir=data_dir, columns=column_names)
        pairs = [example.text for example in examples if isinstance(example.text, tuple)]
        if not pairs:
            raise DataError(f"{dataset}: one column of texts; name two with --columns")
        order = np.random.default_rng(seed).permutation(len(pairs))[:limit].tolist()
        explainer = Loading(device, dtype, gguf_file).load(model, task="embedding")
        drawn = [pairs[place] for place in order]
        names = method_names(methods or "")
        with progress(pieces_of_work=1) as on_progress:
            results = evaluate_similarity(explainer, drawn, names, seed=seed, on_progress=on_progress)
        count = f"{len(order)} of {len(pairs)}"
        metadata = {"dataset": Path(dataset).name, "pairs": count, "model": explainer.task_model.name}
        text = report(metadata, similarity_table(results))
    write_report(text)
