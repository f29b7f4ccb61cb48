"""Batches that a model can take: padded where that changes nothing, smaller where memory runs out."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from normxlogit import Explainer
from normxlogit.errors import InputError
from normxlogit.inputs.encoding import Encoding
from normxlogit.models import map_batches as room
from normxlogit.models.map_batches import map_batches, run_batches
from normxlogit.models.proved_lengths import ProvedLengths
from normxlogit.models.token_budget import GROWS_AFTER, TokenBudget
from tests import tiny
from tests.architectures.base import build, stir

TEXTS = ["a great film with charm", "the movie is never bad , but the plot was awful !", "the cat sat on the mat"]
TEXTS += ["a great plot with charm", "it is a bad film and a good plot"]


def bert():
    return Explainer(tiny.model("bert"), tiny.tokenizer_for("bert"))


def groups(explainer, encodings, work=lambda places: places):
    return [places for places, _ in run_batches(explainer._model, encodings, work)]


@pytest.mark.parametrize(("family", "ignores"), [("fnet", False), ("funnel", False), ("bert", True)])
def test_scores_are_the_same_alone_and_among_others_even_if_padding_tells(family, ignores):
    model = build("sequence-classification", family)
    stir(model, 2.0)
    explainer = Explainer(model, tiny.tokenizer())
    together = explainer(TEXTS, target=1)
    assert explainer._model.copy.padding.refuted is not ignores
    for text, among in zip(TEXTS, together, strict=True):
        np.testing.assert_allclose(explainer(text, target=1).scores, among.scores, rtol=1e-4, atol=1e-5)


def test_what_padding_does_is_tried_with_the_shortest_and_the_longest_and_again_only_beyond_them():
    explainer = bert()
    explainer([TEXTS[0]] * 3)
    encodings = explainer.encode(TEXTS)
    lengths, proved = [len(e) for e in encodings], explainer._model.copy.padding
    assert not proved.cover(min(lengths), max(lengths)), "texts of one length say nothing"
    explainer(encodings)
    assert proved.cover(min(lengths), max(lengths))
    read, run = [], explainer._model.run
    explainer._model.run = lambda batch, **options: read.append(len(batch.encodings)) or run(batch, **options)
    explainer(encodings)
    explainer(encodings[:2])
    assert sum(read) == len(TEXTS) + 2, "nothing is tried again"
    explainer(["bad", TEXTS[1]])
    assert sum(read) == len(TEXTS) + 2 + 2 + (len(explainer.encode(["bad"])[0]) < min(lengths)) * 2
    explainer([TEXTS[0], TEXTS[1] + " " + TEXTS[2]])
    assert not proved.cover(min(lengths) - 1, max(lengths) + 9), "two ranges are not one"


def test_another_model_is_tried_anew():
    explainer = bert()
    explainer(TEXTS)
    explainer._model.caller_model.classifier = torch.nn.Linear(32, 2)
    explainer._model.refresh()
    assert not explainer._model.copy.padding.cover(4, 5)


def test_every_text_is_worked_on_once():
    explainer = bert()
    encodings = explainer.encode(TEXTS * 4)
    assert sorted(i for group in groups(explainer, encodings) for i in group) == list(range(len(encodings)))
    assert groups(explainer, []) == []


@pytest.mark.parametrize("method", ["normxlogit", "frozen-gradient", "lime:samples=8"])
@pytest.mark.parametrize("family", ["bart", "t5"])
def test_texts_that_the_model_refuses_to_read_together_are_read_one_by_one(family, method):
    explainer = Explainer(tiny.model(family), tiny.tokenizer())
    texts = ["good", "bad [SEP]", "a [SEP] film", "never"]  # these heads want as many end tokens in every text
    for text, among in zip(texts, explainer(texts, target=1, method=method), strict=True):
        alone = explainer(text, target=1, method=method)
        np.testing.assert_allclose(alone.scores, among.scores, rtol=1e-4, atol=1e-5)


def test_half_the_tokens_when_memory_runs_out():
    explainer = bert()
    encodings = explainer.encode([TEXTS[0]] * 8)
    tried = []

    def work(places):
        tried.append(len(places))
        if len(places) > 3:
            raise MemoryError
        return places

    assert sorted(i for group in groups(explainer, encodings, work) for i in group) == list(range(8))
    assert tried == [8, 4, 2, 2, 2, 2]
    assert explainer._model.budget.tokens == 2 * len(encodings[0])


def test_no_memory_for_one_text_and_other_errors():
    explainer = bert()
    encodings = explainer.encode(TEXTS[:1])

    def full(_):
        raise torch.OutOfMemoryError

    with pytest.raises(InputError, match="not enough memory to explain a single text of 7 tokens"):
        groups(explainer, encodings, full)

    def broken(_):
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        groups(explainer, encodings, broken)


# --- with a model that does nothing ---------------------------------------------------------------------------------


def encodings_of(*lengths):
    return [Encoding({"input_ids": [7] * n}, ("x",) * n, None, None, (0,) * n, (False,) * n) for n in lengths]


def idle(budget=12, padding=(1, 99), mixes=False):
    proved = ProvedLengths()
    proved.refuted = padding is False
    if isinstance(padding, tuple):
        proved.add(*padding)
    copy = SimpleNamespace(mixes_texts=mixes, padding=proved)
    return SimpleNamespace(budget=TokenBudget(budget), copy=copy, refresh=lambda: None)


@pytest.mark.parametrize(
    ("options", "share", "sizes"),
    [({}, 1, [3, 1]), ({}, 2, [1, 1, 1, 1]), ({"budget": 24}, 2, [3, 1]), ({"mixes": True}, 1, [1, 1, 1, 1])],
)
def test_a_batch_has_its_share_of_the_budget(options, share, sizes):
    found = [len(places) for places, _ in run_batches(idle(**options), encodings_of(4, 4, 4, 4), lambda _: 0, share)]
    assert found == sizes
    assert map_batches(idle(**options), encodings_of(4, 4, 4, 4), lambda p: [10 * i for i in p], share) == [
        0,
        10,
        20,
        30,
    ]


def test_a_share_is_one_if_nobody_says():
    assert len(list(run_batches(idle(), encodings_of(4, 4, 4), lambda _: 0))) == 1
    sizes = []
    map_batches(idle(), encodings_of(4, 4, 4), lambda places: sizes.append(len(places)) or places)
    assert sizes == [3]


@pytest.mark.parametrize(("padding", "groups"), [((1, 99), 1), ((3, 5), 1), (False, 3)])
def test_texts_of_several_lengths_go_together_where_padding_changes_nothing(padding, groups):
    assert len(list(run_batches(idle(99, padding), encodings_of(4, 5, 3), lambda _: 0))) == groups


@pytest.mark.parametrize(
    ("tried", "lengths", "trial"),
    [
        (None, (4,), None),
        (None, (4, 4, 4), None),
        (None, (4, 3), [3, 4]),
        ((3, 5), (5, 3, 4), None),
        ((3, 5), (6, 3), [3, 6]),
        ((3, 5), (2, 5), [2, 5]),
        ((3, 5), (9, 6), [6, 9]),
        ((3, 5), (2, 1), [1, 2]),
        (False, (2, 9), None),
    ],
)
def test_a_trial_is_made_for_lengths_beyond_those_that_were_tried(monkeypatch, tried, lengths, trial):
    for ignores in (True, False):
        model, seen = idle(99, tried), []
        monkeypatch.setattr(
            room,
            "_ignores_padding",
            lambda _, some, seen=seen, ignores=ignores: seen.append([len(e) for e in some]) or ignores,
        )
        groups = len(list(run_batches(model, encodings_of(*lengths), lambda _: 0)))
        assert seen == ([] if trial is None else [trial])
        apart = tried is False or (trial is not None and not ignores)
        assert groups == (len(lengths) if apart else 1)
        assert model.copy.padding.refuted is apart


def test_texts_that_cannot_be_read_together_keep_their_order():
    tried = []

    def work(places):
        tried.append(list(places))
        if len(places) > 1:
            raise InputError("no") from ValueError()
        return places

    model = idle()
    assert [places for places, _ in run_batches(model, encodings_of(4, 4, 4, 4), work)] == [[0], [1], [2], [3]]
    assert tried == [[0, 1, 2], [0], [1], [2], [3]]
    assert model.budget.tokens == 12
    for count, cause in ((1, ValueError()), (2, None)):

        def refused(_, cause=cause):
            raise InputError("no") from cause

        with pytest.raises(InputError, match="no"):
            list(run_batches(idle(), encodings_of(*[4] * count), refused))


@pytest.mark.parametrize(
    ("budget", "lengths", "fits", "left"),
    [(100, (4, 4, 4, 4), 2, 8), (12, (4, 4, 4), 2, 6), (7, (4, 4), 0, None), (1000, (4,), 0, None), (9, (4, 4), 1, 4)],
)
def test_the_budget_after_memory_ran_out(budget, lengths, fits, left):
    model = idle(budget)

    def work(places):
        if len(places) > fits:
            raise MemoryError
        return places

    if left is None:
        with pytest.raises(InputError, match="not enough memory to explain a single text of 4 tokens"):
            list(run_batches(model, encodings_of(*lengths), work))
        assert model.budget.tokens == budget, "it may fit another time"
        return
    found = [places for places, _ in run_batches(model, encodings_of(*lengths), work)]
    assert sorted(i for group in found for i in group) == list(range(len(lengths)))
    assert model.budget.tokens == left


def test_the_budget_grows_again_where_batches_fit():
    model, fits = idle(64), 1

    def work(places):
        if len(places) > fits:
            raise MemoryError
        return places

    def sizes(count):
        return [len(places) for places, _ in run_batches(model, encodings_of(*[4] * count), work)]

    assert sizes(8) == [1] * 8
    assert model.budget.tokens == 4
    fits = 99
    assert sizes(GROWS_AFTER - 9) == [1] * (GROWS_AFTER - 9)
    assert sizes(20) == [1, 2, 16, 1], "two together were what had failed last"
    assert model.budget.tokens == 64


def test_a_batch_that_failed_is_tried_again_after_many_others():
    model, tried = idle(64), []

    def work(places):
        tried.append(len(places))
        if len(places) > 1:
            raise MemoryError
        return places

    list(run_batches(model, encodings_of(*[4] * 3 * GROWS_AFTER), work))
    assert [size for size in tried if size > 1] == [16, 8, 4, 2, 2, 2]
    assert model.budget.tokens <= 8


def test_the_device_gives_back_what_it_kept_when_memory_ran_out(monkeypatch):
    emptied = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(1))
    for there in (True, False):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        with pytest.raises(InputError, match="not enough memory"):
            list(run_batches(idle(4), encodings_of(4), raising(MemoryError)))
        assert len(emptied) == 1


def raising(error):
    def work(_):
        raise error

    return work


def test_a_trial_without_memory_for_two_leaves_each_text_alone(monkeypatch):
    monkeypatch.setattr(room, "_ignores_padding", lambda *_: raising(MemoryError)(0))
    model = idle(99, None)
    assert [places for places, _ in run_batches(model, encodings_of(3, 4), lambda _: 0)] == [[1], [0]]
    assert not model.copy.padding.refuted, "it is tried again"
    assert not model.copy.padding.cover(3, 4)
