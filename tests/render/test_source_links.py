"""What a page's script knows of an answer that rests on its earlier parts."""

from normxlogit import Explainer
from normxlogit.render.source_links import links_of
from tests import tiny


def test_a_part_of_an_answer_has_shares_of_earlier_parts_alone():
    explainer = Explainer(tiny.model("llama", "CausalLM"), tiny.tokenizer_for("llama"))
    a = explainer.explain_completion(
        "the cat sat", " A good film. It was bad. So it is.", parts="sentence", sources="word", reasoning=[(0, 25)]
    )
    parts = len(a.earlier_parts)
    rows = [row[-parts:] for row in links_of(a).data["shares"]]
    assert parts > 1
    for number, row in enumerate(rows):
        read = min(number, parts)
        assert all(0 <= share <= 1 for share in row[:read])
        assert row[read:] == [None] * (parts - read)
