"""Questions with documents: read of a file, or made of QNLI's rows."""

import json

import numpy as np
import pytest

from normxlogit import DataError
from normxlogit.grounding.evaluation.questions import Asked, load_questions, qnli_questions

ROWS = [{"question": f"q{i}", "sentence": f"Sentence\n{i}.", "label": i % 2} for i in range(20)]


def sentences(asked):
    return asked.documents["text"].split("\n\n")


def test_documents_are_made_of_the_sentence_that_answers_and_six_others():
    found = qnli_questions(ROWS, 10, seed=1)
    assert {asked.question for asked in found} == {f"q{i}" for i in range(0, 20, 2)}, "those that are answered"
    answers = [asked.question.replace("q", "Sentence ") + "." for asked in found]
    for asked, answer in zip(found, answers, strict=True):
        assert len(sentences(asked)) == len(set(sentences(asked))) == 7
        assert answer in sentences(asked)
    places = {sentences(asked).index(answer) for asked, answer in zip(found, answers, strict=True)}
    assert len(places) > 2, "it stands anywhere"
    assert len(set().union(*map(sentences, found))) == 20, "the others are drawn from all rows"


def test_a_seed_chooses_questions_and_sentences():
    found = qnli_questions(ROWS, 4, seed=1)
    assert found == qnli_questions(ROWS, 4, seed=1)
    assert found != qnli_questions(ROWS, 4, seed=2)
    assert [asked.question for asked in found] == [
        f"q{i}" for i in np.random.default_rng(1).permutation(range(0, 20, 2))[:4]
    ]
    assert qnli_questions(ROWS, 4, seed=0) == qnli_questions(ROWS, 4)


def test_questions_are_read_of_a_file(tmp_path):
    path = tmp_path / "q.jsonl"
    rows = [{"question": "a?", "documents": ["x", "y"]}, {"question": "b?", "documents": {"n": "z"}}]
    path.write_text("\n \n".join(map(json.dumps, rows)) + "\n\n")
    assert load_questions(path, 9) == [Asked("a?", {"document 1": "x", "document 2": "y"}), Asked("b?", {"n": "z"})]
    assert [asked.question for asked in load_questions(path, 1)] == ["a?"]
    path.write_text('{"question": "a\u2028?", "documents": ["x\x85y"]}\n', encoding="utf-8")
    assert load_questions(path, 9) == [Asked("a\u2028?", {"document 1": "x\x85y"})]


def test_rows_of_qnli_become_questions_and_do_not_stand_beside_others(tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)))
    assert load_questions(path, 3) == qnli_questions(ROWS, 3, 0, 7)
    assert load_questions(path, 3, 5, 4) == qnli_questions(ROWS, 3, 5, 4)
    with path.open("a") as file:
        file.write("\n" + json.dumps({"question": "own?", "documents": ["x"], "sentence": "s", "label": 1}))
    with pytest.raises(DataError, match="give them in two files"):
        load_questions(path, 9)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"question": "a"}', "'documents'"),
        ('{"question": "a", "sentence": "x"}', "'documents'"),
        ('{"documents": ["x"]}', "'question'"),
        ('{"question": 7, "documents": ["x"]}', "a question is a text"),
        ('{"question": "a", "documents": [3]}', "document"),
        ('["question", "documents"]', "indices"),
        ("nonsense", "Expecting value"),
    ],
)
def test_a_line_that_is_no_question_is_named(tmp_path, line, reason):
    path = tmp_path / "q.jsonl"
    path.write_text(f'{{"question": "a?", "documents": ["x"]}}\n\n{line}\n')
    with pytest.raises(DataError, match=rf"q\.jsonl, line 3: no question with documents: .*{reason}"):
        load_questions(path, 9)
