"""What a bug report needs: versions, what is missing, and a self-test with its numbers, also where torch is broken."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import PackageNotFoundError

import pytest
import torch
import transformers

from normxlogit import Explainer
from tests.commands import run
from tests.contract.test_unchanged_process import ENVIRONMENT


def test_versions_and_a_sum_that_is_the_models_own_logit(capsys):
    code, out, err = run(capsys, "doctor")
    assert (code, err) == (0, "")
    assert torch.__version__ in out
    assert transformers.__version__ in out
    assert "saved and loaded: the same result" in out
    assert "passed in " in out


def test_a_program_reads_the_same(capsys):
    code, out, _ = run(capsys, "doctor", "--format", "json")
    report = json.loads(out)
    assert (code, report["self_test"]["passed"]) == (0, True)
    measured = report["self_test"]["measured"]
    explained = Explainer.from_pretrained()(measured["text"])
    assert [word for word, _ in measured["words"]] == [word.text for word in explained.words()]
    assert measured["scores"] + measured["sink"] + measured["bias"] == pytest.approx(measured["logit"], abs=1e-4)
    assert measured["logit"] == pytest.approx(explained.prediction.value, abs=1e-4)


def doubled(self, *arguments, explain=Explainer.__call__, **options):
    result = explain(self, *arguments, **options)
    return replace(result, scores=2 * result.scores)


def defect(*_, **__):
    raise ZeroDivisionError("a defect")


@pytest.mark.parametrize(("fault", "says"), [(doubled, "FAILED in "), (defect, "ZeroDivisionError: a defect")])
def test_a_self_test_that_fails_is_shown_and_is_the_exit_code(fault, says, capsys, monkeypatch):
    monkeypatch.setattr(Explainer, "__call__", fault)
    code, out, _ = run(capsys, "doctor")
    assert code == 1
    assert says in out
    code, out, _ = run(capsys, "doctor", "--format", "json")
    assert (code, json.loads(out)["self_test"]["passed"]) == (1, False)


@pytest.fixture
def broken(tmp_path):
    """Return the environment of a process whose torch cannot be imported, and whose packages say that they are old."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(
        "raise ImportError('libcudart.so.12: cannot open shared object file', name='torch._C')"
    )
    for name, version in (("transformers", "4.40.0"), ("pillow", "1.0")):
        folder = tmp_path / f"{name}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    path = os.pathsep.join([str(tmp_path), ENVIRONMENT["PYTHONPATH"]])
    return ENVIRONMENT | {"PYTHONPATH": path, "COLUMNS": "110"}


def process(environment, *words):
    program = "from normxlogit.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, env=environment, text=True)
    return done.returncode, done.stdout, done.stderr


def test_what_is_missing_broken_or_too_old_is_named_with_the_command_that_installs_it(broken):
    code, out, err = process(broken, "doctor")
    assert (code, err) == (1, "")
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert "libcudart.so.12: cannot open shared object file" in out
    assert "4.40.0" in lines["transformers"]
    assert "pip install 'transformers<6,>=" in out
    assert "pillow>=" in lines["pictures"]
    assert "pip install 'normxlogit[vision]'" in lines["pictures"]
    assert "self-test: not run, as torch cannot be imported" in out


def test_without_torch_other_commands_are_one_line_that_names_the_doctor(broken):
    code, out, err = process(broken, "explain", "good")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "libcudart" in err
    assert "normxlogit doctor" in err


def test_a_library_that_is_not_installed_says_that_nothing_is_known_to_be_missing(capsys, monkeypatch):
    def nowhere(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("normxlogit.cli.installation.requires", nowhere)
    code, out, _ = run(capsys, "doctor")
    assert code == 0
    assert torch.__version__ in out
    assert "normxlogit is not installed here" in out
    assert "nothing" not in out
