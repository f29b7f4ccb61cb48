"""What needs no model does not wait for torch: lists, help, misspelt names, saved results and summaries."""

import os
import subprocess
import sys

import pytest

from tests.factories import make_attribution

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def without_torch(code, *arguments):
    """Run a program in a new process, which may not import torch; returns exit code, output and errors."""
    program = (
        f"import sys\ntry:\n    {code}\n"
        "finally:\n    assert not {'torch', 'transformers'} & set(sys.modules), 'torch was imported'\n"
    )
    run = subprocess.run([sys.executable, "-c", program, *map(str, arguments)], capture_output=True, env=ENVIRONMENT)
    out, err = run.stdout.decode(), run.stderr.decode()
    assert "torch was imported" not in err, err
    return run.returncode, out, err


def command(*arguments):
    return without_torch("from normxlogit.cli import main; main()", *arguments)


def test_the_module_is_the_command():
    run = subprocess.run([sys.executable, "-m", "normxlogit", "--version"], capture_output=True, env=ENVIRONMENT)
    assert (run.returncode, run.stderr) == (0, b"")
    assert run.stdout.startswith(b"normxlogit ")


def test_the_list_of_commands_waits_for_no_large_package():
    program = (
        "import sys\nfrom normxlogit.cli import main\ntry:\n    main(['--help'])\n"
        "finally:\n    print({'torch', 'numpy', 'jinja2', 'rich'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, env=ENVIRONMENT)
    assert (run.returncode, run.stderr) == (0, b"")
    assert b"Colour the tokens that a model's answer rests on." in run.stdout
    assert run.stdout.endswith(b"set()\n")


def test_the_methods_are_listed():
    code, out, err = command("methods")
    assert (code, err) == (0, "")
    assert " frozen-gradient " in out
    assert "NormXLogit (EMNLP 2025)" in out


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain", "--method", "normxlogt", "a text"),
        ("explain", "--method", "normxlogit", "--method", "normxlogt:norm_of=embedding_output", "a text"),
        ("generate", "--method", "normxlogt", "a text"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_a_misspelt_method_is_refused_at_once(arguments):
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: no method named 'normxlogt'; did you mean normxlogit")


@pytest.mark.parametrize("suffix", ["json", "parquet"])
def test_a_saved_result_is_loaded_and_drawn(suffix, tmp_path):
    make_attribution(method="frozen-gradient", settings={"read_at": "all"}).save(tmp_path / f"a.{suffix}")
    code, out, err = without_torch(
        "import normxlogit; a = normxlogit.load(sys.argv[1]); print(a[0]); a.to_html(sys.argv[2])",
        tmp_path / f"a.{suffix}",
        tmp_path / "page.html",
    )
    assert (code, err) == (0, "")
    assert "frozen-gradient" in out
    assert (tmp_path / "page.html").exists()
