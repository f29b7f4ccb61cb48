"""The command that cites: which documents are read and what they are called; and conversations."""

import io
import json

import pytest

import normxlogit.cli  # whose commands are those of the wings
from normxlogit.errors import DataError
from normxlogit.grounding.command import read_documents
from tests import tiny
from tests.commands import run


def write(folder, **files):
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_txt", ".txt").replace("_md", ".md")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())
    return folder


def test_files_of_one_name_are_all_read(tmp_path, monkeypatch):
    write(tmp_path, x_txt="one", a__x_txt="two", a__y_txt="three")
    monkeypatch.chdir(tmp_path)
    assert read_documents(["a/x.txt", "x.txt"])[0] == {"a/x.txt": "two", "x.txt": "one"}
    assert read_documents(["x.txt", "a"])[0] == {"x.txt": "one", "a/x.txt": "two", "y.txt": "three"}
    assert read_documents([str(tmp_path)])[0] == {"a/x.txt": "two", "y.txt": "three", "x.txt": "one"}
    write(tmp_path, b__x_txt="four")
    assert read_documents([str(tmp_path / "a"), "b/x.txt"])[0] == {
        "a/x.txt": "two",
        "y.txt": "three",
        "b/x.txt": "four",
    }


def test_what_a_folder_holds_that_is_no_text_is_left_out_with_a_note(tmp_path):
    write(tmp_path, a__x_txt="one")
    (tmp_path / "a/latin.txt").write_bytes("caf\xe9".encode("latin-1"))
    (tmp_path / "a/wide.txt").write_bytes("one".encode("utf-16-le"))
    found, notes = read_documents([str(tmp_path / "a")])
    assert found == {"x.txt": "one"}
    assert [note.partition(str(tmp_path))[2] for note in notes] == [
        "/a/latin.txt is not UTF-8 text; it was left out",
        "/a/wide.txt is not UTF-8 text; it was left out",
    ]
    for places in (["a/latin.txt"], ["a", "a/latin.txt"], ["a/wide.txt"]):
        with pytest.raises(DataError, match=r"is not UTF-8 text$"):
            read_documents([str(tmp_path / place) for place in places])
    (tmp_path / "a/x.txt").unlink()
    with pytest.raises(DataError, match=r"latin\.txt is not UTF-8 text$"):
        read_documents([str(tmp_path / "a")])


@pytest.mark.parametrize("lines", [False, True], ids=["json", "json lines"])
def test_a_conversation_in_a_file(lines, tmp_path, capsys, monkeypatch):
    tiny.save(tmp_path / "model", "llama", "CausalLM", length=300, chats=True)
    messages = [
        {"role": "user", "content": "Is the cat here?"},
        {"role": "tool", "name": "search", "content": '{"cat": "here", "keys": "there"}'},
        {"role": "assistant", "content": "The cat is here."},
        {"role": "user", "content": "And the keys?"},
        {"role": "assistant", "content": "The keys are there."},
    ]
    monkeypatch.chdir(tmp_path)
    text = "\n".join(map(json.dumps, messages)) if lines else json.dumps({"messages": messages})
    (tmp_path / "trace.json").write_text(text, encoding="utf-8")
    command = ["cite", "--messages", "trace.json", "--model", "model", "--verify", 0]
    code, out, _ = run(capsys, *command, "--output", "why.json", "--turn", 0)
    assert code == 0
    assert not out
    cited = normxlogit.load("why.json")
    assert cited.names == ("tool result search:cat", "tool result search:keys")
    assert cited.answer.strip() == "The cat is here."
    code, out, _ = run(capsys, *command)
    assert code == 0
    assert "The keys are there." in out
    assert run(capsys, *command, "--output", "why.html")[0] == 0
    assert "tool result search:keys" in (tmp_path / "why.html").read_text(encoding="utf-8")


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A folder with a model, two documents and an answer."""
    tiny.save(tmp_path / "model", "llama", "CausalLM", length=300, chats=True)
    write(tmp_path, a_txt="The cat is here.", b_txt="The keys are there.", answer_txt="The cat is here.")
    monkeypatch.chdir(tmp_path)
    return ["cite", "a.txt", "b.txt", "--model", "model", "--verify", 0]


def test_several_questions_have_a_result_each(shop, capsys):
    asked = ["--question", "Is the cat here?", "--question", "And the keys?"]
    command = [*shop, *asked, "--answer", "answer.txt", "--answer", "b.txt"]
    assert run(capsys, *command, "--output", "why.json")[0] == 0
    cited = normxlogit.load("why.json")
    assert [(one.question, one.answer.strip()) for one in cited] == [
        ("Is the cat here?", "The cat is here."),
        ("And the keys?", "The keys are there."),
    ]
    code, out, _ = run(capsys, *command)
    assert code == 0
    assert all(question in out for question in asked[1::2])


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The cat is here.", "The cat is here."),
        ("the answer", "The keys are there."),
        ("The cat. " * 40, "The cat. " * 40),
        ("-", "It is here."),
    ],
    ids=["text", "file", "long text", "standard input"],
)
def test_an_answer_is_a_file_or_a_text(shop, tmp_path, capsys, monkeypatch, answer, expected):
    write(tmp_path, **{"the answer": "The keys are there."})
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"It is here.")))
    code, out, _ = run(capsys, *shop, "--question", "Is the cat here?", "--answer", answer, "--format", "json")
    assert code == 0
    assert json.loads(out)["answer"].strip() == expected.strip()
