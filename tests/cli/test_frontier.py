"""The command evaluate frontier, run."""

import json

import pytest

from tests import tiny
from tests.commands import run

from .test_experiments import reviews  # noqa: F401  # a fixture

METHODS = (
    "normxlogit frozen-gradient:read_at=0,points=0.3,baseline=mask guided-lime:samples=4,prior=(lime:samples=9,seed=2)"
)


def test_from_a_file_to_table_and_figure(capsys, tmp_path, reviews):  # noqa: F811
    out = tmp_path / "out"
    command = ["evaluate", "frontier", "--dataset", reviews, "--columns", "text", "--limit", 3, "--rounds", 1]
    command += ["--methods", METHODS, "--output", out]
    code, text, err = run(capsys, *command)
    assert code == 0, err
    assert text.startswith("reviews.jsonl, default: texts 3, split validation\n\n| method |")
    assert all(f"| {method} |" in text for method in METHODS.split())
    assert (out / "frontier.md").read_text() == text
    (panel,) = json.loads((out / "frontier.json").read_text())["panels"]
    assert {p["method"] for p in panel["points"]} == set(METHODS.split())
    assert (out / "frontier.svg").is_file()
    assert run(capsys, *command)[1] == text, "a second run reads the finished runs"


@pytest.mark.parametrize("split", ["train", "validation"])
def test_several_models_and_tasks(capsys, tmp_path, split):
    rows = {
        "sst2": [{"sentence": t, "label": i % 2} for i, t in enumerate(tiny.TEXTS)],
        "mnli": [{"premise": "a cat sat", "hypothesis": t, "label": i} for i, t in enumerate(tiny.TEXTS)],
    }
    for task, lines in rows.items():
        (tmp_path / task).mkdir()
        (tmp_path / task / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
        tiny.model("bert", num_labels=2 if task == "sst2" else 3).save_pretrained(tmp_path / f"bert-{task}")
        tiny.tokenizer_for("bert").save_pretrained(tmp_path / f"bert-{task}")
    command = ["evaluate", "frontier", "--data-dir", tmp_path, "--methods", "random logat", "--rounds", 1]
    for task in rows:
        command += ["--checkpoint", f"BERT:{task}={tmp_path / f'bert-{task}'}"]
    code, text, err = run(capsys, *command, "--checkpoint", "packaged:sst2", "--split", split)
    assert code == 0, err
    assert f"sst2, packaged: texts 3, split {split}\n" in text
    assert f"sst2, BERT: texts 3, split {split}\n" in text
    assert f"mnli, BERT: texts 3, split {split}\n" in text
    assert text.count("| random |") == 6, "a row of either table for each"
