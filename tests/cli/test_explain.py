import io
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from types import ModuleType

import pytest

import normxlogit
from normxlogit import cli
from normxlogit.cli.explain import CHUNK
from normxlogit.errors import InputError, NormXLogitError, TargetError
from normxlogit.results.attribution import Attribution
from tests.factories import all_layers, make_attribution

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@dataclass
class Info:
    name: str = "normxlogit"
    summary: str = "norm times logit [per token]"
    paper: str = "EMNLP 2025"
    needs: str = "any head"
    per_layer: bool = True
    signed: bool = True
    passes: str = "1"


class FakeExplainer:
    """Remembers what it is asked and answers with the sentence of the factory."""

    loaded: list[str | None]
    calls: list[tuple[list, dict]]
    error: NormXLogitError | None

    @classmethod
    def from_pretrained(cls, name=None, **options):
        assert not options
        cls.loaded.append(name)
        return cls()

    def __call__(self, inputs, **options):
        if self.error is not None:
            raise self.error
        FakeExplainer.calls.append((inputs, options))
        base = all_layers() if options["layers"] else make_attribution()
        return [replace(base, method=options["method"], settings={}) for _ in inputs]


@pytest.fixture
def fake(monkeypatch):
    FakeExplainer.loaded, FakeExplainer.calls, FakeExplainer.error = [], [], None
    explainer, methods = ModuleType("normxlogit.explainer"), ModuleType("normxlogit.methods")
    explainer.Explainer = FakeExplainer
    methods.list_methods = lambda: [Info(), Info("a-very-long-method-name", "x" * 80, per_layer=False, signed=False)]
    for module in (explainer, methods):
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(normxlogit, module.__name__.rpartition(".")[2], module, raising=False)
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.stdin", Keyboard())
    return FakeExplainer


class Keyboard(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def run(fake, capsys):
    """Run the command line in this process; returns exit code, output and errors."""

    def go(*arguments: str) -> tuple[int, str, str]:
        try:
            cli.main(arguments)
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return go


def piped(content: bytes) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8")


def test_explain_draws_the_sentence(run, fake):
    code, out, err = run("explain", "The movie is mediocre, maybe even bad.")
    assert (code, err) == (0, "")
    assert "medi(++)ocre(+), maybe(+) even(+) bad(+++).(-)" in out
    assert "\x1b" not in out
    assert fake.loaded == [None]
    assert fake.calls == [
        (
            ["The movie is mediocre, maybe even bad."],
            {"method": "normxlogit", "target": "predicted", "contrast": None, "layers": None, "long_text": "truncate"},
        )
    ]


def test_options_reach_the_explainer(run, fake):
    code, _, err = run(
        *("explain", "a", "b", "--pair", "c", "--model", "some/model", "--target", "1", "--contrast", "bad"),
        *("--layers", "1,3", "--norm-of", "word_embedding", "--long-text", "error"),
    )
    assert (code, err) == (0, "")
    assert fake.loaded == ["some/model"]
    assert fake.calls == [
        (
            [("a", "c"), ("b", "c")],
            {
                "method": "normxlogit",
                "target": "1",
                "contrast": "bad",
                "layers": [1, 3],
                "long_text": "error",
                "norm_of": "word_embedding",
            },
        )
    ]


def test_all_layers(run, fake):
    code, out, _ = run("explain", "a", "--layers", "all")
    assert code == 0
    assert fake.calls[0][1]["layers"] == "all"
    assert [line[:7] for line in out.splitlines() if line.startswith("layer")] == ["layer 1", "layer 2", "layer 3"]


def test_methods_of_one_text_stand_together(run, fake):
    code, out, _ = run(
        "explain", "a", "b", "--method", "logat", "--method", "input-norm", "--norm-of", "word_embedding"
    )
    assert code == 0
    shown = [line.split()[-1] for line in out.splitlines() if line.startswith("method")]
    assert shown == ["logat", "input-norm"] * 2
    assert ["norm_of" in options for _, options in fake.calls] == [False, True]
    assert len(fake.loaded) == 1


def test_norm_of_needs_a_method_with_a_norm(run):
    code, out, err = run("explain", "a", "--method", "logat", "--norm-of", "word_embedding")
    assert (code, out) == (2, "")
    assert err == "error: --norm-of is a setting of normxlogit and input-norm, not of logat\n"


def test_texts_from_a_file(run, fake, tmp_path):
    path = tmp_path / "texts.txt"
    path.write_bytes("\ufefffirst\r\n\nsecond \u2028 line\n".encode())
    assert run("explain", "zeroth", "--file", str(path))[0] == 0
    assert fake.calls[0][0] == ["zeroth", "first", "second \u2028 line"]


def test_texts_from_standard_input(run, fake, monkeypatch):
    monkeypatch.setattr("sys.stdin", piped("eins\nzwölf".encode()))
    assert run("explain")[0] == 0
    assert fake.calls[0][0] == ["eins", "zwölf"]


def test_standard_input_is_left_alone_when_there_are_texts(run, fake, monkeypatch):
    monkeypatch.setattr("sys.stdin", piped(b"\xff"))
    assert run("explain", "a")[0] == 0
    assert fake.calls[0][0] == ["a"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"good\nbad \xff\n", "line 2: not UTF-8 text"),
        (b"a\n\0\0", "line 2: not a text file"),
        (b" \n\n", "empty"),
        (b"", "empty"),
        (None, "cannot read"),
    ],
)
def test_bad_files_are_one_line(run, fake, tmp_path, content, message):
    path = tmp_path / "texts.txt"
    if content is not None:
        path.write_bytes(content)
    code, out, err = run("explain", "--file", str(path))
    assert (code, out, fake.loaded) == (2, "", [])
    assert err.startswith("error: ")
    assert message in err
    assert str(path) in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain"], "no text"),
        (["explain", "  "], "empty"),
        (["explain", "caf\udce9"], "not UTF-8"),
        (["explain", "a", "--layers", "one"], "--layers"),
        (["explain", "a", "--file", "."], "cannot read"),
        (["explain", "a", "--output", "no/such/folder/x.json"], "cannot write"),
    ],
)
def test_mistakes_are_one_line(run, arguments, message):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("error", [InputError("too\n  long"), TargetError("too long")])
def test_errors_of_the_library_are_one_line(run, fake, error):
    fake.error = error
    assert run("explain", "a") == (2, "", "error: too long\n")


