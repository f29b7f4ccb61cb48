"""Runs that stop and go on, N/A, and the paper's tables."""

import inspect
import json

import pytest

from normxlogit import DataError, Explainer, Method, MethodError, UnsupportedModelError, register
from normxlogit.cli.options import methods_of
from normxlogit.evaluation import runs
from normxlogit.evaluation.datasets import Example
from normxlogit.evaluation.faithfulness import evaluate
from normxlogit.evaluation.runs import Refused, Runs, run_methods
from normxlogit.methods import InputNorm, LogAt, NormXLogit, Random, list_methods, method_named, registry
from paper import tables
from tests import tiny

EXAMPLES = [Example(text, label) for text, label in zip(tiny.TEXTS, [0, 1, 0], strict=True)]


@pytest.fixture
def explainer():
    return Explainer(tiny.model("bert"), tiny.tokenizer_for("bert"))


@pytest.fixture
def refusing():
    """A method that works on no model."""

    @register("refusing", paper="none")
    class Refusing(Method):
        def score(self, request):
            raise UnsupportedModelError("no model will do")

    yield "refusing"
    del registry._METHODS["refusing"]


def test_finished_cells_are_not_measured_again(explainer, tmp_path, refusing):
    methods = [NormXLogit(), NormXLogit(norm_of="word_embedding"), method_named(refusing)]
    first = runs.run_methods(explainer, EXAMPLES, methods, folder=tmp_path)
    assert first[2] is None, "what a method cannot do is N/A, not an error"
    assert first[0].aopc != first[1].aopc
    assert len(list(tmp_path.iterdir())) == 3
    calls = []
    explainer._model.run = lambda *_, **__: calls.append(1)
    told = []
    again = runs.run_methods(
        explainer, EXAMPLES, methods, folder=tmp_path, on_progress=lambda name, done, total: told.append((name, done))
    )
    assert told == [(method.spec, len(EXAMPLES)) for method in methods], "each is told of once, or a bar would run over"
    assert not calls
    assert again == first


def test_progress_is_told_once_for_each_method_also_of_one_that_is_refused(explainer, refusing):
    told = []
    runs.run_methods(explainer, EXAMPLES, [Random(), method_named(refusing)], on_progress=lambda *x: told.append(x))
    assert told == [("random", 3, 3), ("refusing", 3, 3)]
    assert runs.under("SST-2", None) is None
    runs.under("SST-2", lambda *step: told.append(step))("lime", 1, 3)
    assert told[2:] == [("SST-2 lime", 1, 3)]


def test_the_seed_is_the_bootstraps_and_zero_unless_given(explainer):
    examples = [Example(f"{one} {other}", 0) for one in ("good", "bad", "cat", "not") for other in ("film", "the mat")]
    found = {seed: run_methods(explainer, examples, [NormXLogit()], seed=seed) for seed in (0, 1)}
    assert found[0] != found[1]
    assert run_methods(explainer, examples, [NormXLogit()]) == found[0] == [Runs(explainer, examples)(NormXLogit())]
    assert evaluate(explainer, examples, [NormXLogit()]) == found[0]


def test_a_refusal_says_what_is_missing(explainer, tmp_path, refusing):
    run = Runs(explainer, EXAMPLES, tmp_path)
    assert run(method_named(refusing)) == run(method_named(refusing)) == Refused("refusing", "no model will do")


def test_both_norms_are_measured_of_methods_that_have_one():
    specs = [method.spec for method in runs.all_methods()]
    assert len(specs) == len(set(specs)) == len(list_methods()) + 2
    assert [spec for spec in specs if ":" in spec] == [
        f"{name}:norm_of=word_embedding" for name in specs if name in ("normxlogit", "input-norm")
    ]


