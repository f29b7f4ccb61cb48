"""HotpotQA's evidence: known rankings have known figures, and what is measured goes on where it stopped."""

import json

import numpy as np
import pytest
from scipy.stats import spearmanr

from benchmarks import evidence_hops, evidence_rankings, evidence_real, hotpot
from normxlogit.errors import DataError
from tests import tiny

KNOWN = {"number": 0, "answers": "given", "kind": "bridge", "gold": [2, 0], "holding": [0], "passes": 1.0, "tokens": 2}
DOCUMENTS = {"cat": "the cat sat on the mat . it is good", "movie": "the movie is bad", "plot": "a plot of great charm"}


def row(method, scores, units=None, **fields):
    units = list(range(len(scores))) if units is None else units
    return evidence_real.Measured(**(KNOWN | {"method": method, "scores": scores, "units": units} | fields))


def figures_of(scores, **fields):
    rows = {"any": row("any", scores, **fields)}
    return evidence_real.figures(lambda r: evidence_real.sentence_ranking("any", r), rows)


@pytest.mark.parametrize(
    ("scores", "first", "both", "answer"),
    [
        ([3.0, 1.0, 2.0, 0.0], 1, 1, 1),
        ([2.0, 1.0, 3.0, 0.0], 1, 1, 0),
        ([3.0, 2.0, 1.0, 0.0], 1, 0, 1),
        ([2.0, 3.0, 1.0, 0.0], 0, 0, 0),
    ],
)
def test_known_rankings_have_known_figures(scores, first, both, answer):
    found = figures_of(scores)
    assert (found["first is gold"], found["both gold first"], found["answer's first"]) == (first, both, answer)


def test_paragraphs_are_in_the_order_of_their_best_sentences():
    assert figures_of([1.0, 1.0, 1.5, 0.1, 0.0], units=[0, 0, 1, 2, 3])["first is gold"] == 0


def test_questions_whose_answer_stands_nowhere_have_no_first_paragraph_of_it():
    assert "answer's first" not in figures_of([3.0, 1.0, 2.0], holding=[])


def test_lds_is_spearmans_correlation_with_the_removals():
    random = np.random.default_rng(0)
    present, nats, scores = random.random((32, 5)) < 0.5, random.normal(size=32), random.normal(size=5)
    subsets = ["".join("01"[int(kept)] for kept in subset) for subset in present]
    rows = {"any": row("any", scores.tolist()), "random": row("random", nats.tolist(), present=subsets)}
    found = evidence_real.figures(lambda r: evidence_real.sentence_ranking("any", r), rows)
    assert found["LDS"] == pytest.approx(spearmanr(present.astype(float) @ scores, nats).statistic)


def test_context_cite_finds_the_sources_of_a_linear_model():
    weights, random = np.array([0.0, 4.0, 0.0, 2.0, 0.0]), np.random.default_rng(1)
    present = random.random((32, 5)) < 0.5
    odds = present @ weights - 5
    nats = (-np.log1p(np.exp(-odds))).tolist()
    subsets = ["".join("01"[int(kept)] for kept in subset) for subset in present]
    rows = {"context-cite 1": row("context-cite 1", nats, present=subsets, tokens=1)}
    ranking = evidence_real._context_cite_ranking(rows, ("context-cite 1",))
    assert ranking.order[:2] == [1, 3]
    assert ranking.sums == pytest.approx(weights, abs=0.1)
    assert evidence_real._context_cite_ranking(rows, ("context-cite 1", "context-cite 2")) is None


def test_paragraphs_that_name_each_other_score_together():
    documents = {"Old Bridge": "It crosses the Blue River .", "Blue River": "A river .", "Tom": "The Old Bridge fell ."}
    question = hotpot.Question(0, "bridge", "", "", documents, (0, 1))
    assert hotpot.shared_titles(question, 0) == [0.0, 1.0, 1.0]
    assert hotpot.shared_words(question, "the blue bridge")[1] == pytest.approx(np.log(3 / 2))


def test_the_second_paragraph_is_the_first_by_a_way_but_the_first():
    rows = {"alone, with words": row("alone, with words", [0.0, 9.0, 2.0], units=[0, 1, 2])}
    ranking = evidence_hops.with_second(lambda _: np.array([5.0, 9.0, 7.0]), rows)
    assert ranking.order == [1, 2, 0]


@pytest.fixture(scope="module")
def explainer():
    return tiny.writer(length=300)


@pytest.fixture
def questions():
    return [hotpot.Question(n, "bridge", "where is the cat ?", "on the mat", DOCUMENTS, (0, 1)) for n in range(2)]


def test_a_prompt_is_cut_where_its_paragraphs_begin(explainer, questions):
    prompt = hotpot.Prompt(explainer, questions[0], "on the mat")
    pieces, ids = prompt.pieces, prompt.completed.encoding.ids
    assert [*pieces.start, *(i for document in pieces.documents for i in document), *pieces.end] == ids
    for title, document in zip(DOCUMENTS, pieces.documents, strict=True):
        assert explainer.tokenizer.decode(document).startswith(title)
    assert pieces.end[-pieces.answer_tokens :] == prompt.completed.generated_ids


def test_measuring_goes_on_where_it_stopped(explainer, questions, tmp_path):
    file = tmp_path / "measured.jsonl"
    names = [name for name in evidence_rankings.MEASURES if name != "flashtrace"]
    evidence_real.measure(explainer, questions[:1], names[:3], file)
    before = file.read_text()
    evidence_real.measure(explainer, questions, names, file)
    after = file.read_text()
    assert after.startswith(before)
    measured = [(line["number"], line["method"]) for line in map(json.loads, after.splitlines())]
    methods = [method for name in names for method in evidence_rankings.MEASURES[name].methods]
    assert sorted(measured) == sorted((number, method) for number in range(2) for method in methods)
    assert "mat" not in after
    with pytest.raises(DataError, match="another model"):
        evidence_real.measure(tiny.writer(length=250), questions, names, file)
    report = evidence_real.report(file)
    measured_methods = set(evidence_real.METHODS) - {"FlashTrace, one hop"}  # an optional package
    assert all(name in report for name in measured_methods)


def test_written_answers_count_where_they_hold_the_right_one():
    assert hotpot.is_right("It was Bath, Maine.", "Bath, Maine")
    assert not hotpot.is_right("It was Bathurst.", "Bath")
    assert hotpot.is_right("No, they are not.", "no")
    assert not hotpot.is_right("There is no such thing.", "no")


def test_wrong_answers_of_the_model_are_counted_and_not_ranked(explainer, questions, tmp_path):
    file = tmp_path / "measured.jsonl"
    for _ in range(2):
        evidence_real.measure(explainer, questions, ["words"], file, is_written=True)
    assert [row.method for row in evidence_real.load_measured(file)] == [evidence_real.WRITTEN] * 2
    assert "2 questions, 2 of them answered wrongly" in evidence_real.report(file)
