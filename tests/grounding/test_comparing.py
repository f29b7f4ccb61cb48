"""Which source a sentence is compared with, and whether that one has what it states."""

import pytest

from normxlogit.grounding.facts import ComparedText, facts_of, words_not_in
from normxlogit.grounding.measured import Reading, WordReading
from normxlogit.grounding.verdicts import deciding_source, judgement_of

RETURNS = ("Refunds are possible within 30 days.", "Shipping is possible within 5 days.", "Anna Berg runs the shop.")
POOLS = ("Anna Berg built the pool.", "Jonas Holm built the library.", "No pool was built by Jonas Holm.")
BOOKING = ("The booking 4431 is for two persons at the hotel.", '"status": "confirmed"')
ORDER = ("Memory: order 538 ships on 2 May.", '"ships": "9 May"', '"order": 538')
UNITS = (
    "Each sachet contains 500 mg of salt.",
    "The whole cable costs €40.",
    "The results are sent within 3 days.",
    "Hold the START button for 5 s.",
    "Some versions of 3.11.2 are needed.",
    "The child has one brother.",
)
LIKELIER = Reading((WordReading(0, 1, "", -1.0, -10.0),))


@pytest.mark.parametrize(
    ("sources", "sentence", "nearest", "is_supported"),
    [
        (RETURNS, "All refunds are possible within 30 days.", 0, True),
        (RETURNS, "All refunds are possible within 5 days.", 0, False),  # the 5 is of shipping
        (RETURNS, "Shipping is possible within 5 days, says Anna Berg.", 1, False),  # no source has all of it
        (RETURNS, "All refunds are not possible within 30 days.", 0, False),
        (("Dogs are not allowed, though cats are.",), "Dogs are allowed.", 0, False),
        (("Dogs are not allowed, though cats are.",), "Dogs aren’t allowed.", 0, False),
        (("Dogs are not allowed, though cats are.",), "Cats and no dogs are allowed.", 0, True),
        (RETURNS, "Refunds are possible, says Peter.", 0, False),
        (RETURNS, "Well, yes.", None, False),
        (POOLS, "So Jonas Holm built the library in 1974.", 1, False),
        (POOLS, "So Jonas Holm built the library.", 1, True),
        (ORDER, "So order 538 ships, on 2 May.", 0, True),
        (BOOKING, "The booking 4431 for two persons at the hotel is confirmed.", 0, False),  # by another source
        (BOOKING[:1], "The booking 4431 for two persons at the hotel is noted.", 0, True),
        (BOOKING[:1], "The booking 4431 for three persons at the hotel is noted.", 0, False),
        (UNITS, "So each sachet contains 500 mg of salt.", 0, True),
        (UNITS, "So each sachet contains 500 g of salt.", 0, False),
        (UNITS, "So the whole cable costs €40.", 1, True),
        (UNITS, "So the whole cable costs 40 euros.", 1, True),
        (UNITS, "So the whole cable costs $40.", 1, False),
        (UNITS, "So the results are sent within 3 days.", 2, True),
        (UNITS, "So the results are sent within 3 weeks.", 2, False),
        (UNITS, "The START button is held for five seconds.", 3, False),  # "s" may be many things
        (UNITS, "So some versions of 3.11.2 are needed.", 4, True),
        (UNITS, "So some versions of 3.11.3 are needed.", 4, False),
        (UNITS, "So some versions, 11 of them, are needed.", 4, False),
        (UNITS, "So the child has one brother.", 5, True),
        (UNITS, "So the child has two brothers.", 5, False),
        (UNITS, "So the results are sent within three weeks.", 2, False),
    ],
)
def test_the_nearest_source_has_what_a_sentence_states(sources, sentence, nearest, is_supported):
    facts = facts_of(
        sentence, (0, len(sentence)), [ComparedText(text) for text in sources], ComparedText("When does 538 ship?")
    )
    assert facts.nearest == nearest
    assert (judgement_of(facts, LIKELIER, deciding_source(facts, None)) == "supported") == is_supported


@pytest.mark.parametrize(("first", "is_supported"), [(0, False), (1, True), (2, False), (None, False)])
def test_a_source_that_was_measured_first_may_have_the_number_that_the_nearest_one_lacks(first, is_supported):
    sentence = "Order 538 ships on 9 May."  # and not the memory's 2 May
    asked = ComparedText("When does order 538 ship?")
    facts = facts_of(sentence, (0, len(sentence)), [ComparedText(text) for text in ORDER], asked)
    assert facts.nearest == 0
    assert (judgement_of(facts, LIKELIER, deciding_source(facts, first)) == "supported") == is_supported


def test_escapes_of_json_are_what_they_stand_for():
    source, sentence = r'"to": "M\u00fcnchen Hbf\nGleis 7"', "Nach München Hbf, Gleis 9."
    text = source + sentence
    spans = (0, len(source)), (len(source), len(text))
    assert [text[slice(*span)] for span in words_not_in(text, *reversed(spans))] == ["Nach", "9"]
    assert [text[slice(*span)] for span in words_not_in(text, *spans)] == ["to", "7"]
