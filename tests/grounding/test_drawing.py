"""The page of a conversation: a chat in its order, folded to what the answer rests on."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from normxlogit.grounding import Citations
from tests import tiny

HOSTILE = "</div><script>alert(1)</script>"
FIELDS = {f"key {i}": "the cat is here and the keys are there ." for i in range(12)}


@cache
def reader():
    return tiny.writer(length=900, template=tiny.CHAT_TEMPLATE)


def conversation(turns: int = 1, text: str = "the movie is good ."):
    before = [{"role": role, "content": text} for _ in range(turns) for role in ("user", "assistant")]
    return [
        {"role": "system", "content": "Be short."},
        *before,
        {"role": "user", "content": "Is the cat here?"},
        {"role": "tool", "name": "search", "content": json.dumps(FIELDS)},
        {"role": "assistant", "content": "The cat is here. The keys are there."},
    ]


def cited(sources=(), **options) -> Citations:
    """Return a cited answer, each of whose sentences rests on some sources only."""
    result = reader().cite(messages=conversation(**options), verify=0)
    a = result.attribution
    scores = np.zeros_like(a.scores)
    for name in sources:
        scores[:, a.units.name.index(name)] = 1.0
    return replace(result, attribution=replace(a, scores=scores), weighted_scores=None)


def turns(page: str) -> list[str]:
    """Return what each message of a page begins with."""
    return [part.partition("</p>")[0].partition(">")[2] for part in page.split('<p class="nxl-who"')[1:]]


def test_messages_stand_in_their_order_with_their_shares():
    page = cited(["user:1", "tool result search:key 7"]).to_html()
    names = ["system", "user", "assistant", "user (2)", "tool result search", "answer"]
    shares = ["0%", "50%", "0%", None, "50%", None]  # the question is no source
    wanted = [n if s is None else f'{n} <span class="nxl-share">{s}</span>' for n, s in zip(names, shares, strict=True)]
    assert turns(page) == wanted


@pytest.mark.parametrize("notebook", [False, True])
def test_long_results_are_folded_to_what_matters(notebook):
    result = cited(["tool result search:key 7"])
    page = result._repr_html_() if notebook else result.to_html()
    said = page.partition("tool result search")[2].partition('nxl-turn-answer"')[0]
    parts = said.split("<details")
    assert len(parts) == 3  # before it and after it
    assert "key 0" in parts[0]
    assert "key 7" not in parts[0]
    folded, shown = parts[1].split("</details>")
    assert all(f"key {i}" in folded for i in range(1, 7))
    assert "key 7" in shown
    assert "[1]" in shown
    assert "key 8" in parts[2]
    assert "more characters" in parts[2]


def test_hostile_messages_stay_texts_and_a_terminal_shows_the_answer_alone():
    result = cited(text=HOSTILE)
    assert HOSTILE not in result.to_html()
    assert "The cat is here." in str(result)
    assert "alert" not in str(result).partition("Sources")[0]
