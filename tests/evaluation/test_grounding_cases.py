"""Questions with and without their evidence, and with other numbers and names in it."""

import pytest

from normxlogit import DataError
from normxlogit.evaluation.grounding.cases import Case, answers_from_evidence, load_cases, swap_evidence
from tests.corpus.corpora import jsonl

ROWS = [{"question": f"is movie {i} good ?", "sentence": f"Movie {i} is good .", "label": i % 2} for i in range(12)]


def test_a_question_of_qnli_is_a_case_with_its_evidence_and_one_with_another_sentence_in_its_place(tmp_path):
    data = jsonl(tmp_path / "qnli.jsonl", ROWS)
    cases, texts = load_cases(data, 4)
    assert texts == [row["sentence"] for row in ROWS]
    assert [case.supported for case in cases] == [True, False] * 4
    for with_evidence, without in zip(cases[::2], cases[1::2], strict=True):
        row = next(row for row in ROWS if row["question"] == with_evidence.question == without.question)
        first, second = (case.documents["text"].split("\n\n") for case in (with_evidence, without))
        assert row["label"] == 0
        assert row["sentence"] == with_evidence.evidence
        assert row["sentence"] in first
        assert row["sentence"] not in second
        assert without.evidence == ""
        assert len(set(first)) == len(set(second)) == 3
        assert sum(a == b for a, b in zip(first, second, strict=True)) == 2
    assert load_cases(data, 4)[0] == cases
    assert load_cases(data, 2)[0] == cases[:4]
    assert load_cases(data, 4, seed=1)[0] != cases


def case(evidence, question="When did it open?", others="The hall closed in 1950."):
    return Case(question, {"a": f"{evidence} {others}", "b": others}, True, evidence=evidence)


TEXTS = ["In 1812 it burnt.", "The year 12 was cold, said Anna Berg to Otto.", "Some 3.5 apples."]


@pytest.mark.parametrize(
    ("evidence", "answer", "swapped"),
    [
        ("The pool opened in 1974.", "It opened in 1974.", "The pool opened in 1812."),
        ("The pool opened in 1974 or 19.", "In 19.", "The pool opened in 1974 or 12."),
        ("The pool cost 2.5 million.", "It cost 2.5 million.", "The pool cost 3.5 million."),
        ("It was built by Ada Lovelace.", "By Ada Lovelace.", "It was built by Anna Berg."),
        ("It was built by Ada in 1974.", "By Ada, in 1974.", "It was built by Otto in 1812."),
        ("It was built by Ada in 1974.", "By Adam, in 1974.", "It was built by Ada in 1812."),
        ("The pool opened in 1974.", "In 19745.", None),  # another number
        ("The pool opened in 1950.", "In 1950.", None),  # the rest of the documents has it too
        ("When it opened in 1974, all came.", "When it opened.", None),  # neither number nor name
        ("The pool cost 123 euros.", "123 euros.", None),  # no other of as many digits
    ],
)
def test_numbers_and_names_that_the_answer_has_from_the_evidence_are_swapped(evidence, answer, swapped):
    found = swap_evidence(case(evidence), answer, TEXTS)
    if swapped is None:
        assert found is None
        return
    assert found.evidence == swapped
    assert found.documents == {"a": f"{swapped} The hall closed in 1950.", "b": "The hall closed in 1950."}
    assert (found.answer, found.supported) == (answer, False)


def test_what_the_question_says_is_not_swapped():
    asked = case("The pool of 1974 is by Ada.", "Who built the pool of 1974?")
    assert swap_evidence(asked, "Ada, in 1974.", TEXTS).evidence == "The pool of 1974 is by Otto."


@pytest.mark.parametrize(("answer", "expected"), [
    ("In 1974.", True), ("The POOL!", True), ("It opened.", False), ("In 1950.", False), ("Pools.", False),
    ("", False),
])  # fmt: skip
def test_an_answer_from_the_evidence_has_a_word_that_nothing_else_has(answer, expected):
    assert answers_from_evidence(case("The pool did open in 1974."), answer) is expected


@pytest.mark.parametrize(
    "rows",
    [
        [{"question": "a", "documents": ["b"], "supported": True}],
        [{"question": "a", "documents": ["b"], "supported": "yes"}],
        [{"question": 3, "documents": ["b"], "supported": True}],
        [{"question": "a", "documents": [], "supported": True}],
        [{"question": "a", "documents": ["b"], "supported": True, "evidence": "c"}],
        [{"question": "a", "documents": ["b"], "supported": True, "evidence": 3}],
        [{"question": "a"}],
        [{"question": "a", "documents": ["b"], "supported": True}, ROWS[0]],
        ["text"],
        [],
    ],
)
def test_files_without_cases_are_refused(tmp_path, rows):
    with pytest.raises(DataError, match=r"cases\.jsonl"):
        load_cases(jsonl(tmp_path / "cases.jsonl", rows), 5)
