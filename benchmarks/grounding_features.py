"""What the reader measures of each sentence of the pairs: the features that verdicts are trained on and tested by.

It runs alone, without the other measurements: `python -m benchmarks.grounding_features`.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from normxlogit import Explainer
from normxlogit.cli.console import progress, write
from normxlogit.errors import InputError
from normxlogit.evaluation.grounding.questions import read_lines
from normxlogit.pipeline.citations.cite import ask
from normxlogit.pipeline.citations.reading import read_sentences, sentences_in
from normxlogit.results.units.spans import answer_parts

from .grounding_pairs import FIXED, Asked, Pair, written

KEPT_EDITS = 24
"""How many edits of the largest gain are written."""


def sentences_by_prompt(asked: Sequence[Asked]) -> Iterator[tuple[str, Asked, list[dict[str, Any]]]]:
    """Yield each prompt (a question with its documents) with the sentences that are judged after it."""
    for documents in asked:
        by_question: dict[str, list[Pair]] = {}
        for pair in documents.pairs:
            by_question.setdefault(pair.question, []).append(pair)
        for question, pairs in by_question.items():
            rows: list[dict[str, Any]] = []
            for number, pair in enumerate(pairs):
                about = {"split": documents.split, "domain": documents.domain, "origin": documents.origin}
                about |= {"language": documents.language, "question": question, "kind": pair.kind, "pair": number}
                rows += [{**about, "sentence": text, "true": text == pair.true} for text in pair[1:3] if text]
            yield question, documents, rows


def fixed() -> list[Asked]:
    """Return the fixed set; each of its sentences is a pair of which one is missing."""
    rows = read_lines(FIXED, dict, "not sentences about documents")
    return [
        Asked(
            "fixed",
            f"fixed {number}",
            "fixed",
            "en",
            row["documents"],
            None,
            [
                Pair(kind, text if kind == "true" else "", "" if kind == "true" else text, row["question"])
                for kind, text in row["sentences"]
            ],
        )
        for number, row in enumerate(rows)
    ]


def measure(explainer: Explainer, question: str, asked: Asked, rows: Sequence[dict[str, Any]]) -> None:
    """Add to each sentence's row what the reader makes of it."""
    model = explainer._language_model
    sentences, prompt, without = [], None, None
    for row in rows:
        completed = ask(model, question, asked.documents, system=asked.system, answer=row["sentence"])
        whole = answer_parts(completed.sequenced(), None)
        prompt, without, (sentence,) = sentences_in(completed, whole)
        sentences.append(sentence)
    if prompt is None:
        return
    for row, sentence, reading in zip(rows, sentences, read_sentences(model, prompt, without, sentences), strict=True):
        row["tokens"] = [sentence.text[a:b] for a, b in sentence.offsets]
        row["nats"] = [round(float(v), 4) for v in reading.nats]
        row["nats_without"] = [round(float(v), 4) for v in reading.nats_without]
        row["likeliest"] = [round(float(v), 4) for v in reading.likeliest]
        row["edits"] = [
            [e.kind, sentence.text[e.start : e.end], e.text, e.start, round(e.gain, 3), round(e.gain_without, 3)]
            for e in reading.edits[:KEPT_EDITS]
        ]
        row["measured_edits"] = len(reading.edits)


def main(
    model: Annotated[str, typer.Option(help="Folder of the reader.")],
    output: Annotated[Path, typer.Option(help="The file of features, JSON lines; finished prompts stay.")],
    gguf_file: Annotated[str | None, typer.Option(help="The GGUF file in that folder.")] = None,
    data: Annotated[Path | None, typer.Option(help="Further pairs, as `pairs` writes them; JSON lines.")] = None,
    device: Annotated[str, typer.Option(help="Where the reader runs.")] = "auto",
    dtype: Annotated[str | None, typer.Option(help="Its numbers.")] = None,
    batch_tokens: Annotated[int, typer.Option(min=1, help="Most tokens at once.")] = 8192,
    limit: Annotated[int | None, typer.Option(min=1, help="Most prompts.")] = None,
) -> None:
    """Measure each sentence: its tokens with and without the documents, and its one-word edits."""
    if limit is None and output.suffix != ".jsonl":
        raise InputError("the features are JSON lines: name a file that ends with .jsonl")
    asked = [*fixed(), *written()]
    if data is not None:
        asked += read_lines(data, _from_line, "not pairs about documents")
    prompts = list(sentences_by_prompt(asked))
    if limit is not None:
        prompts = prompts[:: max(1, len(prompts) // limit)][:limit]
    output.parent.mkdir(parents=True, exist_ok=True)
    done = {_key(json.loads(line)) for line in output.read_text("utf-8").splitlines()} if output.exists() else set()
    options: dict[str, Any] = {} if gguf_file is None else {"gguf_file": gguf_file}
    if dtype is not None:
        options["dtype"] = getattr(torch, dtype)
    explainer = Explainer.from_pretrained(model, device=device, batch_tokens=batch_tokens, **options)
    with output.open("a", encoding="utf-8") as file, progress(1) as step:
        for number, (question, documents, rows) in enumerate(prompts):
            missing = [row for row in rows if _key(row) not in done]
            if missing:
                measure(explainer, question, documents, missing)
                file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in missing)
                file.flush()
            step("prompts", number + 1, len(prompts))
    write(f"{len(prompts)} prompts in {output}")


def _from_line(row: dict[str, Any]) -> Asked:
    return Asked(**{**row, "pairs": [Pair(*pair) for pair in row["pairs"]]})


def _key(row: dict[str, Any]) -> str:
    return "\t".join(str(row[name]) for name in ("domain", "question", "pair", "true", "sentence"))


if __name__ == "__main__":
    typer.run(main)
