"""The heading of a page, and its table of several results."""

import re

import pytest

from normxlogit import Attributions
from normxlogit.render.cards import results_page
from normxlogit.results import Prediction
from tests.factories import make_attribution, make_generation

TWO = make_attribution(("Bad", "film"), (2.0, 1.0), text="Bad film")


@pytest.mark.parametrize(
    ("results", "title"),
    [
        ([make_attribution()], "What the answer rests on"),
        ([make_attribution(), TWO], "What the answer rests on"),
        ([make_attribution(method="a"), make_attribution(method="b")], "2 methods on one text"),
        ([make_generation()], "Generated text and what it rests on"),
        ([make_attribution(), make_generation()], "Results"),
    ],
)
def test_a_page_is_headed_by_what_it_shows(results, title):
    assert f"<title>{title}</title>" in results_page(Attributions(results))
    assert "<title>Mine</title>" in results_page(Attributions(results), title="Mine")


@pytest.mark.parametrize(
    ("probabilities", "heading"),
    [((0.7, 0.6), ">probability<"), ((0.7, None), ">probability or value<"), ((None, None), ">negative<")],
)
def test_the_table_of_texts_says_what_its_numbers_are(probabilities, heading):
    predictions = [Prediction("negative", 0, 1.5, probability) for probability in probabilities]
    page = results_page(Attributions(make_attribution(prediction=prediction) for prediction in predictions))
    headings = re.findall("<th[^>]*>.*?</th>", page, re.DOTALL)
    assert sum(heading in each for each in headings) == 1


def test_the_table_of_texts_is_sorted_and_goes_into_a_narrow_page():
    page = results_page(Attributions([make_attribution(), TWO]))
    (classes,) = re.findall(r'<table[^>]*class="([^"]*)"[^>]*>(?:(?!</table>).)*>rests on<', page, re.DOTALL)
    assert {"nxl-sort", "nxl-stacked"} <= set(classes.split())
