import pytest

from normxlogit import InputError
from normxlogit.inputs.chat import read_prompt
from normxlogit.inputs.message_parts import typed_messages
from tests import tiny

PLAIN = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}</>{% endfor %}"
    "{% if add_generation_prompt %}<a>{% endif %}"
)
TRIMMED = PLAIN.replace("m['content']", "m['content'] | trim")
DEFAULT = "{% if messages[0]['role'] != 'system' %}<system>be good</>{% endif %}" + PLAIN
LATE_SYSTEM = "{% for m in messages[1:] %}[{{ m['content'] }}]{% endfor %}{{ messages[0]['content'] }}"
MESSAGES = [{"role": "system", "content": "good"}, {"role": "user", "content": " is it good ?\n"}]


def read(template, messages):
    tokenizer = tiny.tokenizer()
    tokenizer.chat_template = template
    return read_prompt(tokenizer, messages)


@pytest.mark.parametrize("template", [PLAIN, TRIMMED, LATE_SYSTEM])
def test_what_the_messages_say_is_told_from_what_the_template_writes(template):
    prompt = read(template, MESSAGES)
    found = [(c.role, prompt.text[c.start : c.end], c.message, c.first) for c in prompt.contents]
    assert sorted(found) == [("system", "good", 0, 0), ("user", "is it good ?", 1, 1)]


def test_a_content_that_the_template_also_writes_is_found_at_its_own_place():
    prompt = read(DEFAULT, [{"role": "user", "content": "be good"}, {"role": "user", "content": "user"}])
    assert prompt.text == "<system>be good</><user>be good</><user>user</><a>"
    assert [(c.start, c.end) for c in prompt.contents] == [(24, 31), (40, 44)]


NAMED = [{"role": "user", "content": "ok"}, {"role": "assistant", "content": "a < b, yes"}, *MESSAGES[1:]]
NAMED += [{"role": "user", "content": "yes"}, {"role": "user", "content": "user"}]


@pytest.mark.parametrize(
    ("template", "lost"),
    [
        (PLAIN.replace("m['content']", "m['content'] | replace('<', '&lt;')"), [1]),
        (PLAIN.replace("m['content']", "m['content'].split(',')[-1]"), [1]),
        (PLAIN.replace("m['content']", "m['content'] | upper"), [0, 1, 2, 3, 4]),
        (PLAIN.replace("m['content']", "m['content'] * 2"), [0, 1, 2, 3, 4]),
        (PLAIN.replace("</>", "</{{ m['content'] | length }}>"), [3]),
    ],
)
def test_a_content_that_a_template_changes_is_not_found_in_another_one(template, lost):
    prompt = read(template, NAMED)
    assert [c.message for c in prompt.contents] == [i for i in range(5) if i not in lost]
    for content in prompt.contents:
        before = prompt.text[: content.start]
        assert prompt.text[content.start : content.end] == NAMED[content.message]["content"].strip()
        assert before.count("<user>") + before.count("<assistant>") == content.message + 1
    assert all(f"message {i} " in note for i, note in zip(lost, prompt.notes, strict=True))


def test_parts_are_one_text_for_a_template_that_would_write_them_as_code():
    for content in ([{"type": "text", "text": each} for each in ("ok", "it is good")], ["ok", "it is good"]):
        prompt = read(PLAIN, [{"role": "user", "content": content}])
        assert prompt.text == "<user>ok\nit is good</><a>"
        assert [prompt.text[c.start : c.end] for c in prompt.contents] == ["ok\nit is good"]


@pytest.mark.parametrize("messages", [[], ["text"], [MESSAGES[0], 3], [{"role": "user"}], 3])
def test_what_is_no_list_of_messages_is_refused(messages):
    with pytest.raises(InputError, match="a prompt is a string or a list of messages"):
        read(PLAIN, messages)


def test_parts_of_messages_have_a_type_and_those_of_other_types_stay():
    call = {"type": "tool_use", "name": "search"}
    (message,), parts = typed_messages([{"role": "user", "content": ["a", {"text": "b"}, call]}], None, None)
    assert message["content"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, call]
    assert parts == ()
    for unread in ({"name": "search"}, 3, {"type": "video"}):
        with pytest.raises(InputError, match="message 0 holds a"):
            typed_messages([{"role": "user", "content": [unread]}], None, None)
