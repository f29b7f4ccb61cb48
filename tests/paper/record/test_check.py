from importlib.resources import files
from pathlib import Path

import pytest

import benchmarks.commands
from paper.record.check import Ran, check, unmarked
from paper.record.report import report
from tests.commands import run, run_paper

ROOT = Path(__file__).parents[3]
DOCS = [ROOT / "README.md", ROOT / "docs"]

PRINTED = """dataset: reviews, texts: 4

| method | AOPC ↑ | 95% interval | p |
|---|---:|---|---:|
| normxlogit | **0.455** | 0.438 to 0.473 |  |
| logat | <u>0.393</u> | 0.378 to 0.407 | 2.4e-143 |
"""
HEAD = """```console
$ normxlogit evaluate faithfulness --methods "normxlogit logat"
```

"""
TABLE = """| method | AOPC ↑ | p |
|---|---:|---:|
| `logat` | 0.393 | 2.4e-143 |
| `normxlogit` | **0.455** | |
"""
ABOVE = "<!-- figures: above -->\n\n"


def only(tmp_path, text, asked=None):
    """Check a page with one block beside a program that prints the same whatever it is asked."""
    page, asked = tmp_path / "page.md", [] if asked is None else asked
    page.write_text(text, encoding="utf-8")
    (found,) = check([page], lambda words, _: asked.append(list(words)) or Ran(0, PRINTED, ""), tmp_path / "work")
    return found


def test_a_table_as_its_command_prints_it_is_right_whatever_its_order(tmp_path):
    asked = []
    found = only(tmp_path, HEAD + ABOVE + TABLE, asked)
    assert (found.state, found.block.figures, found.wrong) == ("same", 3, False)
    assert asked == [["normxlogit", "evaluate", "faithfulness", "--methods", "normxlogit logat"]]


@pytest.mark.parametrize(
    ("said", "wrong", "printed"),
    [
        ("0.393", "0.391", "0.393"),
        ("2.4e-143", "2.6e-143", "2.4e-143"),
        ("**0.455**", "<u>0.455</u>", "**0.455**"),
        ("| `logat`", "| `lime`", "no such row"),
        ("AOPC ↑ |", "AUC |", "no table with these columns"),
    ],
)
def test_a_wrong_cell_is_named_with_its_line(tmp_path, said, wrong, printed):
    text = HEAD + ABOVE + TABLE.replace(said, wrong)
    (difference,) = only(tmp_path, text).differences
    assert printed in difference.printed
    assert wrong.strip("| `") in f"{difference.said} {difference.name}" + text.splitlines()[difference.line - 1]
    assert wrong.strip("|") in text.splitlines()[difference.line - 1]


def test_the_last_digit_may_be_one_off_and_a_tolerance_says_more(tmp_path):
    near, far = TABLE.replace("0.393", "0.392"), TABLE.replace("0.393", "0.389")
    assert only(tmp_path, HEAD + ABOVE + near).state == "same"
    assert only(tmp_path, HEAD + ABOVE + far).state == "differs"
    assert only(tmp_path, HEAD + "<!-- figures: above; tolerance 0.005 -->\n\n" + far).state == "same"
    assert only(tmp_path, HEAD + "<!-- figures: above; tolerance 0.5% -->\n\n" + far).state == "differs"


def test_a_command_runs_again_where_the_file_that_it_reads_was_written_again(tmp_path):
    page, printed = tmp_path / "page.md", {"first": "0.393", "second": "0.111"}
    page.write_text(
        "".join(
            f"```console\n$ normxlogit make {name} --output known.jsonl\n$ normxlogit evaluate known.jsonl\n```\n\n"
            f"{ABOVE}{TABLE.replace('0.393', value)}\n"
            for name, value in printed.items()
        )
    )

    def write_or_print(words, folder):
        if words[1] == "make":
            (folder / "known.jsonl").write_text(printed[words[2]])
            return Ran(0, "")
        return Ran(0, PRINTED.replace("0.393", (folder / "known.jsonl").read_text()))

    assert [block.state for block in check([page], write_or_print, tmp_path / "work")] == ["same", "same"]


def test_every_figure_of_the_docs_has_a_command_or_a_mark():
    assert [f"{b.page.name}:{b.line}" for b in unmarked(DOCS)] == []


def test_the_fast_figures_of_the_docs_are_what_the_program_prints(tmp_path, capsys, monkeypatch):
    def here(words, folder):
        monkeypatch.chdir(folder)
        if words[2] == "benchmarks":
            return Ran(*run(capsys, *words[3:], program=benchmarks.commands))
        return Ran(*(run_paper(capsys, *words[3:]) if words[0] == "python" else run(capsys, *words[1:])))

    given = {"reviews.jsonl": Path(str(files("normxlogit.evaluation") / "reviews.jsonl"))}
    found = check(DOCS, here, tmp_path, given=given)
    assert not any(o.wrong for o in found), report([o for o in found if o.wrong])
    assert sum(o.block.figures for o in found if o.state == "same") > 80