def test_unknown_options_exit_with_two(run):
    code, out, err = run("explain", "a", "--format", "pdf")
    assert (code, out) == (2, "")
    assert "pdf" in err


def test_json_is_valid_and_reads_back(run):
    code, out, _ = run("explain", "a", "b", "--format", "json")
    document = json.loads(out)
    assert code == 0
    assert document["format_version"] == 2
    assert set(document) == {"format_version", "attributions"}
    read = [Attribution.from_dict(state) for state in document["attributions"]]
    assert read == [make_attribution(settings={})] * 2
    assert "words" not in document["attributions"][0]


def test_json_with_words(run):
    for arguments, score in ((["--words"], 2.2), (["--words", "--merge", "max"], 1.5)):
        out = run("explain", "a", "--format", "json", *arguments)[1]
        state = json.loads(out)["attributions"][0]
        word = state["words"][3]
        assert (word["text"], word["start"], word["end"], word["tokens"]) == ("mediocre", 13, 21, [4, 5])
        assert word["score"] == pytest.approx(score)
        Attribution.from_dict(state)
    layered = json.loads(run("explain", "a", "--format", "json", "--words", "--layers", "all")[1])
    assert len(layered["attributions"][0]["words"][3]["score"]) == 3


def test_html(run):
    code, out, _ = run("explain", "a", "--format", "html")
    assert code == 0
    assert out.lstrip().startswith("<!DOCTYPE html>")
    assert "medi</span>" in out


def test_words_in_the_terminal(run):
    assert "mediocre(+++)" in run("explain", "a", "--words")[1]


@pytest.mark.parametrize(
    ("name", "start"), [("a.json", "{"), ("a.html", "<!DOCTYPE"), ("a.txt", "prediction"), ("a", "prediction")]
)
def test_output_goes_to_a_file_of_the_format_in_its_name(run, tmp_path, name, start, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    code, out, err = run("explain", "a", "--output", str(tmp_path / name))
    assert (code, out, err) == (0, "", "")
    content = (tmp_path / name).read_text(encoding="utf-8")
    assert content.lstrip().startswith(start)
    assert "\x1b" not in content


def test_format_beats_the_name(run, tmp_path):
    run("explain", "a", "--format", "json", "--output", str(tmp_path / "a.html"))
    json.loads((tmp_path / "a.html").read_text(encoding="utf-8"))


def test_many_texts_go_in_chunks_in_order(run, fake):
    count = 2 * CHUNK + 3
    code, out, err = run("explain", *(f"text {i}" for i in range(count)), "--format", "json")
    assert (code, err) == (0, "")
    assert [len(inputs) for inputs, _ in fake.calls] == [CHUNK, CHUNK, 3]
    assert [text for inputs, _ in fake.calls for text in inputs] == [f"text {i}" for i in range(count)]
    assert len(json.loads(out)["attributions"]) == count


def test_a_terminal_sees_progress(fake, monkeypatch, capsys):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    cli_main(*("t" for _ in range(CHUNK + 1)))
    assert "explaining" in stream.getvalue()
    assert "explaining" not in capsys.readouterr().out


def cli_main(*texts: str) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["explain", *texts])
    assert not stop.value.code


def test_methods_lists_every_column(run):
    code, out, _ = run("methods")
    assert code == 0
    for part in ("norm times logit [per token]", "EMNLP 2025", "any head", "a-very-long-method-name", "x" * 80):
        assert part in out
    assert "\x1b" not in out
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line.split()}
    assert rows["normxlogit"][-3:] == ["yes", "yes", "1"]
    assert rows["a-very-long-method-name"][-3:] == ["no", "no", "1"]


@pytest.mark.filterwarnings("ignore:Cannot enable progress bars")
def test_transformers_settings_are_as_before(run):
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_info()
    logging.enable_progress_bar()
    try:
        run("explain", "a")
        assert logging.get_verbosity() == 20
        assert logging.is_progress_bar_enabled()
    finally:
        logging.set_verbosity(verbosity)
        if not bars:
            logging.disable_progress_bar()


def test_version(run, monkeypatch):
    module = ModuleType("normxlogit._version")
    module.__version__ = "1.2.3"
    monkeypatch.setitem(sys.modules, "normxlogit._version", module)
    assert run("--version") == (0, "normxlogit 1.2.3\n", "")


@pytest.mark.parametrize("arguments", [["--help"], ["explain", "--help"], ["methods", "--help"]])
def test_help_needs_no_heavy_import(arguments):
    code = (
        "import sys\nfrom normxlogit.cli import main\n"
        f"try: main({arguments!r})\nexcept SystemExit as e: assert not e.code\n"
        "heavy = {'torch', 'transformers', 'numpy', 'jinja2', 'tokenizers'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT)
    assert run.returncode == 0, run.stderr
    assert "Usage" in run.stdout


def test_help_is_fast():
    command = [sys.executable, "-c", "from normxlogit.cli import main; main(['--help'])"]
    times = []
    for _ in range(3):
        started = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True, env=ENVIRONMENT)
        times.append(time.perf_counter() - started)
    assert min(times) < 0.5
