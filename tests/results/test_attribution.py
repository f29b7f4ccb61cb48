from dataclasses import replace

import numpy as np
import pytest

from normxlogit import DataError
from normxlogit.results.attribution import Attribution
from normxlogit.results.layers import last_visible, representative_layer
from tests.factories import LABELS, all_labels, labels_and_layers, make_attribution, make_generation


def byte_level() -> Attribution:
    return make_attribution(
        (" The", " film", " is", " un", "watch", "able", "!"),
        (0.5, 0.0, 0.0, 1.0, -3.0, 0.5, 0.25),
        text=" The film is unwatchable!",
        special=False,
    )


@pytest.mark.parametrize(("merge", "score"), [("sum", -1.5), ("max", -3.0), ("mean", -0.5), ("first", 1.0)])
def test_words_merge(merge, score):
    words = byte_level().words(merge)
    word = words[3]
    assert [w.text for w in words] == ["The", "film", "is", "unwatchable", "!"], "without the space before them"
    assert replace(byte_level(), merge=merge).words()[3] == word
    assert (word.text, word.start, word.end) == ("unwatchable", 13, 24)
    assert word.score == pytest.approx(score)


def test_words_keep_the_other_axes():
    a = labels_and_layers()
    word = a.words("sum")[3]
    np.testing.assert_allclose(word.score, a.scores[..., 4] + a.scores[..., 5])
    assert word.score.shape == (2, 3)
    np.testing.assert_array_equal(a.words("max")[3].score, a.scores[..., 4])


def test_top_leaves_special_tokens_out_unless_asked():
    a = make_attribution()
    assert [(t.position, t.text) for t in a.top(2)] == [(9, "bad"), (4, "medi")]
    assert a.top(1)[0].score == pytest.approx(3.0)
    assert [t.text for t in a.top(3, special=True)] == ["[CLS]", "[SEP]", "bad"]
    assert len(a.top(100)) == 10


def test_one_label_or_layer_is_taken():
    a = labels_and_layers()
    label, layer = a["positive"], a.layer(2)
    assert a[1] == label
    assert (label.target.name, label.target.id) == ("positive", 1)
    assert (a.has_target_axis, label.has_target_axis, layer.has_target_axis, layer.layers) == (True, False, True, None)
    np.testing.assert_array_equal(label.scores, a.scores[1])
    np.testing.assert_array_equal(layer.scores, a.scores[:, 1])
    assert label.layer(2) == layer["positive"]
    assert [each.target.name for each in a] == [target.name for target in a.targets] == list(LABELS)


@pytest.mark.parametrize(
    ("plain", "layer"),
    [([0.9, 0.5, 0.2], 2), ([0.9, 0.5, 0.05], 1), ([0.05, 0.09, 0.01], 1), ([0.0, 0.0, 0.0], 0), ([0.1, 0.0], 0)],
)
def test_the_last_layer_whose_scores_are_not_nearly_all_of_special_tokens_stands_for_the_others(plain, layer):
    shares = np.array(plain)
    assert last_visible(10 * shares, np.full(len(plain), 10.0)) == layer
    scores = np.stack([make_attribution(("a",), (share,), text="a").scores for share in plain])
    scores[:, [0, -1]] = (1 - shares)[:, None] / 2
    layered = replace(make_attribution(("a",), (0.0,), text="a"), scores=scores, layers=tuple(range(len(plain))))
    assert representative_layer(layered) == layer


def test_a_result_without_layers_stands_for_itself():
    assert representative_layer(make_attribution()) == 0


def test_results_are_compared_by_all_they_hold_and_not_hashed():
    a = make_attribution()
    assert a == make_attribution()
    assert a != replace(a, scores=2 * a.scores)
    with pytest.raises(TypeError, match="unhashable"):
        hash(a)


def test_settings_and_diagnostics_are_what_files_hold():
    settings = {"samples": np.int64(3), "share": np.float32(0.5), "names": ["a", "b"]}
    a = make_attribution(settings=settings, diagnostics={"error": np.array([0.25, 0.5])})
    assert {name: type(value) for name, value in a.settings.items()} == {"samples": int, "share": float, "names": tuple}
    assert a.diagnostics == {"error": (0.25, 0.5)}
    assert Attribution.from_dict(a.to_dict()) == a


def test_shares_are_of_the_positive_scores_and_special_tokens_have_none():
    a = byte_level()
    words = a.words("sum")
    positive = [max(float(word.score), 0.0) for word in words]
    assert [word.share for word in words] == pytest.approx([score / sum(positive) for score in positive])
    assert any(word.score < 0 for word in words)
    with_specials = make_attribution()
    scores = np.where(with_specials.units.special, 0, np.maximum(with_specials.scores, 0))
    np.testing.assert_allclose(with_specials.shares, scores / scores.sum(), rtol=1e-6)
    layered = labels_and_layers()
    positive = np.where(layered.units.special, 0, np.maximum(layered.scores, 0))
    totals = positive.sum(-1, keepdims=True)
    np.testing.assert_allclose(layered.shares, positive / np.where(totals > 0, totals, 1), rtol=1e-6)
    nothing = make_attribution(scores=[-1.0] * 10)
    assert not nothing.shares.any()
    assert not any(word.share for word in nothing.words())


def test_a_generated_token_without_a_text_is_a_result_of_its_own():
    g = make_generation()
    first = replace(g, text=None, completion=None)[0]
    assert first.text is None
    assert first.tokens == g.tokens[: g.prompt_tokens]


def test_parts_of_an_answer_are_those_of_generated_tokens():
    g = make_generation()
    assert len(g.group_targets("word").targets) == 3
    for result in (g.whole(), all_labels()):
        with pytest.raises(DataError, match="this result explains none"):
            result.group_targets("word")
