"""Which sources have what a sentence states."""

import pytest

from normxlogit.grounding.comparing import nearest_source, stating_sources
from normxlogit.grounding.facts import ComparedText, facts_of

RETURNS = ("Refunds are possible within 30 days.", "Shipping is possible within 5 days.", "Anna Berg runs the shop.")
ORDER = ("Memory: order 538 ships on 2 May.", '"ships": "9 May"', '"order": 538')


@pytest.mark.parametrize(
    ("sources", "sentence", "first", "nearest", "stating"),
    [
        (RETURNS, "Refunds are possible within 30 days.", 0, 0, (0,)),
        (RETURNS, "Refunds are possible within 5 days.", 0, 0, None),  # the 5 is of shipping
        (RETURNS, "Shipping is possible within 5 days, says Anna Berg.", 1, 1, (1, 2)),
        (RETURNS, "Refunds take 30 days, and Shipping takes 5.", 0, 0, (0, 1)),
        (RETURNS, "Refunds are possible, says Peter.", 0, 0, None),
        (RETURNS, "Well, yes.", None, None, None),
        (ORDER, "Order 538 ships on 9 May.", 1, 0, (1,)),  # and not the memory
        (ORDER, "Order 538 ships on 9 May.", 0, 0, None),
        (ORDER, "Order 538 ships on 2 May.", 1, 0, (0,)),
    ],
)
def test_the_sources_that_have_the_numbers_and_names(sources, sentence, first, nearest, stating):
    facts = facts_of(
        sentence, (0, len(sentence)), [ComparedText(text) for text in sources], ComparedText("When does 538 ship?")
    )
    assert nearest_source(facts, len(sources)) == nearest
    assert stating_sources(facts, len(sources), first) == stating
