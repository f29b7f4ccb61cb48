"""The commands: each measurement of this folder is one."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import typer

from normxlogit import Explainer
from normxlogit.cli import run_app
from normxlogit.cli.console import quiet, write
from normxlogit.cli.options import Device, DType, verified_units
from normxlogit.errors import InputError
from normxlogit.evaluation.datasets import load_examples, parsed_rows
from normxlogit.evaluation.options import methods_of
from normxlogit.evaluation.timing import environment
from normxlogit.grounding.evaluation.sources import evaluate_sources, load_questions, sources_table
from normxlogit.loading.load import AUTO, default_model_folder, device_named
from normxlogit.long_runs.console import progress
from normxlogit.results.storage.files import write_json

from . import (
    actions,
    chain_reader,
    evidence_hops,
    evidence_real,
    long_answers,
    long_conversations,
    long_prompts,
    needles,
    real_grounding,
    shortcut_plants,
    verification,
)
from . import at2 as learned_attention
from . import attnlrp as authors_package
from . import chains as reasoning_chains
from . import corpus as corpora
from . import device as device_costs
from . import evidence as known_evidence
from . import interactions as unit_pairs
from . import memory as memory_overhead
from . import peers as other_packages
from . import removal as word_removal
from . import service as web_service
from . import shortcuts as planted_shortcuts
from . import simulation as forward_simulation
from . import speed as time_ratios
from . import traces as synthetic_traces
from . import windows as windowed_conversations
from .comparisons import contrasts, named_words, next_token, pointing, similarity
from .context_cite import published_context_cite
from .evidence_rankings import MEASURES
from .hotpot import load_questions as load_hotpot
from .injections import Half
from .models import agreement_table, measure_agreement
from .qnli import qnli_questions
from .ratios import Row, as_state, as_table

__all__ = ["app", "main"]

app = typer.Typer(
    help="Measure what explanations cost, and compare methods with each other and with other packages.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Rounds = Annotated[int, typer.Option(min=1, help="Counted rounds; figures are their medians.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads of torch; by default as many as it takes.")]
Output = Annotated[Path | None, typer.Option(help="Also write the figures to this JSON file.")]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; a user's mistake is one line on standard error and exit code 2.

    Args:
        arguments: The words after the program's name, by default those of the process.
    """
    run_app(app, "python -m benchmarks", arguments)


@app.command()
def speed(
    rows: Annotated[str, typer.Option(help='"all", or names separated by spaces, such as "one-text corpus".')] = "all",
    rounds: Rounds = 7,
    threads: Threads = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder with SST-2's validation.jsonl; else random words of its lengths.")
    ] = None,
    language_model: Annotated[
        Literal["smollm2-135m", "llama-2-7b"],
        typer.Option(
            help="Shape of the rows next-token and generated, random weights; llama-2-7b takes 14 GB in bfloat16 and "
            "reads 2048 tokens."
        ),
    ] = "smollm2-135m",
    output: Output = None,
) -> None:
    """Measure the time of explanations over that of forward passes, with a bound on each row."""
    with quiet():
        _use(threads)
        texts = None if data_dir is None else [str(e.text) for e in load_examples("sst2", data_dir=data_dir)]
        setup = time_ratios.Setup(rounds=rounds, texts=texts, **time_ratios.LANGUAGE_MODELS[language_model])
        with progress(1) as step:
            rows_measured = list(time_ratios.measure(setup, None if rows == "all" else rows.split(), on_progress=step))
    _show(rows_measured, output)


@app.command()
def memory(
    batch: Annotated[int, typer.Option(min=1, help="Texts at once.")] = 16,
    length: Annotated[int, typer.Option(min=1, max=512, help="Tokens of each.")] = 512,
    rounds: Rounds = 7,
    threads: Threads = None,
    output: Output = None,
) -> None:
    """Measure the peak memory of an explanation over that of the forward pass, each in a process of its own."""
    with quiet():
        _use(threads)
        with progress(1) as step:
            measured = memory_overhead.extra_memory(batch=batch, length=length, rounds=rounds, on_progress=step)
    _show([measured], output)


