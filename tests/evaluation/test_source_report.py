"""How well methods find sources, written down: each figure in its place."""

import json

from normxlogit.evaluation.generation import SourceResult
from normxlogit.evaluation.source_report import sources_table, write_sources


def result(method, first, shift=0.0):
    drops = {k: (first + k - 1, 3 - first, first + 0.25 + k) for k in (1, 3, 5)}
    three = [(place / 10 + shift, place / 10 - 0.1, place / 10 + 0.1) for place in (5, 6, 7)]
    return SourceResult(method, 9, drops, three[0], 0.984, three[1], three[2], 12.3456)


RESULTS = [result("occlusion", 2.0), result("random", 1.0, 0.01), result("logat", 3.0), result("length", 2.5)]

TABLE = """\
| method | passes | first source as leave-one-out's ↑ | its nats ↑ | drop, top 1 ↑ | drop, top 3 ↑ | drop, top 5 ↑ \
| Spearman ↑ | LDS ↑ |
|---|---:|---:|---:|---:|---:|---:|---:|---:|
| occlusion | 12.3 | 0.50 (0.40 to 0.60) | 0.98 | 2.0 (1.0 to 3.2) | 4.0 (1.0 to 5.2) | 6.0 (1.0 to 7.2) \
| 0.60 (0.50 to 0.70) | 0.70 (0.60 to 0.80) |
"""


def test_the_table_has_every_figure_in_its_column():
    assert sources_table(RESULTS[:1]) == TABLE
    assert sources_table(RESULTS[:1], "word") == TABLE.replace("first source", "first word")


def test_leave_one_out_stands_first_and_the_others_by_what_their_first_source_is_worth():
    lines = sources_table(RESULTS).splitlines()[2:]
    assert [line.split(" | ")[0] for line in lines] == ["| occlusion", "| logat", "| length", "| random"]
    assert lines[3].split(" | ")[2] == "0.51 (0.40 to 0.60)"


def test_what_is_written_says_what_was_measured(tmp_path):
    folder, about = tmp_path / "new" / "out", {"model": "tiny", "prompts": "9"}
    for _ in range(2):  # a folder that is there already is written to
        write_sources(folder, RESULTS, about, "word")
    assert (folder / "generation.md").read_text() == f"model: tiny, prompts: 9\n\n{sources_table(RESULTS, 'word')}"
    state = json.loads((folder / "generation.json").read_text())
    assert state["about"] == about
    assert [r["method"] for r in state["results"]] == ["occlusion", "random", "logat", "length"]
    assert state["results"][0]["drops"] == {"1": [2.0, 1.0, 3.25], "3": [4.0, 1.0, 5.25], "5": [6.0, 1.0, 7.25]}
    write_sources(folder, RESULTS, about)
    assert "first source" in (folder / "generation.md").read_text()
