"""In a corpus: words count by texts and are tested, and shares say how many they are of."""

import random
from collections import Counter
from datetime import date
from functools import partial

import numpy as np
import pytest
import torch

from normxlogit import DataError, Explainer, InputError, Predictions, attribute, summarize
from tests import tiny
from tests.commands import run
from tests.contract.compare import refused

pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

FIRST, OTHERS = tiny.WORDS[:2], [word for word in tiny.WORDS[2:] if word.isalpha()]


def texts_with_a_greeting(count):
    """Each begins with one of two words that stand nowhere else."""
    draw = random.Random(0)
    return [" ".join([draw.choice(FIRST), *draw.choices(OTHERS, k=5)]) for _ in range(count)]


@pytest.fixture(scope="module")
def greeted(tmp_path_factory):
    """A run of a model to which the first position says more than the word there, with its model."""
    model = tiny.model("bert")
    with torch.no_grad():
        position = model.bert.embeddings.position_embeddings.weight[1]
        position += 2 * torch.randn(position.shape, generator=torch.Generator().manual_seed(1))
    explainer = Explainer(model, tiny.tokenizer_for("bert"), name="tiny")
    folder, texts = tmp_path_factory.mktemp("greeted"), texts_with_a_greeting(48)
    attribute(explainer, [{"text": text} for text in texts], folder, Predictions(target="LABEL_1"))
    return folder, explainer, texts


def test_a_word_is_listed_if_the_answer_falls_without_it(greeted):
    folder, explainer, texts = greeted
    by_scores, tested = summarize(folder, top=50), summarize(folder, top=50, verify=100, explainer=explainer)
    assert set(FIRST) <= {unit.text for unit in by_scores.against}, "by its score the first word says much"
    assert set(FIRST) <= {unit.text for unit in tested.untrue}, "and without it the answer is the same"
    listed = [*tested.highest, *tested.against]
    assert listed
    assert {unit.text for unit in listed}.isdisjoint(unit.text for unit in tested.untrue)
    assert not by_scores.tested
    assert all(unit.fall is None for unit in (*by_scores.highest, *by_scores.against))
    for unit in (*listed, *tested.untrue):
        with_word = [text for text in texts if unit.text in text.split()]
        if unit.mean < 0:  # it speaks against the texts that are predicted to have the label
            with_word = [text for text in with_word if explainer(text).prediction.label == "LABEL_1"]
        falls = np.array([fall(explainer, text, unit.text) for text in with_word])
        assert (unit.texts, unit.fall.texts) == (len(falls), len(falls))
        assert unit.fall.mean == pytest.approx(falls.mean(), abs=1e-5)
        speaks_for = 1 if unit.mean > 0 else -1
        is_sure = speaks_for * falls.mean() > (unit.fall.high - unit.fall.low) / 2
        is_large = speaks_for * falls.mean() >= 0.1 * abs(unit.mean)
        assert (unit in listed) == unit.fall.is_confirmed == (is_sure and is_large)


def fall(explainer, text, word):
    """Return how much the logit falls when a word is deleted: a plain loop, without the library."""
    left = " ".join(each for each in text.split() if each != word)
    whole, without = (tiny.logits_of(explainer.model, explainer.tokenizer(each)["input_ids"]) for each in (text, left))
    return float(whole[1] - without[1])


