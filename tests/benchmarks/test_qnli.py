from benchmarks.qnli import qnli_questions

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
