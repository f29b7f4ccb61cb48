"""A sentence is supported where its source has each word that the model does not expect."""

import pytest

from normxlogit.grounding.facts import ComparedText, facts_of
from normxlogit.grounding.measured import Reading, WordReading
from normxlogit.grounding.verdicts import judgement_of

SOURCE = "Jonas Holm built the library there, and members get 10 percent on books."


def judged(sentence: str, *, nats: float = -0.5, question: str = "", **nats_of_words: float) -> str:
    """Return the verdict on a sentence whose words are as likely as named, and unlikely without the source."""
    words, start = [], 0
    for text in sentence.rstrip(".").split():
        start = sentence.index(text, start)
        words.append(WordReading(start, start + len(text), text, nats_of_words.get(text, nats), -12.0))
    facts = facts_of(sentence, (0, len(sentence)), [ComparedText(SOURCE)], ComparedText(question))
    return judgement_of(facts, Reading(tuple(words)), facts.nearest)


def test_a_word_that_surprises_stands_in_the_source():
    assert judged("Jonas Holm built the library.") == "supported"
    assert judged("Jonas Holm built the pool.", pool=-9.0) == "cannot tell"
    assert judged("Jonas Holm built the cathedral.", cathedral=-9.0) == "cannot tell"
    assert judged("Members get 10 percent on food.", food=-9.0) == "cannot tell"
    assert judged("Jonas Holm built the library.", library=-9.0) == "supported"
    assert judged("Jonas Holm built the pool.", question="Who built the pool?", pool=-9.0) == "supported"


@pytest.mark.parametrize("sentence", ["Then Jonas Holm built the library.", "It was Jonas Holm who built the library."])
def test_words_that_the_model_expects_may_be_others(sentence):
    assert judged(sentence) == "supported"
