import json

import pytest
import torch
from typer.main import get_command

from normxlogit import Explainer, InputError
from normxlogit.cli import app
from normxlogit.loading.load import default_model_folder, device_named
from paper.cli import app as paper_app
from tests import tiny
from tests.commands import commands_of, run, run_paper

COMMANDS = dict(commands_of(get_command(app))) | dict(commands_of(get_command(paper_app), ("paper",)))
LOADING = [n for n, c in COMMANDS.items() if {p.name for p in c.params} & {"model", "checkpoint", "base"}]


@pytest.fixture
def no_device_yet(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("meta"))


@pytest.mark.parametrize("name", LOADING, ids=" ".join)
def test_every_command_that_loads_a_model_takes_a_device_a_precision_and_a_gguf_file(name):
    options = {p.name: p for p in COMMANDS[name].params}
    assert options["device"].default == "auto"
    assert "dtype" in options or name == ("paper", "finetune"), "which trains in float32, or --bf16"
    assert "gguf_file" in options or name[0] == "paper"


def test_auto_is_the_accelerator_of_the_machine(no_device_yet):
    assert device_named("auto").type == "meta"
    assert Explainer.from_pretrained(device="auto")._model.module.device.type == "meta"
    assert Explainer.from_pretrained()._model.module.device.type == "meta", "Python follows the same rule"
    assert Explainer.from_pretrained(device="cpu")._model.module.device.type == "cpu"
    for device in (None, "auto"):
        placed = Explainer.from_pretrained(device=device, device_map={"": "cpu"})
        assert placed._model.module.device.type == "cpu", "a model with a map stays where it is loaded"


@pytest.mark.parametrize("device", ["nosuch", "cuda:77", 99])
def test_a_device_that_is_not_there_is_refused(device):
    with pytest.raises(InputError, match=rf"there is no device '{device}' here: this machine has cpu"):
        device_named(device)


CALLS = {
    "explain": "explain film",
    "generate": "generate once --model {made}/lm",
    "cite": "cite {made}/rows.jsonl --question Who? --model {made}/lm",
    "attribute": "attribute {made}/rows.jsonl --output {made}/corpus",
    "faithfulness": "evaluate faithfulness --dataset {made}/rows.jsonl --methods normxlogit",
    "generation": "evaluate generation --data {made}/rows.jsonl --model {made}/lm",
    "table1": "paper table1 --checkpoint BERT:sst2={package} --data-dir {made}",
    "finetune": "paper finetune --task sst2 --model {made}/lm --data-dir {made} --output {made}/o",
}


@pytest.mark.parametrize("name", CALLS)
def test_the_device_reaches_the_model(name, tmp_path, capsys):
    row = {"text": "a fine film", "sentence": "a fine film", "label": 1, "question": "Who?", "documents": ["It was."]}
    for file in ("rows", "train", "validation"):
        (tmp_path / f"{file}.jsonl").write_text(json.dumps(row) + "\n")
    tiny.save(tmp_path / "lm", "gpt2", "CausalLM")
    program, *words = CALLS[name].format(made=tmp_path, package=default_model_folder()).split()
    call = [*words, "--device", "nosuch"]
    code, out, err = run_paper(capsys, *call) if program == "paper" else run(capsys, program, *call)
    assert (code, out) == (2, "")
    assert err == "error: there is no device 'nosuch' here: this machine has cpu\n"