@app.command()
def device(
    small: Annotated[bool, typer.Option("--small", help="Sizes that a CPU measures in seconds.")] = False,
    sections: Annotated[str, typer.Option(help='Names separated by commas, such as "exactness,profile".')] = "",
    seconds: Annotated[float, typer.Option(min=1, help="After so many, each section ends with its next row.")] = 280,
    output: Annotated[Path | None, typer.Option(help="Folder for device.json, written after each row.")] = None,
) -> None:
    """Measure a GPU: exactness against the CPU, times against the bare pass and gradient, memory, and a profile."""
    setup = replace(device_costs.Setup.small() if small else device_costs.Setup(), seconds=seconds)
    names = tuple(filter(None, (name.strip() for name in sections.split(","))))
    if unknown := set(names) - device_costs.SECTIONS.keys():
        raise InputError(f"no sections {sorted(unknown)}; there are {', '.join(device_costs.SECTIONS)}")
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
    rows = []
    with quiet():
        write(device_costs.heading())
        for row in device_costs.measure(setup, names):
            rows.append(row)
            write(device_costs.line(row) + "\n")
            if output is not None:
                (output / "device.json").write_text(json.dumps(device_costs.as_state(rows), indent=1) + "\n")


@app.command()
def models(
    before: Annotated[
        str | None, typer.Option(help="Name or folder of a model; by default the one in the package.")
    ] = None,
    after: Annotated[str, typer.Option(help="Name or folder of the other.")] = "",
    data_dir: Annotated[Path | None, typer.Option(help="Folder with SST-2's validation.jsonl.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most texts.")] = 872,
    seed: Annotated[int, typer.Option(help="Seed of the random words.")] = 0,
) -> None:
    """Measure whether two models agree without the words that carry their difference, against random words."""
    if not after:
        raise InputError("name the other model with --after")
    with quiet():
        texts = [str(example.text) for example in load_examples("sst2", data_dir=data_dir)][:limit]
        explainers = (Explainer.from_pretrained(before), Explainer.from_pretrained(after))
        rows = list(measure_agreement(*explainers, texts, seed))
    write(agreement_table(rows))


@app.command("long-prompts")
def long(
    tokens: Annotated[str, typer.Option(help="Lengths of the prompts, separated by spaces.")] = "1000 2000 4000",
    conversations: Annotated[
        bool, typer.Option("--conversations", help="Cite the last answers of conversations with tools instead.")
    ] = False,
    verify: Annotated[str, typer.Option(help="The test of the citations of conversations, as of `cite`.")] = "auto",
    model: Annotated[
        str | None, typer.Option(help="Folder of the reader of conversations; by default a small one, random weights.")
    ] = None,
    gguf_file: Annotated[str | None, typer.Option(help="The GGUF file in that folder.")] = None,
    threads: Threads = None,
    output: Output = None,
) -> None:
    """Measure the memory of the backward pass through a long prompt, with and without gradient checkpointing.

    With --conversations: memory and time of the citations of a long conversation, with and without their test.
    """
    if not conversations and (verify != "auto" or model or gguf_file):
        raise InputError("--verify, --model and --gguf-file are for --conversations")

    def show(what: str) -> None:
        typer.echo(f"{what} ...", err=True)

    with quiet():
        _use(threads)
        if conversations:
            lengths, test = _lengths(tokens), verified_units(verify)
            cited = list(long_conversations.compare(lengths, test, model=model, gguf_file=gguf_file, on_progress=show))
            table, rows = long_conversations.as_table(cited), [asdict(taken) for taken in cited]
        else:
            pairs = list(long_prompts.compare(_lengths(tokens), on_progress=show))
            table, rows = long_prompts.as_table(pairs), [asdict(taken) for pair in pairs for taken in pair]
    _deliver(table, {"environment": environment(device_named(AUTO)), "rows": rows}, output)


@app.command()
def peers(
    packages: Annotated[str, typer.Option(help='"all", or names separated by spaces.')] = "all",
    model: Annotated[
        str | None, typer.Option(help="Folder of a classifier; the small sentiment model by default.")
    ] = None,
    text: Annotated[str, typer.Option(help="The sentence.")] = other_packages.SENTENCE,
    rounds: Rounds = 7,
    threads: Threads = None,
    output: Output = None,
) -> None:
    """Explain the same sentence with other packages; each is installed into an environment that is then thrown away."""
    with quiet():
        _use(threads)
        measured = list(
            other_packages.compare(
                other_packages.PEERS if packages == "all" else tuple(packages.split()),
                model=model,
                text=text,
                rounds=rounds,
                on_progress=lambda name: typer.echo(f"{name} ...", err=True),
            )
        )
    state = {"environment": environment(device_named(AUTO)), "rows": [asdict(r) for r in measured]}
    _deliver(other_packages.as_table(measured), state, output)


