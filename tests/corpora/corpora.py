import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from normxlogit import Explainer, attribute
from tests import tiny

WORDS = ["the movie is good", "bad", "a great film with charm", "never awful !", "maybe even mediocre plot"]


def explainer(family="bert", kind="SequenceClassification", **options):
    return Explainer(tiny.model(family, kind, **options), tiny.tokenizer_for(family), name=f"tiny-{family}")


def texts(count):
    return [
        " ".join(WORDS[(i + j) % len(WORDS)] for j in range(1 + i % 4)) + f" {tiny.WORDS[i % 50]}" for i in range(count)
    ]


def jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def results(folder):
    files = sorted((Path(folder) / "shards").glob("*.parquet"))
    return pa.concat_tables([pq.read_table(file).replace_schema_metadata(None) for file in files])


def errors(folder):
    files = sorted((Path(folder) / "errors").glob("*.parquet"))
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    return {row["row"]: row["reason"] for row in rows}


def run(explainer, rows, folder, job=None, **options):
    return attribute(explainer, rows, folder, job, **{"shard_rows": 16, **options})


def rows_of(some):
    return [{"text": text} for text in some]
