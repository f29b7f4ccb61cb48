import numpy as np
import pytest

from normxlogit import Explainer, InputError
from normxlogit.model.batch_attempts import batch_attempts
from normxlogit.model.causality import is_causal
from tests import tiny

TEXTS = ["a great film with charm", "the movie is never bad , but the plot was awful !", "the cat sat on the mat"]


def test_what_padding_does_is_tried_with_the_shortest_and_the_longest_and_again_only_beyond_them():
    explainer = tiny.explainer("bert")
    explainer([TEXTS[0]] * 3, method="normxlogit")
    encodings = explainer.encode(TEXTS)
    lengths, proved = [len(e) for e in encodings], explainer._model.copy.padding
    assert not proved.covers(min(lengths), max(lengths)), "texts of one length say nothing"
    explainer(encodings, method="normxlogit")
    assert proved.covers(min(lengths), max(lengths))
    read, run = [], explainer._model.run
    explainer._model.run = lambda batch, **options: read.append(len(batch.encodings)) or run(batch, **options)
    explainer(encodings, method="normxlogit")
    explainer(encodings[:2], method="normxlogit")
    assert sum(read) == len(TEXTS) + 2, "nothing is tried again"
    explainer(["bad", TEXTS[1]], method="normxlogit")
    assert sum(read) == len(TEXTS) + 2 + 2 + (len(explainer.encode(["bad"])[0]) < min(lengths)) * 2
    explainer([TEXTS[0], TEXTS[1] + " " + TEXTS[2]], method="normxlogit")
    assert not proved.covers(min(lengths) - 1, max(lengths) + 9), "two ranges are not one"


@pytest.mark.parametrize("method", ["normxlogit", "frozen-gradient", "lime:samples=8"])
@pytest.mark.parametrize("family", ["bart", "t5"])
def test_texts_that_the_model_refuses_to_read_together_are_read_one_by_one(family, method):
    explainer = Explainer(tiny.model(family), tiny.tokenizer())
    texts = ["good", "bad [SEP]", "a [SEP] film", "never"]  # these heads want as many end tokens in every text
    for text, among in zip(texts, explainer(texts, target=1, method=method), strict=True):
        alone = explainer(text, target=1, method=method)
        np.testing.assert_allclose(alone.scores, among.scores, rtol=1e-4, atol=1e-5)


def test_half_the_tokens_when_memory_runs_out():
    explainer = tiny.explainer("bert")
    encodings = explainer.encode([TEXTS[0]] * 8)
    tried, done = [], []
    for attempt in batch_attempts(explainer._model, encodings):
        with attempt as places:
            tried.append(len(places))
            if len(places) > 3:
                raise MemoryError
            done += places
    assert sorted(done) == list(range(8))
    assert tried == [8, 4, 2, 2, 2, 2]
    assert explainer._model.batch_tokens == 2 * len(encodings[0])


def test_a_text_alone_is_tried_with_ever_fewer_tokens_until_only_the_text_fits():
    explainer = tiny.explainer("bert")
    model, encodings = explainer._model, explainer.encode(TEXTS[:1])
    before, allowed = model.batch_tokens, []

    def run_out_of_memory():
        for attempt in batch_attempts(model, encodings):
            with attempt:
                allowed.append(model.batch_tokens)
                raise MemoryError

    with pytest.raises(InputError, match="not enough memory"):
        run_out_of_memory()
    halves = [before // 2**n for n in range(len(allowed) - 1)]
    assert allowed == [*halves, len(encodings[0])]
    assert len(allowed) > 3
    assert model.batch_tokens == before, "the next text is tried as this one was"


@pytest.mark.parametrize(
    ("family", "kind", "length", "expected"),
    [("llama", "CausalLM", 12, True), ("llama", "CausalLM", 40, True), ("bert", "MaskedLM", 40, False)],
)
def test_whether_later_tokens_change_earlier_states(family, kind, length, expected):
    """Also of texts as long as the model reads, whose lengths cannot be tried by a longer one."""
    task, _, run = tiny.task_run(family, kind, [" ".join(["[MASK]", *["a cat is not"] * 10][: length // 4 + 1])])
    for _ in range(2):
        assert is_causal(task, run, 3) is expected
    assert is_causal(task, run, run.batch.mask.shape[1]), "nothing is later"
