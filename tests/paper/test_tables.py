import json

import pytest

from normxlogit import DataError
from normxlogit.methods import InputNorm, NormXLogit, Random
from paper import tables
from tests import tiny


def test_table_one_from_checkpoints(tmp_path):
    pytest.importorskip("datasets")
    data, out = tmp_path / "data", tmp_path / "out"
    for task, rows in {
        "sst2": [{"sentence": t, "label": i % 2} for i, t in enumerate(tiny.TEXTS)],
        "stsb": [{"sentence1": "a cat", "sentence2": t, "label": float(i)} for i, t in enumerate(tiny.TEXTS)],
    }.items():
        folder = data / task
        folder.mkdir(parents=True)
        (folder / "validation.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        tiny.save(tmp_path / task, "bert", num_labels=1 if task == "stsb" else 2)
    models = {"BERT": {task: str(tmp_path / task) for task in ("sst2", "stsb")}}
    text = tables.run_table("table1", models, [NormXLogit(), InputNorm(norm_of="word_embedding")], out, data_dir=data)
    assert "| method | SST-2/BERT | STS-B/BERT |" in text
    row = next(line for line in text.splitlines() if line.startswith("| normxlogit |"))
    assert "(0.423)" in row, "the published figure stands beside ours"
    assert "(0.281)" in row
    assert (out / "table1.md").read_text() == text
    assert "Texts: SST-2/BERT 3, STS-B/BERT 3." in text
    detail = json.loads((out / "sts-b-bert" / "results.json").read_text())
    assert f"| {detail['results'][0]['quality']:.3f}" in row.replace("**", "").replace("<u>", "")
    accuracy = tables.run_table("table-accuracy", models, [NormXLogit()], out, data_dir=data)
    assert "STS-B" not in accuracy.split("\n\n", 2)[2]
    (r,) = json.loads((out / "sst-2-bert" / "results.json").read_text())["results"]
    theirs = (r["whole_quality"] + sum(r["curves"]["quality"])) / 9
    assert f"| **{r['quality']:.3f}** (0.684; ours {theirs:.3f}) |" in accuracy
    assert "they fit the sum over 0% to 90% divided by nine" in accuracy
    assert f"On the whole texts: SST-2/BERT accuracy {r['whole_quality']:.3f}." in accuracy
    files = tables.run_figures(models, [NormXLogit(), Random()], out, data_dir=data, limits={"all": 2, "stsb": 3})
    curves = [f"{curve}.{kind}" for curve in ("aopc", "quality") for kind in ("svg", "pdf", "png")]
    assert [path.name for path in files] == [*curves, "curves.md"]
    drawn = json.loads((out / "sts-b-bert" / "results.json").read_text())["results"][1]["curves"]["quality"]
    assert f"| random | {' | '.join(f'{value:.3f}' for value in drawn)} |" in files[-1].read_text()
    with pytest.raises(DataError, match="no task named"):
        tables.run_table("table1", {}, [], tmp_path, limits={"cola": 3})
