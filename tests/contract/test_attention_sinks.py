"""Attention sinks: states many times larger than the others are held, and what they contribute is told apart."""

import gc
from functools import partial

import numpy as np
import pytest
import torch

from normxlogit import ALL, Attribution, DataError, Explainer
from tests import tiny

from .compare import comes_back, refused, total

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
SINK, TEXT = "once", "once the movie is good"
PLAIN = "the movie is very good"


def with_sink(family="llama", kind="CausalLM", times=300.0, **options):
    """A model in which one word has a massive embedding."""
    model = tiny.model(family, kind, **options)
    model.get_input_embeddings().weight.data[tiny.VOCABULARY[SINK]].mul_(times)
    return Explainer(model, tiny.tokenizer_for(family)), model


def explained(model, a):
    """What a result's scores should add up to, by the caller's own model."""
    logits = model(torch.tensor([a.token_ids])).logits.detach()[0]
    first = a.targets[0]
    logits = logits[first.position] if logits.ndim > 1 and first.kind == "token" else logits
    value = logits[[target.id for target in a.targets]]
    return (value - logits.mean() if first.kind == "token" else value).numpy()


@pytest.mark.parametrize("settings", ["", ":read_at=0", ":read_at=middle", ":read_at=-1"])
def test_scores_sink_and_bias_are_the_answer(settings):
    explainer, model = with_sink()
    a = explainer(TEXT, method=f"frozen-gradient{settings}")
    assert a.sinks == (a.tokens.index(SINK),)
    assert abs(float(a.sink)) > 1e-3
    np.testing.assert_allclose(a.scores.sum() + a.sink + a.bias, explained(model, a)[0], **CLOSE)
    assert any("attention sink: 'once'" in note for note in a.notes)
    assert Attribution.from_dict(a.to_dict()) == a


def test_the_sink_is_what_its_token_had_where_it_is_one_and_the_others_keep_theirs():
    explainer, _ = with_sink()
    held = explainer(TEXT, method="frozen-gradient", layers=2)
    free = explainer(TEXT, method="frozen-gradient:sink_threshold=none", layers=2)
    place = held.sinks[0]
    others = [i for i in range(len(held)) if i != place]
    assert held.scores[0, place] == 0, "all that it has at a layer where it is a sink is the sink's"
    # From layer 2 on only the last layer reads it, once; what it has there is its part through that layer.
    np.testing.assert_allclose(held.sink, free.scores[:, place], **CLOSE)
    np.testing.assert_allclose(held.scores[:, others], free.scores[:, others], **CLOSE)
    assert (free.sink, free.sinks) == (None, ())


def test_a_call_keeps_nothing_of_its_graph():
    """Hooks that stay on a graph keep it: a corpus took more memory with each text."""
    explainer, _ = with_sink(num_hidden_layers=8)
    held = [tensors_alive() for _ in range(4) if explainer(TEXT).sinks]
    assert held[1:] == held[1:2] * 3


def tensors_alive():
    gc.collect()
    return sum(type(each) is torch.Tensor for each in gc.get_objects())


def has_the_same_sinks(a, b):
    np.testing.assert_allclose(a.scores, b.scores, **CLOSE)
    assert a.sinks == b.sinks
    assert (a.sink is None) == (b.sink is None)
    assert a.sink is None or a.sink == pytest.approx(b.sink, abs=1e-3)


def test_alone_equals_in_a_batch():
    explainer, _ = with_sink()
    for a in explainer([PLAIN, TEXT, "bad", f"{TEXT} and {PLAIN}"], method="frozen-gradient"):
        has_the_same_sinks(a, explainer(a.text, method="frozen-gradient"))


@pytest.mark.parametrize(("family", "kind", "text"), [("llama", "CausalLM", f"{PLAIN} {SINK}"), ("bert", None, SINK)])
def test_the_only_token_that_the_answer_is_read_from_is_never_held(family, kind, text):
    if kind:
        explainer, model = with_sink(family, kind)
    else:  # read from [CLS], which is made massive
        model = tiny.model(family)
        model.bert.encoder.layer[1].output.LayerNorm = Massive(model.bert.encoder.layer[1].output.LayerNorm)
        explainer = Explainer(model, tiny.tokenizer_for(family))
    a = explainer(text, method="frozen-gradient", target=7 if kind else 0)
    assert (a.sink, a.sinks) == (None, ())
    b = explainer(text, method="frozen-gradient:sink_threshold=none", target=7 if kind else 0)
    np.testing.assert_allclose(a.scores, b.scores, **CLOSE)
    np.testing.assert_allclose(a.scores.sum() + a.bias, explained(model, a)[0], **CLOSE)


