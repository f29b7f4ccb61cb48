import pytest

from normxlogit import InputError
from normxlogit.inputs.chat import read_prompt
from tests import tiny

PLAIN = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}</>{% endfor %}"
    "{% if add_generation_prompt %}<a>{% endif %}"
)
TRIMMED = PLAIN.replace("m['content']", "m['content'] | trim")
DEFAULT = "{% if messages[0]['role'] != 'system' %}<system>be good</>{% endif %}" + PLAIN
LATE_SYSTEM = "{% for m in messages[1:] %}[{{ m['content'] }}]{% endfor %}{{ messages[0]['content'] }}"
MESSAGES = [{"role": "system", "content": "good"}, {"role": "user", "content": " is it good ?\n"}]


def contents(template, messages):
    tokenizer = tiny.tokenizer()
    tokenizer.chat_template = template
    read = read_prompt(tokenizer, messages)
    return read.text, [(c.role, read.text[c.start : c.end], c.message, c.trimmed) for c in read.contents]


@pytest.mark.parametrize("template", [PLAIN, TRIMMED, LATE_SYSTEM])
def test_what_the_messages_say_is_told_from_what_the_template_writes(template):
    _, found = contents(template, MESSAGES)
    assert sorted(found) == [("system", "good", 0, 0), ("user", "is it good ?", 1, 1)]


def test_a_content_that_the_template_also_writes_is_found_at_its_own_place():
    text, found = contents(DEFAULT, [{"role": "user", "content": "be good"}, {"role": "user", "content": "user"}])
    assert text == "<system>be good</><user>be good</><user>user</><a>"
    tokenizer = tiny.tokenizer()
    tokenizer.chat_template = DEFAULT
    places = read_prompt(
        tokenizer, [{"role": "user", "content": "be good"}, {"role": "user", "content": "user"}]
    ).contents
    assert [(c.start, c.end) for c in places] == [(24, 31), (40, 44)]
    assert [c[1] for c in found] == ["be good", "user"]


@pytest.mark.parametrize("empty", ["", " \n"])
def test_an_empty_message_does_not_shift_the_others(empty):
    _, found = contents(PLAIN, [{"role": "system", "content": empty}, {"role": "user", "content": "user"}])
    assert found == [("user", "user", 1, 0)]
    tokenizer = tiny.tokenizer()
    tokenizer.chat_template = "{% if messages[0]['content'] %}once {% endif %}" + PLAIN
    messages = [{"role": "user", "content": empty}, {"role": "user", "content": "user"}]
    read = read_prompt(tokenizer, messages)
    (only,) = read.contents
    assert read.text[: only.start].endswith(f"<user>{empty}</><user>")


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
    tokenizer = tiny.tokenizer()
    tokenizer.chat_template = template
    read = read_prompt(tokenizer, NAMED)
    assert [c.message for c in read.contents] == [i for i in range(5) if i not in lost]
    for content in read.contents:
        before = read.text[: content.start]
        assert read.text[content.start : content.end] == NAMED[content.message]["content"].strip()
        assert before.count("<user>") + before.count("<assistant>") == content.message + 1
    assert len(read.notes) == len(lost)
    assert all(f"message {i} " in note for i, note in zip(lost, read.notes, strict=True))


def test_a_message_of_several_texts_is_no_source_and_said_so():
    tokenizer = tiny.tokenizer()
    tokenizer.chat_template = PLAIN
    parts = [{"type": "text", "text": "ok"}]
    read = read_prompt(tokenizer, [{"role": "user", "content": parts}, MESSAGES[0]])
    assert [read.text[c.start : c.end] for c in read.contents] == ["ok", MESSAGES[0]["content"]]
    read = read_prompt(tokenizer, [{"role": "user", "content": 2 * parts}, MESSAGES[0]])
    assert [c.message for c in read.contents] == [1]
    assert read.notes == ("message 0 is not a plain text, so it is not among the sources",)


def test_parts_that_a_template_would_leave_out_are_refused():
    tokenizer = tiny.tokenizer()
    tokenizer.chat_template = PLAIN
    with pytest.raises(InputError, match="message 1 holds a part of type 'video'"):
        read_prompt(tokenizer, [MESSAGES[0], {"role": "user", "content": [{"type": "video", "video": "talk.mp4"}]}])
