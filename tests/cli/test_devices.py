"""--device: where the model of each command runs."""

import json

import pytest
import torch
from typer.main import get_command

from normxlogit import Explainer, InputError
from normxlogit.cli import app
from normxlogit.loading.load import device_named
from paper.cli import app as paper_app
from tests import tiny
from tests.commands import commands_of, run, run_paper

COMMANDS = dict(commands_of(get_command(app))) | dict(commands_of(get_command(paper_app), ("paper",)))
LOADING = [n for n, c in COMMANDS.items() if {p.name for p in c.params} & {"model", "checkpoint", "base"}]


@pytest.fixture
def no_device_yet(monkeypatch):
    """A machine whose accelerator holds no values."""
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("meta"))


@pytest.mark.parametrize("name", LOADING, ids=" ".join)
def test_every_command_that_loads_a_model_takes_a_device_and_a_precision(name):
    options = {p.name: p for p in COMMANDS[name].params}
    assert options["device"].default == "auto"
    if name != ("paper", "finetune"):  # trains in float32, or --bf16
        assert "dtype" in options


def test_auto_is_the_accelerator_of_the_machine(no_device_yet):
    assert device_named("auto").type == "meta"
    assert Explainer.from_pretrained(device="auto")._model.module.device.type == "meta"
    assert Explainer.from_pretrained()._model.module.device.type == "meta", "Python follows the same rule"
    assert Explainer.from_pretrained(device="cpu")._model.module.device.type == "cpu"
    for device in (None, "auto"):
        placed = Explainer.from_pretrained(device=device, device_map={"": "cpu"})
        assert placed._model.module.device.type == "cpu", "a model with a map stays where it is loaded"


@pytest.mark.parametrize("device", ["nosuch", "", "cuda:77", 99])
def test_a_device_that_is_not_there_is_refused(device):
    with pytest.raises(InputError, match=rf"there is no device '{device}' here: this machine has cpu"):
        device_named(device)


@pytest.fixture
def made(tmp_path):
    """Folders and files that the commands below need."""
    (tmp_path / "rows.jsonl").write_text(json.dumps({"text": "a fine film", "label": 1}) + "\n")
    (tmp_path / "asked.jsonl").write_text(json.dumps({"question": "Who?", "documents": ["It was Ann."]}) + "\n")
    for name in ("train", "validation"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"sentence": "a fine film", "label": 1}) + "\n")
    tiny.save(tmp_path / "lm", "gpt2", "CausalLM")
    return tmp_path


CALLS = {
    "explain": "explain film",
    "generate": "generate once --model {made}/lm",
    "cite": "cite {made}/rows.jsonl --question Who? --model {made}/lm",
    "attribute": "attribute {made}/rows.jsonl --output {made}/corpus",
    "faithfulness": "evaluate faithfulness --dataset {made}/rows.jsonl --methods normxlogit",
    "frontier": "evaluate frontier --dataset {made}/rows.jsonl --methods normxlogit",
    "alignment": "paper alignment --model {made}/lm",
    "generation": "evaluate generation --data {made}/asked.jsonl --model {made}/lm",
    "table1": "paper table1 --checkpoint BERT:sst2={package} --data-dir {made}",
    "figure1": "paper figure1",
    "table-time": "paper table-time --methods normxlogit --output {made}/out",
    "finetune": "paper finetune --task sst2 --model {made}/lm --data-dir {made} --output {made}/o",
}


def call(capsys, program, *words):
    return run_paper(capsys, *words) if program == "paper" else run(capsys, program, *words)


@pytest.mark.parametrize("name", CALLS)
def test_the_device_reaches_the_model(name, made, capsys):
    from normxlogit.loading.load import default_model_folder

    words = [word.format(made=made, package=default_model_folder()) for word in CALLS[name].split()]
    code, out, err = call(capsys, *words, "--device", "nosuch")
    assert (code, out) == (2, "")
    assert err == "error: there is no device 'nosuch' here: this machine has cpu\n"
