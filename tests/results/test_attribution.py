from dataclasses import replace

import numpy as np
import pytest

from normxlogit.errors import DataError
from normxlogit.results.attribution import Attribution
from tests.factories import LABELS, labels_and_layers, make_attribution, pair


def byte_level() -> Attribution:
    """Tokens as byte-level tokenizers cut them: the space belongs to the word behind it."""
    return make_attribution(
        (" The", " film", " is", " un", "watch", "able", "!"),
        (0.5, 0.0, 0.0, 1.0, -3.0, 0.5, 0.25),
        text=" The film is unwatchable!",
        special=False,
    )


@pytest.mark.parametrize(("merge", "score"), [("sum", -1.5), ("max", -3.0), ("mean", -0.5), ("first", 1.0)])
def test_words_merge(merge, score):
    word = byte_level().words(merge)[3]
    assert replace(byte_level(), merge=merge).words()[3] == word
    assert (word.text, word.start, word.end) == ("unwatchable", 13, 24)
    assert word.score == pytest.approx(score)


def test_words_of_byte_level_tokens_leave_the_space_out():
    assert [w.text for w in byte_level().words()] == ["The", "film", "is", "unwatchable", "!"]


def test_words_of_a_pair_know_their_text():
    a = pair()
    words = a.words()
    assert [(w.text, w.sequence) for w in words] == [
        *(("A", 0), ("man", 0), ("sleeps", 0), (".", 0)),
        *(("A", 1), ("man", 1), ("runs", 1), (".", 1)),
    ]
    for word in words:
        assert (a.text, a.text_pair)[word.sequence][word.start : word.end] == word.text
    assert words[6].score == pytest.approx(-2.0)


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
    assert a.has_target_axis
    label = a["positive"]
    assert (label.target.name, label.target.id) == ("positive", 1)
    assert not label.has_target_axis
    np.testing.assert_array_equal(label.scores, a.scores[1])
    assert a[1] == label
    layer = a.layer(2)
    assert layer.layers is None
    assert layer.has_target_axis
    np.testing.assert_array_equal(layer.scores, a.scores[:, 1])
    assert a["positive"].layer(2) == label.layer(2)
    assert [target.name for target in a.targets] == list(LABELS)
    assert [each.target.name for each in a] == list(LABELS)
    with pytest.raises(DataError, match="2 targets"):
        _ = a.target
