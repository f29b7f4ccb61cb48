"""Pages and terminal drawings of generated text."""

import re

from normxlogit.render.builders.collection import blocks_of_attribution
from normxlogit.render.terminal import text_of_blocks
from tests.factories import make_generation


def test_context_is_shown_in_words_and_says_what_speaks_against():
    lines = str(g := make_generation()).splitlines()
    assert re.fullmatch(r"mat +50\.0%  cat's \+1\.00   the \+0\.50", next(x for x in lines if x.startswith("mat")))
    row = next(line for line in lines if line.startswith("is"))
    assert re.fullmatch(r"is +50\.0%  mat -3\.00 against it   cat's \+1\.00   the \+0\.25", row)
    content = g.to_html()
    assert "\x1b[" in text_of_blocks(blocks_of_attribution(g), color=True)
    assert "-3.00 against it</small>" in content
    assert "cat&#39;s</span> <small>+1.00</small>" in content


def test_parts_of_an_answer_stand_in_the_order_of_the_text():
    content = make_generation().sources("word", parts=[2, 0]).to_html()
    assert re.findall(r'data-part="(\d)"[^>]*>([^<]*)<', content) == [("1", "mat"), ("0", "red.")]
