"""What is derived from a result is computed once for a print, a page or a file."""

import sys
from collections import Counter
from dataclasses import replace
from functools import cached_property

import pytest

from normxlogit import Attributions
from normxlogit.render.layout import layout
from normxlogit.render.source_links import links_of
from normxlogit.results.attribution import Attribution
from normxlogit.results.storage.columns import result_row
from normxlogit.results.storage.tables import named_scores
from normxlogit.results.units.units import Units
from tests import tiny

DERIVING = [layout, links_of, named_scores, result_row, Attribution.words]
DERIVING += [
    value.func for kind in (Attribution, Units) for value in vars(kind).values() if isinstance(value, cached_property)
]


def most_often(call):
    """Return how often a call derives the same value of one result: the number and the name of the most frequent."""
    names, arguments, counts = {function.__code__: function.__qualname__ for function in DERIVING}, [], Counter()

    def count(frame, event, _):
        if event == "call" and frame.f_code in names:
            first = frame.f_locals[frame.f_code.co_varnames[0]]
            arguments.append(first)  # so that no other object gets its id
            counts[names[frame.f_code], id(first)] += 1

    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(None)
    return max(((number, name) for (name, _), number in counts.items()), default=(1, "nothing"))


def as_new(result):
    """Return a result from which nothing is derived yet."""
    if isinstance(result, Attributions):
        return Attributions(map(as_new, result))
    return replace(result, units=replace(result.units))


@pytest.fixture(scope="module")
def results():
    classifier, writer = tiny.explainer("bert"), tiny.writer()
    completed = writer.explain_completion("once upon a time . the cat sat .", "the cat sat . the dog ran .")
    return {
        "text": classifier("a great film with charm and wit .", verify=2),
        "methods": classifier.compare("a great film .", ["normxlogit", "occlusion"]),
        "generated": completed,
        "sources": completed.sources("sentence", "sentence"),
    }


@pytest.mark.parametrize("name", ["text", "methods", "generated", "sources"])
@pytest.mark.parametrize("export", [str, repr, lambda a: a.to_html(), lambda a: a.to_csv(), lambda a: a.to_latex()])
def test_a_derived_value_is_computed_once(results, name, export):
    result = as_new(results[name])
    number, derived = most_often(lambda: export(result))
    assert number == 1, derived


def test_a_saved_result_is_a_row_once(results, tmp_path):
    pytest.importorskip("pyarrow")
    result = as_new(results["text"])
    assert most_often(lambda: result.save(tmp_path / "a.parquet"))[0] == 1


def test_what_is_derived_cannot_be_changed_for_the_next_reader(results):
    shares = results["text"].shares
    with pytest.raises(ValueError, match="read-only"):
        shares[0] = 1
    assert results["text"].shares is shares
