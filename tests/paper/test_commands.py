import json

import pytest

from normxlogit.evaluation import report
from paper.alignment import runs as alignment_runs
from paper.evidence import PARSERS
from tests import blimp, tiny
from tests.commands import run_paper as run

spacy = pytest.importorskip("spacy")
pytestmark = [
    pytest.mark.skipif(not any(map(spacy.util.is_package, PARSERS)), reason="no English pipeline installed"),
    pytest.mark.filterwarnings("ignore"),  # Trainer and matplotlib warn of their own plans
]


@pytest.fixture
def data(tmp_path):
    return blimp.write(tmp_path / "data")


@pytest.fixture
def models(tmp_path):
    for family, kind in (("bert", "MaskedLM"), ("gpt2", "CausalLM")):
        tiny.save(tmp_path / family, family, kind)
    return tmp_path


def test_all_methods_on_a_masked_model(capsys, models, data, monkeypatch):
    out = models / "out"
    command = ["alignment", "--model", models / "bert", "--data-dir", data, "--output", out]
    command += ["--words", "movie keys", "--limit", 4]
    code, text, err = run(capsys, *command)
    assert code == 0, err
    state = json.loads((out / "results.json").read_text())
    (study,) = state["studies"]
    titles = [a["title"] for a in study["alignments"]]
    assert titles[:4] == ["logat(target)", "logat(foil)", "logat(movie)", "logat(keys)"]
    assert not study["missing"]
    assert {a["title"]: len(a["layers"]) for a in study["alignments"]}["value-zeroing:rollout=false"] == 3
    for count in study["counts"].values():
        assert count["kept"] + sum(count["dropped"].values()) == count["rows"] <= 4
    shares = [f"{share:.3f}" for share in study["accuracy"]["all"]]
    assert f"| bert | {shares[-1]} |" in text
    assert f"| all | {' | '.join(shares)} |" in text
    assert "| `normxlogit` |" in text
    assert "published, RoBERTa-base, pretrained" in text
    for figure in ("heatmap-dot", "heatmap-ap", "lines-ap", "logits-dot", "paradigms-ap"):
        assert (out / f"{figure}.svg").is_file()
    for measure in ("align", "accuracy"):
        monkeypatch.setattr(alignment_runs, measure, lambda *_, **__: pytest.fail("measured again"))
    monkeypatch.setattr(report, "FORMATS", ())
    assert run(capsys, *command)[1] == text, "a second run reads the finished runs"