def test_with_a_contrast_the_difference_falls(tmp_path):
    explainer = tiny.explainer("bert", num_labels=3)
    rows = [{"text": text} for text in texts_with_a_greeting(24)]
    attribute(explainer, rows, tmp_path, Predictions(target="LABEL_1", contrast="LABEL_2"))
    summary = summarize(tmp_path, top=20, min_texts=3, verify=100, explainer=explainer)
    units = [*summary.highest, *summary.against, *summary.untrue]
    assert units
    for unit in units[:4]:
        falls = []
        for row in rows:
            words = row["text"].split()
            if unit.text in words:
                left = " ".join(word for word in words if word != unit.text)
                ids = (explainer.tokenizer(text)["input_ids"] for text in (row["text"], left))
                whole, without = (tiny.logits_of(explainer.model, each) for each in ids)
                falls.append(float((whole - without)[1] - (whole - without)[2]))
        assert unit.fall.mean == pytest.approx(np.mean(falls), abs=1e-5)


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """A run with right labels and columns that divide it, its model's predictions, and its rows."""
    explainer = tiny.explainer("bert", num_labels=3)
    with torch.no_grad():
        explainer.model.classifier.weight.mul_(50)
        ids = explainer.tokenizer(texts_with_a_greeting(40), return_tensors="pt", padding=True)
        explainer.model.classifier.bias.sub_(explainer.model(**ids).logits.mean(0))
    rows = [
        {
            "text": text,
            "gold": None if place == 5 else f"LABEL_{place % 3}",
            "language": None if place == 7 else ["en", "de", "fr"][place % 4 % 3],
            "stars": place % 20,
            "written": date(2020 + place % 3, 1, 1),
            "writer": None if place < 3 else f"writer {place % 20}",
            "marks": [place],
        }
        for place, text in enumerate(texts_with_a_greeting(40))
    ]
    folder = tmp_path_factory.mktemp("judged")
    attribute(explainer, rows, folder, keep=["gold", "language", "stars", "written", "writer", "marks"])
    return folder, [result.prediction.label for result in explainer([row["text"] for row in rows])], rows


def test_right_answers_say_of_how_many_they_are(judged):
    folder, predicted, rows = judged
    summary = summarize(folder, gold="gold")
    pairs = [(row["gold"], label) for row, label in zip(rows, predicted, strict=True) if row["gold"] is not None]
    right = sum(gold == label for gold, label in pairs)
    assert (summary.right.part, summary.right.texts) == (right, 39)
    assert summary.accuracy == summary.right.value == right / 39
    assert summary.right.low < summary.accuracy < summary.right.high
    assert len(set(predicted)) > 1
    assert [answers.texts for answers in summary.matrix] == sorted(Counter(g for g, _ in pairs).values(), reverse=True)
    for answers in summary.matrix:
        of_label = [label for gold, label in pairs if gold == answers.label]
        assert answers.predictions == Counter(of_label)
        found = of_label.count(answers.label)
        assert (answers.recall.part, answers.recall.texts) == (found, len(of_label))
        as_label = [gold for gold, label in pairs if label == answers.label]
        precision = answers.precision and (answers.precision.part, answers.precision.texts)
        assert precision == ((found, len(as_label)) if as_label else None)
    assert summarize(folder).right is None
    assert summarize(folder).matrix == []


def test_rows_without_a_value_are_apart_from_those_with_rare_values(judged):
    folder, _, rows = judged
    summary = summarize(folder, by=["writer"])
    names = {each.value: each.rows for each in summary.slices}
    assert names["(missing)"] == 3
    assert names["(other)"] == sum(row["writer"] not in names for row in rows) - 3 > 0
    assert sum(names.values()) == len(rows)


def test_rows_are_divided_by_the_values_of_a_column(judged):
    folder, predicted, rows = judged
    summary = summarize(folder, gold="gold", by=["language", "length", "stars", "written"])
    by_column = {column: [s for s in summary.slices if s.column == column] for column in ("language", "stars")}
    counts = Counter(row["language"] for row in rows)
    names = [(each.value, each.rows) for each in by_column["language"]]
    assert names == [*((name, counts[name]) for name in ("en", "de", "fr")), ("(missing)", 1)]
    for each in by_column["language"][:-1]:
        members = [place for place, row in enumerate(rows) if row["language"] == each.value]
        assert each.labels == Counter(predicted[place] for place in members)
        known = [place for place in members if rows[place]["gold"] is not None]
        right = sum(rows[place]["gold"] == predicted[place] for place in known)
        assert (each.accuracy.part, each.accuracy.texts) == (right, len(known))
    assert [each.value for each in by_column["stars"]] == ["0 to 4", "5 to 9", "10 to 14", "15 to 19"]
    assert [each.rows for each in by_column["stars"]] == [10] * 4
    written = [each.value for each in summary.slices if each.column == "written"]
    assert written == ["2020-01-01", "2021-01-01", "2022-01-01"]
    lengths = [each for each in summary.slices if each.column == "length"]
    assert [(each.value, each.unit, each.rows) for each in lengths] == [("6", "words", 40)]
    assert {each.unit for each in summary.slices if each.column != "length"} == {""}
    assert summarize(folder, by="language").slices[0].accuracy is None
    refused(DataError, "no column 'nope' in the results", partial(summarize, folder, by="nope"))
    refused(InputError, "by='marks'", partial(summarize, folder, by="marks"))