@app.command()
def attnlrp(
    model: Annotated[str | None, typer.Option(help="Folder of a BERT classifier; the packaged one if none.")] = None,
    dataset: Annotated[str, typer.Option(help="reviews, sst2, mnli, qnli, or a file.")] = "reviews",
    data_dir: Annotated[Path | None, typer.Option(help="Folder with validation.jsonl.")] = None,
    split: Annotated[str, typer.Option(help="Choose settings on train, report validation.")] = "validation",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first texts.")] = None,
    methods: Annotated[
        str, typer.Option(help="Names separated by spaces; the first one's difference to each other is shown.")
    ] = "frozen-gradient normxlogit decompx",
    output: Annotated[Path | None, typer.Option(help="Folder where finished runs are kept.")] = None,
) -> None:
    """Measure AttnLRP, by its authors' package in an environment of its own, beside methods of this package."""
    with quiet():
        explainer = Explainer.from_pretrained(model)
        examples = load_examples(dataset, split=split, data_dir=data_dir, limit=limit)
        folder = model or str(default_model_folder())
        results = authors_package.compare(explainer, folder, examples, methods_of(methods), output)
    write(authors_package.table(results))


@app.command()
def at2(
    train: Annotated[Path, typer.Option(help="Rows of QNLI, or questions with documents, to train the estimator on.")],
    data: Annotated[Path, typer.Option(help="The same, to compare on.")],
    model: Annotated[str, typer.Option(help="Folder of a Llama.")],
    output: Annotated[Path, typer.Option(help="Folder for ablations, estimators and what was measured.")],
    gguf_file: Annotated[str | None, typer.Option(help="The GGUF file in that folder.")] = None,
    dtype: Annotated[str, typer.Option(help="Data type of the weights.")] = "bfloat16",
    train_limit: Annotated[int, typer.Option(min=2, help="Training questions.")] = 100,
    limit: Annotated[int, typer.Option(min=1, help="Questions to compare on.")] = 100,
    methods: Annotated[str, typer.Option(help="Names separated by spaces.")] = "frozen-gradient",
) -> None:
    """Train AT2, by its authors' package (`pip install at2`), and measure it beside methods of this package."""
    with quiet():
        explainer = _load(model, gguf_file, dtype=dtype)
        estimators = learned_attention.train(explainer, load_questions(train, train_limit), output)
        results, prompts = learned_attention.compare(
            explainer, load_questions(data, limit), methods_of(methods), estimators, output / "measured"
        )
    write(f"On {prompts} of these questions some source matters.\n\n{sources_table(results)}")


@app.command("verification")
def verification_of_words(
    model: Annotated[
        str | None, typer.Option(help="Folder of a classifier; by default the model in the package.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most texts.")] = 100,
    timed: Annotated[int, typer.Option(min=1, help="Texts of about 40 tokens that are timed.")] = 5,
    verify: Annotated[int, typer.Option(min=1, help="Words that are removed.")] = 5,
    rounds: Rounds = 7,
    threads: Threads = None,
) -> None:
    """Measure what the test of an explanation costs, and how small the sets are that it finds."""
    with quiet():
        _use(threads)
        explainer = Explainer.from_pretrained(model)
        texts = [str(example.text) for example in load_examples("reviews")][:limit]
        long = [" ".join(texts[i : i + 3]) for i in range(0, len(texts) - 2, 3)]
        near = sorted(long, key=lambda text: abs(len(explainer.encode(text)[0]) - 40))[:timed]
        costs = verification.passes(explainer, near, verify, rounds)
        with progress(1) as step:
            sizes = {what: verification.set_sizes(explainer, texts, what, step) for what in verification.TRIED}
    write(verification.table(sizes, costs, verify))


