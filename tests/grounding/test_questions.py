import json

from normxlogit.grounding.evaluation.sources import Question, load_questions


def test_questions_are_read_of_a_file(tmp_path):
    path = tmp_path / "q.txt"
    rows = [{"question": "a?", "documents": ["x", "y"]}, {"question": "b?", "documents": {"n": "z"}}]
    path.write_text("\n \n".join(map(json.dumps, rows)) + "\n\n")
    expected = [Question("a?", {"document 1": "x", "document 2": "y"}), Question("b?", {"n": "z"})]
    assert load_questions(path, 9) == expected
    assert [asked.question for asked in load_questions(path, 1)] == ["a?"]
    path.write_text('{"question": "a\u2028?", "documents": ["x\x85y"]}\n', encoding="utf-8")
    assert load_questions(path, 9) == [Question("a\u2028?", {"document 1": "x\x85y"})]