def test_a_cell_is_of_its_texts_model_and_protocol(explainer, tmp_path):
    runs.run_methods(explainer, EXAMPLES, [Random()], folder=tmp_path)
    runs.run_methods(explainer, EXAMPLES[:2], [Random()], folder=tmp_path)
    runs.run_methods(explainer, EXAMPLES, [Random()], folder=tmp_path, protocol="published")
    other = Explainer(tiny.model("bert", seed=1), tiny.tokenizer_for("bert"))
    runs.run_methods(other, EXAMPLES, [Random()], folder=tmp_path)
    named = Explainer(explainer._model.module, tiny.tokenizer_for("bert"), labels=["no", "yes"])
    runs.run_methods(named, EXAMPLES, [Random()], folder=tmp_path)
    assert len(list(tmp_path.iterdir())) == 5
    assert not list(tmp_path.glob("*.part"))


def test_a_broken_file_of_a_run_is_named(explainer, tmp_path):
    runs.run_methods(explainer, EXAMPLES, [Random()], folder=tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_text('{"drop')
    with pytest.raises(DataError, match=f"{file.name}: not JSON"):
        runs.run_methods(explainer, EXAMPLES, [Random()], folder=tmp_path)


def test_methods_of_a_command_line():
    assert methods_of("logat random:seed=3  input-norm:norm_of=word_embedding") == [
        LogAt(),
        Random(seed=3),
        InputNorm(norm_of="word_embedding"),
    ]
    for wrong in ("nothing", "random:seeds=3", "random:3"):
        with pytest.raises(MethodError, match=wrong.partition(":")[2][:5] or wrong):
            methods_of(wrong)
    assert methods_of("all") == runs.all_methods()
    assert NormXLogit(norm_of="word_embedding") in runs.all_methods()


@pytest.mark.parametrize(
    ("method", "bert", "llama"),
    [
        ("normxlogit", 0.423, 0.341),
        ("normxlogit:norm_of=word_embedding", None, None),
        ("gradient-norm", None, 0.216),
        ("gradient-norm:protocol=published", 0.331, 0.216),
        ("gradient-norm:aggregate=l2,protocol=published", None, None),
        ("integrated-gradients:aggregate=l1,protocol=published", 0.367, None),
        ("integrated-gradients:aggregate=l1", None, None),
        ("integrated-gradients:steps=25,aggregate=l1", None, 0.22),
        ("integrated-gradients:steps=25", None, None),
        ("decompx", 0.574, None),
        ("occlusion", None, None),
    ],
)
def test_published_figures_stand_beside_their_own_settings(method, bert, llama):
    for column, theirs in (("SST-2/BERT", bert), ("SST-2/Llama 2", llama), ("SST-2/MiniLM", None)):
        found = tables.published_figure(tables.TABLES["table1"], column, method_named(method), "published")
        assert found == theirs, column
    assert tables.published_figure(tables.TABLES["table1"], "SST-2/BERT", method_named(method), "default") is None


def test_the_papers_rows_have_the_settings_of_its_columns():
    rows = tables.paper_rows({"BERT": {}, "Llama 2": {}})
    for column in ("SST-2/BERT", "SST-2/Llama 2"):
        theirs = [tables.published_figure(tables.TABLES["table1"], column, row, "published") for row in rows]
        assert sorted(filter(None, theirs)) == sorted(
            filter(None, (row[column] for row in tables.published()["table1_aopc_and_pearson"]["rows"].values()))
        )
    assert len(tables.paper_rows({"BERT": {}})) == 8
    assert "steps=25" not in str([row.spec for row in tables.paper_rows({"BERT": {}})])


def test_table_one_from_checkpoints(tmp_path):
    pytest.importorskip("datasets")
    for task, rows in {
        "sst2": [{"sentence": t, "label": i % 2} for i, t in enumerate(tiny.TEXTS)],
        "stsb": [{"sentence1": "a cat", "sentence2": t, "label": float(i)} for i, t in enumerate(tiny.TEXTS)],
    }.items():
        folder = tmp_path / "data" / task
        folder.mkdir(parents=True)
        (folder / "validation.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        model = tiny.model("bert", num_labels=1 if task == "stsb" else 2)
        model.save_pretrained(tmp_path / task)
        tiny.tokenizer_for("bert").save_pretrained(tmp_path / task)
    seen = []
    text = tables.run_table(
        "table1",
        {"BERT": {"sst2": str(tmp_path / "sst2"), "stsb": str(tmp_path / "stsb")}},
        [NormXLogit(), InputNorm(norm_of="word_embedding")],
        tmp_path / "out",
        data_dir=tmp_path / "data",
        on_progress=lambda what, done, total: seen.append((what, done, total)),
    )
    assert "| method | SST-2/BERT | STS-B/BERT |" in text
    row = next(line for line in text.splitlines() if line.startswith("| normxlogit |"))
    assert "(0.423)" in row, "the published figure stands beside ours"
    assert "(0.281)" in row
    assert ("SST-2/BERT normxlogit", 3, 3) in seen
    assert (tmp_path / "out" / "table1.md").read_text() == text
    assert "Texts: SST-2/BERT 3, STS-B/BERT 3." in text
    detail = json.loads((tmp_path / "out" / "sts-b-bert" / "results.json").read_text())
    assert f"| {detail['results'][0]['quality']:.3f}" in row.replace("**", "").replace("<u>", "")
    accuracy = tables.run_table(
        "table-accuracy",
        {"BERT": {"sst2": str(tmp_path / "sst2"), "stsb": str(tmp_path / "stsb")}},
        [NormXLogit()],
        tmp_path / "out",
        data_dir=tmp_path / "data",
    )
    assert "STS-B" not in accuracy.split("\n\n", 2)[2]
    (r,) = json.loads((tmp_path / "out" / "sst-2-bert" / "results.json").read_text())["results"]
    theirs = (r["whole_quality"] + sum(r["curves"]["quality"])) / 9
    assert f"| **{r['quality']:.3f}** (0.684; ours {theirs:.3f}) |" in accuracy
    assert "they fit the sum over 0% to 90% divided by nine" in accuracy
    assert f"On the whole texts: SST-2/BERT accuracy {r['whole_quality']:.3f}." in accuracy
    files = tables.run_figures(
        {"BERT": {"sst2": str(tmp_path / "sst2"), "stsb": str(tmp_path / "stsb")}},
        [NormXLogit(), Random()],
        tmp_path / "out",
        data_dir=tmp_path / "data",
        limits={"all": 2, "stsb": 3},
    )
    assert [path.name for path in files] == [
        *(f"{curve}.{e}" for curve in ("aopc", "quality") for e in ("svg", "pdf", "png")),
        "curves.md",
    ]
    assert all(path.stat().st_size > 1000 for path in files[:-1])
    found = json.loads((tmp_path / "out" / "sts-b-bert" / "results.json").read_text())["results"]
    drawn = found[1]["curves"]["quality"]
    assert f"| random | {' | '.join(f'{value:.3f}' for value in drawn)} |" in files[-1].read_text()
    assert "## STS-B/BERT: pearson by perturbed tokens\n\n| method | 10% | 20% |" in files[-1].read_text()
    counts = {c: json.loads((tmp_path / "out" / c / "results.json").read_text()) for c in ("sst-2-bert", "sts-b-bert")}
    assert [c["about"]["texts"] for c in counts.values()] == [2, 3]
    with pytest.raises(DataError, match="no task named"):
        tables.run_table("table1", {}, [], tmp_path, limits={"cola": 3})
    with pytest.raises(DataError, match="no table named"):
        tables.run_table("table9", {}, [], tmp_path)


@pytest.mark.parametrize("measure", [run_methods, Runs.__init__, evaluate], ids=["run_methods", "Runs", "evaluate"])
def test_the_published_protocol_is_only_taken_where_it_is_asked_for(measure):
    assert inspect.signature(measure).parameters["protocol"].default == "default"