@app.command()
def simulation(
    model: Annotated[str | None, typer.Option(help="Folder of a classifier; the packaged one if none.")] = None,
    dataset: Annotated[str, typer.Option(help="reviews, sst2, mnli, qnli, or a file.")] = "reviews",
    data_dir: Annotated[Path | None, typer.Option(help="Folder with validation.jsonl.")] = None,
    split: Annotated[str, typer.Option(help="Choose settings on train, report validation.")] = "validation",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first texts.")] = None,
    methods: Annotated[str, typer.Option(help="Names separated by spaces; those of the frontier if none.")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Of the bootstrap.")] = 0,
    threads: Threads = None,
    output: Output = None,
) -> None:
    """Simulate the answer without each word from the explanation of the whole text: a reader that is a regression."""
    with quiet():
        _use(threads)
        explainer = Explainer.from_pretrained(model)
        texts = [example.text for example in load_examples(dataset, split=split, data_dir=data_dir, limit=limit)]
        with progress(1) as step:
            chosen = methods_of(methods) if methods else []
            results, words = forward_simulation.evaluate_simulation(
                explainer, texts, chosen, seed=seed, on_progress=step
            )
    state = {"environment": environment(device_named(AUTO)), "rows": [asdict(one) for one in results]}
    counts = f"{len(texts)} texts, {len(words.flips)} words, {int(words.flips.sum())} change the prediction"
    _deliver(f"{counts}, seed {seed}\n\n{forward_simulation.table(results)}", state, output)


@app.command()
def removal(
    model: Annotated[str | None, typer.Option(help="Folder of a classifier or masked language model.")] = None,
    dataset: Annotated[str, typer.Option(help="reviews, sst2, mnli, qnli, stsb, or a file of sentences.")] = "reviews",
    data_dir: Annotated[Path | None, typer.Option(help="Folder with train.jsonl.")] = None,
    split: Annotated[str, typer.Option(help="Choose settings on train, report validation.")] = "train",
    limit: Annotated[int, typer.Option(min=1, help="Most texts.")] = 300,
    method: Annotated[str | None, typer.Option(help="Whose words are removed; the default one if none.")] = None,
) -> None:
    """Measure whether deleted or masked words tell better which words of a text count, or of masked sentences."""
    with quiet():
        explainer = Explainer.from_pretrained(model)
        mask = explainer.tokenizer.mask_token
        if mask is None:
            raise InputError("the model has no mask token")
        if explainer.task_model.task.name == "masked-lm":
            texts: list[Any] = word_removal.masked_sentences(Path(dataset), mask, limit, split)
        else:
            texts = [example.text for example in load_examples(dataset, split=split, data_dir=data_dir, limit=limit)]
        with progress(1) as step:
            results = word_removal.measure(explainer, texts, method, step)
    write(word_removal.table(results))


@app.command("planted-pairs")
def planted_pairs(
    data_dir: Annotated[Path, typer.Option(help="Folder with sst2 and mnli: train.jsonl, validation.jsonl.")],
    work_dir: Annotated[Path, typer.Option(help="Where the classifiers are kept.")] = Path("planted"),
    data: Annotated[Literal["sst2", "mnli"], typer.Option(help="The data that pairs are planted in.")] = "sst2",
    gap: Annotated[int, typer.Option(min=0, help="Words of the text between the two of a pair.")] = 0,
    budget: Annotated[int, typer.Option(min=20, help="Passes of each text.")] = 64,
    limit: Annotated[int, typer.Option(min=1, help="Texts that each pair is put into.")] = 5,
    corpus: Annotated[
        bool, typer.Option("--corpus", help="See instead whether the summary of a corpus names them.")
    ] = False,
) -> None:
    """Plant pairs of words that decide together, and see whether `explainer.pairs` names them."""
    with quiet(), progress(1) as step:
        if corpus:
            table = unit_pairs.corpus_table(unit_pairs.measure_corpus(data_dir, work_dir, data, gap, step))
        else:
            found = unit_pairs.measure_planted(data_dir, work_dir, data, gap, budget, limit, step)
            table = unit_pairs.planted_table(found)
    write(table)


@app.command("short-prompts")
def short_prompts(
    data: Annotated[Path, typer.Argument(help="JSONL of HotpotQA's rows, with ten paragraphs.")],
    sentences: Annotated[int, typer.Option(min=1, help="Sentences of a prompt, beside the question.")] = 7,
    most_words: Annotated[int, typer.Option(min=1, help="Most words of these.")] = 95,
    output: Annotated[Path, typer.Option(help="Where the prompts are written.")] = Path("prompts.jsonl"),
) -> None:
    """Make prompts for `normxlogit evaluate interactions`: sentences of documents, a question, and its answer."""
    rows = unit_pairs.short_prompts(data, sentences, most_words)
    output.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    write(f"written to {output}\n")


@app.command()
def qnli(
    data: Annotated[Path, typer.Argument(help="JSONL of QNLI's rows.")],
    limit: Annotated[int, typer.Option(min=1, help="Most questions.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Chooses questions and the other sentences.")] = 0,
    output: Annotated[Path, typer.Option(help="Where the questions are written.")] = Path("questions.jsonl"),
) -> None:
    """Make questions with documents of seven sentences, one of which answers, of QNLI's rows."""
    questions = qnli_questions(parsed_rows(data, dict, "not a row of QNLI"), limit, seed)
    output.write_text("".join(json.dumps(asked._asdict()) + "\n" for asked in questions), "utf-8")
    write(f"written to {output}\n")


@app.command()
def evidence(
    name: Annotated[
        Literal["phrases", "agreement", "sums", "planted", "answers", "traces"],
        typer.Argument(help="The set."),
    ],
    data_dir: Annotated[Path, typer.Option(help="Folder with sst2/, mnli/, qnli/ and blimp/.")] = Path(),
    model: Annotated[
        str | None,
        typer.Option(
            help="Folder of a language model, for all sets but phrases; of `planted` one that `shortcuts` made, of "
            "`answers` a classifier of QNLI, which is made where it is missing."
        ),
    ] = None,
    gguf_file: Annotated[str | None, typer.Option(help="The GGUF file in that folder.")] = None,
    dtype: DType = None,
    limit: Annotated[int, typer.Option(min=1, help="Most rows.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Draws them.")] = 0,
    output: Annotated[Path, typer.Option(help="Where the rows are written.")] = Path("known.jsonl"),
) -> None:
    """Make a set in which it is known what an answer rests on, for `normxlogit evaluate evidence`."""
    with quiet():
        folder = Path(model or "")
        if name == "answers" and model is not None:
            shortcut_plants.make(shortcut_plants.Plant("qnli", "none", ""), folder, data_dir, seed)
        explainer = None if model is None else _load(model, gguf_file, dtype=dtype)
        rows = known_evidence.known_rows(name, explainer, data_dir, limit, seed, folder)
    output.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    write(f"{len(rows)} rows written to {output}\n")


@app.command("context-cite")
def cited(
    data: Annotated[Path, typer.Option(help="JSONL of questions with documents.")],
    model: Annotated[str, typer.Option(help="Name or folder of a causal language model.")],
    methods: Annotated[str, typer.Option(help="Names separated by spaces, to measure beside it.")] = "context-cite",
    samples: Annotated[int, typer.Option(min=1, help="Random ablations of the package.")] = 32,
    limit: Annotated[int, typer.Option(min=1, help="Most questions.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Seed of documents, ablations and bootstrap.")] = 0,
    device: Device = AUTO,
    dtype: DType = None,
    output: Annotated[Path | None, typer.Option(help="Folder where finished prompts are kept.")] = None,
) -> None:
    """Measure the published package context-cite on the sources of answers, beside methods of this package."""
    with quiet():
        explainer = Explainer.from_pretrained(model, device=device, dtype=dtype)
        questions = load_questions(data, limit)
        rankings = {f"package context-cite:samples={samples}": partial(published_context_cite, samples=samples)}
        with progress(1) as step:
            results, _ = evaluate_sources(
                explainer, questions, methods.split(), rankings=rankings, seed=seed, folder=output, on_progress=step
            )
    write(sources_table(results))


def _measure_cases(
    benchmark: Any, cases: Any, load: Callable[[], Explainer], threads: int | None, output: Path | None
) -> None:
    """Read cases that a program wrote by a language model, and deliver the benchmark's table and rows."""
    with quiet():
        _use(threads)
        explainer = load()
        with progress(1) as step:
            results = benchmark.read(explainer, cases, on_progress=step)
    rows = [found._asdict() for found in results]
    state = {"environment": environment(device_named(AUTO)), "rows": rows}
    _deliver(benchmark.table(results), state, output)


@app.command()
def traces(
    model: Annotated[str, typer.Option(help="Folder of a language model.")],
    gguf_file: Annotated[str | None, typer.Option(help="The GGUF file in that folder.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many traces.")] = 100,
    seed: Annotated[int, typer.Option(help="Of the drawn facts and places.")] = 0,
    threads: Threads = None,
    output: Output = None,
) -> None:
    """Measure whether the first source of an answer is the message that holds the fact, on synthetic traces."""
    cases = synthetic_traces.write_traces(limit, seed)
    _measure_cases(synthetic_traces, cases, partial(_load, model, gguf_file), threads, output)


@app.command()
def chains(
    model: Annotated[
        str | None, typer.Option(help="Folder of a language model; by default a small one trained on such chains.")
    ] = None,
    reader: Annotated[Path | None, typer.Option(help="Folder where the trained one is kept.")] = None,
    gguf_file: Annotated[str | None, typer.Option(help="The GGUF file in that folder.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many chains.")] = 80,
    seed: Annotated[int, typer.Option(help="Of the drawn facts.")] = 0,
    threads: Threads = None,
    output: Output = None,
) -> None:
    """Measure whether the facts that a reasoned conclusion stands on are first, on chains written by a program."""
    cases = reasoning_chains.write_chains(limit, seed)

    def load() -> Explainer:
        if model is not None:
            return _load(model, gguf_file)
        with progress(1) as step:
            return chain_reader.trained_reader(reader, on_progress=step)

    _measure_cases(reasoning_chains, cases, load, threads, output)


@app.command("needles")
def needles_of_documents(
    model: Annotated[str | None, typer.Option(help="Folder of a causal language model, to measure.")] = None,
    gguf_file: Annotated[str | None, typer.Option(help="The GGUF file in that folder.")] = None,
    dtype: DType = None,
    sentences: Annotated[int, typer.Option(min=5, max=156, help="Sentences of a document, of 12 tokens each.")] = 40,
    haystack: Annotated[
        needles.Haystack, typer.Option(help="What the other sentences say: numbers of things, or where things stand.")
    ] = "numbers",
    limit: Annotated[int, typer.Option(min=1, help="How many documents.")] = 20,
    measured: Annotated[
        Path, typer.Option(help="JSON lines of what was measured; by default of SmolLM2-135M.")
    ] = needles.MEASURED,
    threads: Threads = None,
) -> None:
    """Measure whether the first source of an answer is the one sentence of a long document that holds it."""
    with quiet():
        _use(threads)
        if model is not None:
            explainer = _load(model, gguf_file, dtype=dtype)
            with progress(1) as step:
                needles.measure(explainer, limit, sentences, measured, haystack, on_progress=step)
        report = needles.report(measured)
    write(report)


@app.command("long-answers")
def spans_of_long_answers(
    shape: Annotated[Literal["small", "smollm2-135m"], typer.Option(help="Shape of the model.")] = "small",
    prompt: Annotated[int, typer.Option(min=10, help="Tokens of the prompt, about.")] = 2000,
    answer: Annotated[int, typer.Option(min=10, help="Tokens of the answer, about.")] = 500,
    threads: Threads = None,
    output: Output = None,
) -> None:
    """Measure what the spans of a long answer cost in forward passes and in memory."""
    with quiet():
        _use(threads)
        show = partial(typer.echo, err=True)
        rows = list(long_answers.compare(long_answers.SHAPES[shape], prompt, answer, on_progress=show))
    state = {"environment": environment(device_named(AUTO)), "rows": [asdict(row) for row in rows]}
    _deliver(long_answers.as_table(rows), state, output)


@app.command()
def windows(
    model: Annotated[str, typer.Option(help="Folder of a language model.")],
    gguf_file: Annotated[str | None, typer.Option(help="The GGUF file in that folder.")] = None,
    threads: Threads = None,
    output: Output = None,
) -> None:
    """Measure whether windows over a conversation that is too long find the sources that reading all of it finds."""
    with quiet():
        _use(threads)
        explainer = _load(model, gguf_file)
        with progress(1) as step:
            measured = list(windowed_conversations.compare(explainer, on_progress=step))
    state = {"environment": environment(device_named(AUTO)), "rows": [case._asdict() for case in measured]}
    _deliver(windowed_conversations.as_table(measured), state, output)


@app.command()
def service(
    model: Annotated[str | None, typer.Option(help="Folder of a classifier; the packaged one by default.")] = None,
    clients: Annotated[int, typer.Option(min=1, help="How many ask at once, without a pause.")] = 16,
    minutes: Annotated[float, typer.Option(min=0.01, help="How long; bare passes take a fifth of it.")] = 10.0,
    threads: Threads = None,
    output: Output = None,
) -> None:
    """Measure answers, times and memory of the service of examples/service.py under concurrent clients."""
    with quiet():
        _use(threads)
        texts = [str(example.text) for example in load_examples("reviews")]
        measured = web_service.serve(
            texts,
            model,
            clients=clients,
            seconds=60 * minutes,
            on_progress=lambda what: typer.echo(f"{what} ...", err=True),
        )
    state = {"environment": environment(device_named(AUTO)), "rows": [asdict(one) for one in measured]}
    _deliver(web_service.as_table(measured), state, output)


@app.command()
def stream(
    model: Annotated[str | None, typer.Option(help="Folder of a classifier; the packaged one by default.")] = None,
    texts: Annotated[int, typer.Option(min=10, help="How many texts the stream has.")] = 100_000,
    threads: Threads = None,
    output: Output = None,
) -> None:
    """Measure the peak memory of `Explainer.stream` in each tenth of a long stream of texts."""
    with quiet():
        _use(threads)
        explainer = Explainer.from_pretrained(model)
        reviews = [str(example.text) for example in load_examples("reviews")]
        table = memory_overhead.stream_table(explainer, reviews, texts, lambda row: typer.echo(row, err=True))
    _deliver(table, {"environment": environment(device_named(AUTO))}, output)


@app.command()
def shortcuts(
    data_dir: Annotated[Path, typer.Option(help="Folder with sst2 and mnli: train.jsonl, validation.jsonl.")],
    models: Annotated[Path, typer.Option(help="Folder of the fine-tuned models; those that are missing are made.")],
    baselines: Annotated[str, typer.Option(help="Methods that rank words, too.")] = " ".join(
        planted_shortcuts.BASELINES
    ),
    only: Annotated[str, typer.Option(help="Only plants of such names, separated by commas.")] = "",
    rows: Annotated[int, typer.Option(min=1, help="Most validation texts of each run.")] = 240,
    seed: Annotated[int, typer.Option(min=0, help="Draws rows and places; plants follow each other.")] = 0,
    chosen_on: Annotated[
        bool, typer.Option("--chosen-on", help="The plants that the threshold was chosen on, not those reported.")
    ] = False,
    threads: Threads = None,
    output: Output = None,
) -> None:
    """Measure whether the deciding words of a summary are the planted shortcuts, and none without a plant."""
    with quiet():
        _use(threads)
        models.mkdir(parents=True, exist_ok=True)
        found = []
        for one in planted_shortcuts.measure(
            data_dir, models, baselines.split(), only=only, rows=rows, seed=seed, chosen_on=chosen_on
        ):
            found.append(one)
            typer.echo(f"{one.plant}, {one.rate}, {one.ranking}: {one.place}", err=True)
    state = {"environment": environment(device_named(AUTO)), "rows": [one._asdict() for one in found]}
    _deliver(planted_shortcuts.as_table(found), state, output)


@app.command(add_help_option=False, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def corpus(context: typer.Context) -> None:
    """Measure a corpus run: throughput beside bare forward passes, memory, kills and the summary."""
    with quiet():
        corpora.corpus(context.args)


@app.command("grounding-real")
def labels_of_others(
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder with attributionbench.jsonl, halueval.jsonl and wice.jsonl; for WiCE, or to measure."
        ),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Folder of a language model, to measure what is missing.")] = None,
    gguf_file: Annotated[str | None, typer.Option(help="The GGUF file in that folder.")] = None,
    measured: Annotated[
        Path, typer.Option(help="JSON lines of what was measured; by default of SmolLM2-135M.")
    ] = real_grounding.MEASURED,
    questions: Annotated[int, typer.Option(min=1, help="How many of HaluEval's questions are ranked.")] = 24,
    threads: Threads = None,
) -> None:
    """Measure how well an answer's sentences are ordered, and unsupported words marked, by labels of others."""
    if model is not None and data is None:
        raise InputError("--model measures the sentences of --data")
    with quiet():
        _use(threads)
        cases = [] if data is None else real_grounding.load_cases(data)
        readings = real_grounding.beside(measured, "readings")
        if model is not None:
            explainer = _load(model, gguf_file)
            ranked = [case for case in cases if case.dataset != "HaluEval" or case.number < questions]
            with progress(2) as step:
                real_grounding.measure(explainer, ranked, measured, real_grounding.measure_case, step)
                real_grounding.measure(explainer, cases, readings, real_grounding.read_case, step)
        if data is not None:
            real_grounding.judge_again(readings, cases)
            real_grounding.compare_again(measured, cases)
        report = real_grounding.report(measured, data)
    write(report)


@app.command("evidence-real")
def evidence_of_others(
    data: Annotated[Path | None, typer.Option(help="Folder with hotpotqa.jsonl, to measure.")] = None,
    model: Annotated[str | None, typer.Option(help="Folder of a causal language model, to measure.")] = None,
    gguf_file: Annotated[str | None, typer.Option(help="The GGUF file in that folder.")] = None,
    dtype: DType = None,
    questions: Annotated[int | None, typer.Option(min=1, help="How many; all if none.")] = None,
    methods: Annotated[str, typer.Option(help=f"What is measured: {', '.join(MEASURES)}.")] = " ".join(MEASURES),
    answers: Annotated[
        Literal["given", "written"],
        typer.Option(help="The answers of the data, or those that the model writes, where they are right."),
    ] = "given",
    measured: Annotated[
        Path, typer.Option(help="JSON lines of what was measured; by default of SmolLM2-135M.")
    ] = evidence_real.MEASURED,
    threads: Threads = None,
) -> None:
    """Measure how well methods find the two of ten paragraphs that the answers to HotpotQA's questions rest on."""
    names = methods.split()
    if unknown := set(names) - MEASURES.keys():
        raise InputError(f"nothing called {sorted(unknown)} is measured; there are {', '.join(MEASURES)}")
    if model is not None and data is None:
        raise InputError("--model measures the questions of --data")
    with quiet():
        _use(threads)
        if model is not None and data is not None:
            explainer = _load(model, gguf_file, dtype=dtype)
            asked = evidence_real.in_random_order(load_hotpot(data), questions)
            with progress(1) as step:
                evidence_real.measure(
                    explainer, asked, names, measured, is_written=answers == "written", on_progress=step
                )
        report = evidence_real.report(measured)
        of_given = evidence_real.by_question(evidence_real.load_measured(measured), "given")
        hops = evidence_hops.report(of_given)
    write(f"{report}\nBoth gold paragraphs first, answers given\n\n{hops}" if hops else report)


@app.command("evidence-actions")
def evidence_of_actions(
    model: Annotated[str | None, typer.Option(help="Folder of a causal language model, to measure.")] = None,
    gguf_file: Annotated[str | None, typer.Option(help="The GGUF file in that folder.")] = None,
    dtype: DType = None,
    half: Annotated[Half, typer.Option(help="Which half of the traces is measured.")] = "test",
    limit: Annotated[int, typer.Option(min=1, max=actions.TRACES, help="How many traces of it.")] = actions.TRACES,
    methods: Annotated[str, typer.Option(help=f"What is measured: {', '.join(actions.MEASURES)}.")] = " ".join(
        actions.MEASURES
    ),
    measured: Annotated[
        Path, typer.Option(help="JSON lines of what was measured; by default of SmolLM2-135M.")
    ] = actions.MEASURED,
    threads: Threads = None,
) -> None:
    """Measure how well methods find the instruction in a tool's result that makes an agent call another tool."""
    names = methods.split()
    if unknown := set(names) - actions.MEASURES.keys():
        raise InputError(f"nothing called {sorted(unknown)} is measured; there are {', '.join(actions.MEASURES)}")
    with quiet():
        _use(threads)
        if model is not None:
            explainer = _load(model, gguf_file, dtype=dtype)
            with progress(1) as step:
                actions.measure(explainer, half, limit, names, measured, step)
        report = actions.report(measured)
    write(report)


app.command()(pointing)
app.command("next-token")(next_token)
app.command("named-words")(named_words)
app.command()(contrasts)
app.command()(similarity)


def _load(model: str, gguf_file: str | None, **options: Any) -> Explainer:
    """Load a model's explainer, from a GGUF file in its folder if one is named."""
    if gguf_file is not None:
        options["gguf_file"] = gguf_file
    return Explainer.from_pretrained(model, **options)


def _use(threads: int | None) -> None:
    if threads is not None:
        torch.set_num_threads(threads)


def _lengths(words: str) -> list[int]:
    if not words.split() or not all(word.isdecimal() and int(word) for word in words.split()):
        raise InputError(f"--tokens takes numbers above 0, separated by spaces, not {words!r}")
    return [int(word) for word in words.split()]


def _show(rows: list[Row], output: Path | None) -> None:
    _deliver(as_table(rows), as_state(rows), output)


def _deliver(table: str, state: dict[str, Any], output: Path | None) -> None:
    heading = ", ".join(f"{key}: {value}" for key, value in state["environment"].items())
    write(f"{heading}\n\n{table}")
    if output is not None:
        write_json(state, output)
        write(f"wrote {output}\n")
