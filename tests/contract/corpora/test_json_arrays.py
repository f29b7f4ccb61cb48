"""In a corpus: a JSON array is a file of rows."""

import json

from normxlogit import Explainer, attribute
from tests import tiny


def test_a_json_array_is_a_file_of_rows(tmp_path) -> None:
    rows = [{"text": "the movie is good"}, {"text": "a cat"}]
    explainer = Explainer(tiny.model("bert"), tiny.tokenizer_for("bert"), name="tiny")
    files = {"one.json": json.dumps(rows), "lines.json": json.dumps(rows, indent=1), "same.jsonl": json.dumps(rows)}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
        run = attribute(explainer, str(tmp_path / name), output=str(tmp_path / f"{name}.out"))
        assert (run.rows, run.errors) == (2, 0)