class Massive(torch.nn.Module):
    """A norm after which one token is large, the first if no other is named, as it is without a norm."""

    def __init__(self, norm, place=0):
        super().__init__()
        self.norm, self.place = norm, place

    def forward(self, x):
        times = torch.ones(x.shape[1], 1)
        times[self.place : self.place + 1] = 50.0
        return self.norm(x) * times


@pytest.mark.parametrize("layers", [None, ALL])
def test_each_generated_token_adds_up(layers):
    explainer, model = with_sink()
    g = explainer.explain_completion(TEXT, " and bad once not", layers=layers)
    assert {g.tokens[i].strip() for i in g.sinks} == {SINK}
    assert g.bias.shape == g.sink.shape == g.scores.shape[:-1]
    logits = model(torch.tensor([g.token_ids])).logits.detach()[0]
    for row, target in enumerate(g.targets):
        wanted = (logits[target.position][target.id] - logits[target.position].mean()).item()
        np.testing.assert_allclose(total(g)[row], wanted, **CLOSE)
        assert set(g[row].sinks) <= set(g.sinks)
        np.testing.assert_allclose(total(g[row]), wanted, **CLOSE)
    assert Attribution.from_dict(g.to_dict()) == g


def test_a_generated_token_has_the_sinks_of_its_own_prompt():
    explainer, _ = with_sink()
    g = explainer.explain_completion(PLAIN, f" {SINK} bad {SINK} not")
    for one, target in zip(g, g.targets, strict=True):
        before = {"input_ids": torch.tensor([g.token_ids[: target.position + 1]])}
        has_the_same_sinks(one, explainer(before, target=target.id)[0])


def test_sources_add_up():
    explainer, _ = with_sink()
    prompt = "once the movie is good . the plot was bad ."
    direct = explainer.explain_completion(prompt, " and mediocre", sources="sentence")
    summed = explainer.explain_completion(prompt, " and mediocre").sources("sentence")
    for s in (direct, summed):
        assert s.sinks
        assert s.sink.shape == s.bias.shape
    state = direct.to_dict()
    assert Attribution.from_dict(state) == direct
    for damage in ({"sinks": []}, {"sinks": [-1]}):
        refused(DataError, "sink", partial(Attribution.from_dict, state | damage))
    np.testing.assert_allclose(total(direct).sum(), total(summed).sum(), rtol=1e-3, atol=1e-3)


def test_labels_layers_files_and_windows_keep_it(tmp_path):
    explainer, model = with_sink("llama", "SequenceClassification")
    a = explainer(TEXT, method="frozen-gradient", target=ALL, layers=ALL)
    assert a.sink.shape == a.bias.shape == (2, 3)
    logits = model(torch.tensor([a.token_ids])).logits.detach()[0].numpy()
    np.testing.assert_allclose(a.scores.sum(-1) + a.sink + a.bias, np.repeat(logits[:, None], 3, 1), **CLOSE)
    one = a[1].layer(2)
    assert float(one.sink) == a.sink[1, 1]
    comes_back(explainer([TEXT, PLAIN], method="frozen-gradient"), tmp_path)


def test_the_whole_of_a_windowed_text_says_which_of_its_tokens_are_sinks():
    model = tiny.model("bert", "TokenClassification", num_labels=3)
    model.bert.encoder.layer[1].output.LayerNorm = Massive(model.bert.encoder.layer[1].output.LayerNorm, place=4)
    tokenizer = tiny.tokenizer_for("bert")
    tokenizer.model_max_length = 12
    text = f"{PLAIN} and a cat sat on the mat and this was not bad but even the plot was great !"
    a = Explainer(model, tokenizer)(text, method="frozen-gradient", long_text="window", position=20)
    (sink,) = a.sinks
    assert a.tokens.index("but") == sink
    assert any("attention sink: 'but'" in note for note in a.notes)
