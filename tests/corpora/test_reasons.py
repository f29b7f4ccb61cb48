"""What turns answers by itself, against a model that is told to follow one word."""

import random
from html import unescape

import pytest
import torch

from normxlogit import Predictions, attribute, summarize
from normxlogit.corpora.pages.page import summary_page
from normxlogit.corpora.summaries.units import LONGER
from tests import tiny

from .corpora import explainer, rows_of

PLANT = "plot"
PAIR = ("plot", "film")


def texts(count):
    """Random words, so that none goes with another; the planted one stands in every third text."""
    draw = random.Random(0)
    words = [word for word in tiny.WORDS if word.isalpha() and word != PLANT]
    rows = [draw.choices(words, k=draw.randint(4, 8)) for _ in range(count)]
    return [" ".join([*row[:2], *([PLANT] if place % 3 == 0 else []), *row[2:]]) for place, row in enumerate(rows)]


def texts_of_any_length(count):
    draw = random.Random(0)
    words = [word for word in tiny.WORDS if word.isalpha()]
    return [" ".join(draw.choices(words, k=draw.randint(3, 30))) for _ in range(count)]


def has_word(text):
    return PLANT in text.split()


def is_long(text):
    return len(text.split()) > 14


def follower(rule=has_word, rows=texts, count=96):
    """Return a classifier that was trained to answer 1 by a rule, such as where a text has one word, else 0."""
    one = explainer(seed=0)
    torch.manual_seed(0)
    rows = rows(count)
    inputs = one.tokenizer(rows, padding=True, return_tensors="pt")
    labels = torch.tensor([int(rule(row)) for row in rows])  # (B,)
    optimizer = torch.optim.Adam(one.model.parameters(), 3e-3)
    for _ in range(100):
        one.model(**inputs, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return one


def texts_with_pairs(count):
    """Random words among which the two of a pair stand anywhere: none, one, the other, or both."""
    draw = random.Random(0)
    words = [word for word in tiny.WORDS if word.isalpha() and word not in PAIR]
    rows = []
    for number in range(count):
        row = draw.choices(words, k=8)
        places = sorted(draw.sample(range(8), 2))
        for bit, (place, word) in enumerate(zip(places, PAIR, strict=True)):
            if number >> bit & 1:
                row[place] = word
        rows.append(" ".join(row))
    return rows


def has_pair(text):
    return set(PAIR) <= set(text.split())


@pytest.mark.parametrize("split", [False, True])
def test_a_word_that_the_model_follows_is_the_first_that_decides(tmp_path, split):
    one = follower()
    rows = [{"tokens": text.split()} for text in texts(120)] if split else rows_of(texts(120))
    attribute(one, rows, tmp_path, Predictions(words=True), keep_text=True)
    summary = summarize(tmp_path, verify=5, explainer=one)
    first, label = summary.reasons[0], one.model.config.id2label[1]
    assert (first.words, first.label, first.decides) == ((PLANT,), label, True)
    assert first.answered > first.usual
    for reason in summary.reasons:
        assert reason.turned.low <= reason.turned.part / reason.turned.texts <= reason.turned.high
        assert reason.changed is None or reason.changed.texts <= 5
    shown = summary_page(summary)
    assert "Words that decide by themselves" in shown
    assert PLANT in shown
    assert summarize(tmp_path).reasons == []
    assert [reason.words for reason in summary.reasons if reason.decides] == [(PLANT,)]


def test_two_words_apart_that_the_model_follows_together_are_the_first_that_decide(tmp_path):
    """Neither of them turns answers by itself."""
    one = follower(has_pair, texts_with_pairs, 256)
    attribute(one, rows_of(texts_with_pairs(160)), tmp_path, Predictions(words=True), keep_text=True)
    summary = summarize(tmp_path, verify=5, explainer=one)
    first = summary.reasons[0]
    assert (first.words, first.label, first.decides) == (PAIR, one.model.config.id2label[1], True)
    assert first.texts == 40
    assert not any(reason.decides for reason in summary.reasons if len(reason.words) == 1)
    assert first.name == '"plot" + "film"'
    assert first.name in unescape(summary_page(summary))


def test_a_length_that_the_model_follows_is_the_first_that_decides(tmp_path):
    """Of texts that are short joined ones are long, and the model answers otherwise."""
    one = follower(is_long, texts_of_any_length)
    attribute(one, rows_of(texts_of_any_length(120)), tmp_path, Predictions(words=True))
    summary = summarize(tmp_path, verify=5, explainer=one)
    first = summary.reasons[0]
    assert (first.name, first.label, first.decides) == (LONGER, one.model.config.id2label[1], True)
    assert first.turned.texts > 30
    assert first.answered > 0.9
    assert [reason.label for reason in summary.reasons if not reason.words and reason.decides] == [first.label]
    assert LONGER in summary_page(summary)