def test_many_values_of_a_text_are_counted_together(tmp_path):
    rows = [{"text": "the cat", "author": f"author {place // 2 if place < 26 else place}"} for place in range(30)]
    attribute(tiny.explainer("bert"), rows, tmp_path, method="input-norm", keep="author")
    slices = summarize(tmp_path, by="author").slices
    assert [each.rows for each in slices] == [2] * 12 + [6]
    assert slices[-1].value == "(other)"


def test_dates_that_are_texts_are_put_into_ranges(tmp_path):
    rows = [{"text": "the cat", "day": f"2025-{1 + place % 12:02d}-{10 + place}"} for place in range(16)]
    attribute(tiny.explainer("bert"), rows, tmp_path, method="input-norm", keep="day")
    slices = summarize(tmp_path, by="day").slices
    days = sorted(row["day"] for row in rows)
    assert [each.value for each in slices] == [f"{days[first]} to {days[first + 3]}" for first in range(0, 16, 4)]


def test_the_page_says_it_in_short_and_folds_what_is_long(tmp_path, capsys):
    long, unread = "the movie is good " * 40, "\u6211 \u4eec \u7684"
    rows = [{"text": text, "gold": "LABEL_0"} for text in (*texts_with_a_greeting(8), unread)]
    rows += [{"text": long, "gold": f"LABEL_{place}"} for place in (0, 1)]  # one of them is wrong
    model = tiny.model("bert", max_position_embeddings=300)
    tokenizer = tiny.tokenizer_for("bert")
    tokenizer.model_max_length = 300
    attribute(Explainer(model, tokenizer, name="tiny"), rows, tmp_path / "out", keep="gold")
    summary = summarize(tmp_path / "out", gold="gold", min_texts=1)
    page = tmp_path / "page.html"
    code, _, err = run(capsys, "summarize", tmp_path / "out", "--gold", "gold", "--min-texts", 1, "--output", page)
    assert code == 0, err
    shown = page.read_text(encoding="utf-8")
    top, _, rest = shown[shown.index("In short") :].partition("</section>")
    assert f"Of 11 answers {summary.right.part} are right" in top
    assert "Of 11 texts the model answers" in top
    assert "The model does not know many words of 1 of 11 (9%) texts" in top
    assert "Right labels in rows, predictions in columns" in top
    wrong = rest[rest.index("Wrong answers") :]
    folded = wrong.index("<details>")
    assert "<summary>" in wrong[folded : folded + 40], "a long text is folded"


def test_a_word_is_one_in_whatever_way_it_is_written(tmp_path):
    explainer = Explainer.from_pretrained()
    ways = ["wonderful", "Wonderful", "wonder\u00adful", "ＷＯＮＤＥＲＦＵＬ"] * 3
    ways += ["don’t", "don't", "Ko\u0308ln", "köln"] * 3
    texts = [f"a film {number} {way}" for number, way in enumerate(ways)]
    attribute(explainer, [{"text": text} for text in texts], tmp_path / "run", Predictions(target="positive"))
    summary = summarize(tmp_path / "run", top=50, min_texts=1)
    units = {unit.text: unit.texts for unit in (*summary.highest, *summary.against) if unit.label == "positive"}
    assert set(units) <= {"a", "film", "wonderful", "don't", "köln", *map(str, range(len(texts)))}
    assert all(units.get(text, count) == count for text, count in {"wonderful": 12, "don't": 6, "köln": 6}.items())
    assert {"wonderful", "don't"} & set(units)


def test_a_wrong_answer_to_a_text_of_several_rows_is_listed_once(tmp_path):
    explainer = tiny.explainer("bert", num_labels=2)
    label = explainer("the movie is bad").prediction.id
    texts = ["the movie is bad"] * 3 + ["a film"]
    rows = [{"text": text, "stars": 4 + place % 2} for place, text in enumerate(texts)]
    attribute(explainer, rows, tmp_path, keep=["stars"])
    names = {4: f"LABEL_{1 - label}", 5: f"LABEL_{1 - label}"}  # two values of one label
    wrong = summarize(tmp_path, gold="stars", gold_labels=names).wrong
    repeated = next(answer for answer in wrong if answer.id == "0")
    assert repeated.rows == 3
    assert not {"1", "2"} & {answer.id for answer in wrong}
