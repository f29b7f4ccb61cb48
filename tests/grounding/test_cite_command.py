import io
import json

import pytest

import normxlogit.cli  # whose commands are those of the wings
from tests import tiny
from tests.commands import run


def write(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)


def test_a_conversation_in_a_file(tmp_path, capsys, monkeypatch):
    tiny.save(tmp_path / "model", "llama", "CausalLM", length=300, chats=True)
    messages = [
        {"role": "user", "content": "Is the cat here?"},
        {"role": "tool", "name": "search", "content": '{"cat": "here", "keys": "there"}'},
        {"role": "assistant", "content": "The cat is here."},
    ]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trace.json").write_text(json.dumps({"messages": messages}), encoding="utf-8")
    command = ["cite", "--messages", "trace.json", "--model", "model", "--verify", 0]
    assert run(capsys, *command, "--output", "why.json", "--turn", 0)[:2] == (0, "")
    cited = normxlogit.load("why.json")
    assert cited.names == ("tool result search:cat", "tool result search:keys")
    assert cited.answer.strip() == "The cat is here."
    assert run(capsys, *command, "--output", "why.html")[0] == 0
    assert "tool result search:keys" in (tmp_path / "why.html").read_text(encoding="utf-8")


def test_a_call_of_a_tool_in_a_file(tmp_path, capsys, monkeypatch):
    tiny.save(tmp_path / "model", "llama", "CausalLM", length=300, chats=True)
    call = {"function": {"name": "search", "arguments": '{"cat": "here"}'}}
    messages = [
        {"role": "user", "content": "Is the cat here?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "The cat is there."},
        {"role": "assistant", "content": "The cat is there."},
    ]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trace.json").write_text(json.dumps(messages), encoding="utf-8")
    command = ["cite", "--messages", "trace.json", "--model", "model", "--verify", 1]
    for action in ("search", "0", "-1"):
        assert run(capsys, *command, "--output", "why.json", "--action", action)[:2] == (0, "")
        cited = normxlogit.load("why.json")
        assert (cited.action.tool, cited.names) == ("search", ("user:1",))
    code, out, _ = run(capsys, *command, "--action", "search")
    assert code == 0
    assert "What does each part of the call rest on?" in out
    assert run(capsys, *command, "--action", "find")[0] == 2
    for contrast, other in (("The cat.", 'the answer "The cat."'), ('{"name": "sit", "arguments": {}}', "sit")):
        options = ("--output", "why.json", "--action", "search", "--contrast", contrast)
        assert run(capsys, *command, *options)[:2] == (0, "")
        assert normxlogit.load("why.json").action.other == other
    assert run(capsys, *command, "--action", "search", "--contrast", '{"name": "sit"}')[0] == 2


@pytest.fixture
def shop(tmp_path, monkeypatch):
    tiny.save(tmp_path / "model", "llama", "CausalLM", length=300, chats=True)
    write(tmp_path, {"a.txt": "The cat is here.", "b.txt": "The keys are there."})
    monkeypatch.chdir(tmp_path)
    return ["cite", "a.txt", "b.txt", "--model", "model", "--verify", 0]


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
    write(tmp_path, {"the answer": "The keys are there."})
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"It is here.")))
    code, out, _ = run(capsys, *shop, "--question", "Is the cat here?", "--answer", answer, "--format", "json")
    assert code == 0
    assert json.loads(out)["answer"].strip() == expected.strip()


def test_documents_are_files_and_standard_input(shop, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"A cat sat.")))
    asked = ["--question", "Is the cat here?", "--answer", "The cat is here.", "--format", "json"]
    code, out, _ = run(capsys, *shop[:2], "-", *shop[2:], *asked)
    assert code == 0
    assert json.loads(out)["attribution"]["units"]["name"][:3] == ["a.txt:1", "standard input:1", "b.txt:1"]
    code, _, error = run(capsys, *shop, "c.txt", *asked)
    assert code == 2
    assert "c.txt: there is no such file" in error


def test_the_figures_of_the_verdicts_are_printed_when_asked_for(shop, capsys):
    asked = [*shop[:-2], "--question", "Is the cat here?", "--answer", "The cat is never there."]
    for options, printed in (([], False), (["--verbose"], True), (["--verbose", "--format", "json"], False)):
        code, out, _ = run(capsys, *asked, *options)
        assert code == 0
        assert ("How likely does the model find each sentence?" in out) == printed
