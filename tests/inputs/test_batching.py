"""Groups of encodings."""

from normxlogit import Explainer
from normxlogit.inputs.batching import batches
from tests import tiny

TEXTS = ["a great film with charm", "the movie is never bad , but the plot was awful !", "the cat sat on the mat"]
TEXTS += ["a great plot with charm", "it is a bad film and a good plot"]


def test_lengths_do_not_mix_where_they_must_not():
    explainer = Explainer(tiny.model("bert"), tiny.tokenizer_for("bert"))
    encodings = explainer.encode(TEXTS * 3)
    groups = list(batches(encodings, 8192, pad=False))
    assert sorted(i for group in groups for i in group) == list(range(len(encodings)))
    lengths = [{len(encodings[i]) for i in group} for group in groups]
    assert all(len(own) == 1 for own in lengths)
    assert len(groups) == len(set.union(*lengths)), "texts of one length stay together"
