"""A completion is explained by the sources of its prompt, whole or in parts, at the least cost."""

import re

import numpy as np
import pytest

from normxlogit import Attributions, Explainer, InputError, MethodError
from tests import tiny
from tests.contract.cases import Case
from tests.contract.compare import nats, refused

PROMPT = "the cat sat on the mat . the movie is not good . a great film"
SENTENCES = ("the cat sat on the mat .", "the movie is not good .", "a great film")
SOURCES = {text: (PROMPT.index(text), PROMPT.index(text) + len(text)) for text in SENTENCES}
COMPLETION = " the plot is bad"


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def writer(request):
    return Explainer(tiny.model(request.param, "CausalLM"), tiny.tokenizer_for(request.param))


def test_sources_and_parts_are_sums_of_the_tokens_scores(writer):
    tokens = writer.explain_completion(PROMPT, COMPLETION)
    for parts in (None, "word", "sentence", "token", [0, 2], (0, 9)):
        direct = writer.explain_completion(PROMPT, COMPLETION, sources=SOURCES, parts=parts)
        summed = tokens.sources(SOURCES, parts)
        assert direct.targets == summed.targets
        assert direct.units.text == summed.units.text
        alone = writer.explain_completion(PROMPT, COMPLETION, parts=parts or "word")
        assert alone.diagnostics["backward_passes"] == len(alone.targets)
        for one, other in ((direct, summed), (alone, tokens.group_targets(parts or "word"))):
            np.testing.assert_allclose(one.scores, other.scores, atol=1e-4)
            np.testing.assert_allclose(one.bias, other.bias, atol=1e-4)
    whole = writer.explain_completion(PROMPT, COMPLETION, sources=SOURCES)
    assert whole.diagnostics["backward_passes"] == 1


def test_tokens_of_one_character_are_counted_once():
    """A space and the first byte of a character are a token, its other bytes are tokens, each a part."""
    parts = Case("qwen2", "CausalLM").explainer.explain_completion("the 天 is", " not 天 good", parts="token")
    assert parts.targets[2].span[1] == parts.targets[1].span[1]
    words = parts.group("word")
    np.testing.assert_allclose(words.scores.sum(-1), parts.scores.sum(-1), atol=1e-6)


def test_generated_answers_are_explained_by_parts(writer):
    tokens = writer.generate(PROMPT, max_new_tokens=6)
    result = writer.generate(PROMPT, max_new_tokens=6, parts="all")
    assert (len(result.targets), result.completion) == (1, tokens.completion)
    np.testing.assert_allclose(result.scores[0], tokens.scores.sum(0), atol=1e-5 * np.abs(tokens.scores).max() * 6)
    both = writer.generate([PROMPT, "the film"], max_new_tokens=6, parts=[0, -1])
    assert [len(each.targets) for each in both] == [2, 2]
    refused(InputError, "'all'", lambda: writer.generate(PROMPT, max_new_tokens=3, parts="letter"))


def test_a_completion_without_a_space_before_it_begins_a_word():
    writer = Explainer(tiny.model("llama", "CausalLM", vocab_size=100), tiny.letters())
    g = writer.explain_completion("the cat is", "Berlin", verify=20)
    assert [word.text for word in g.words() if word.text.strip()] == ["the", "cat", "is", "Berlin"]
    assert [text for text in g.group("word").units.text if text.strip()] == ["the", "cat", "is"]
    assert {unit for removal in g.verified.single for unit in removal.units} <= {"the", "cat", "is"}
    assert "is" in g.verified.together.units
    assert [target.name for target in g.group_targets("word").targets] == ["Berlin"]


@pytest.mark.parametrize(
    "options",
    [
        {"contrast": tiny.VOCABULARY["film"]},
        {"target": "film"},
        {"targets": ["film", "cat", "the", "bad"]},
        {"layers": [1]},
    ],
)
def test_another_target_a_contrast_and_layers_are_summed(writer, options):
    options = {**options, "method": "normxlogit"}
    direct = writer.explain_completion(PROMPT, COMPLETION, sources=SOURCES, parts="word", **options)
    tokens = writer.explain_completion(PROMPT, COMPLETION, **options)
    np.testing.assert_allclose(direct.scores, tokens.sources(SOURCES, "word").scores, atol=1e-5)
    if "layers" in options:
        assert direct.layers == (1,)
    message = "single layers" if "layers" in options else "knows no target"
    with pytest.raises(MethodError, match=message):
        writer.explain_completion(PROMPT, COMPLETION, sources=SOURCES, **{**options, "method": "occlusion"})


def test_several_prompts_are_each_as_alone(writer):
    prompts, completions = [PROMPT, "a bad film . the cat"], [COMPLETION, " sat on the mat"]
    many = writer.explain_completion(prompts, completions, sources="word", parts="token", verify=1)
    assert type(many) is Attributions
    spans = [{"x": (0, 7)}, {"y": (0, 10), "z": (13, 20)}]
    named = writer.explain_completion(prompts, completions, sources=spans)
    for i, (prompt, completion) in enumerate(zip(prompts, completions, strict=True)):
        alone = writer.explain_completion(prompt, completion, sources="word", parts="token", verify=1)
        np.testing.assert_allclose(many[i].scores, alone.scores, atol=1e-5)
        assert many[i].verified.single[0].units == alone.verified.single[0].units
        assert named[i].units.name[:-2] == tuple(spans[i])
    with pytest.raises(InputError, match="sources is a list with one for each"):
        writer.explain_completion(prompts, completions, sources=spans[0])


@pytest.mark.parametrize("method", ["frozen-gradient", "normxlogit", "occlusion"])
def test_verified_sources_are_what_the_own_model_loses_without_them(writer, method):
    a = writer.explain_completion(PROMPT, COMPLETION, sources=SOURCES, method=method, verify=2)
    verified, whole = a.verified, nats(writer, PROMPT, COMPLETION)
    assert verified.unit == "source"
    assert verified.original.value == pytest.approx(whole, abs=1e-4)
    assert [removal.units[0] for removal in verified.single] == [unit.text for unit in a.top(2)]
    for removal in (*verified.single, verified.together):
        left = " ".join(sentence for sentence in SENTENCES if sentence not in removal.units)
        assert removal.value == pytest.approx(nats(writer, left, COMPLETION), abs=1e-4)
        assert [a.units.text[i] for i in removal.tokens] == list(removal.units)
    assert "without it" in str(a)
    assert "Without the 2 sources" in a.to_html()
    assert type(a).from_dict(a.to_dict()) == a


def test_a_source_that_was_left_out_with_others_has_no_loss_of_its_own(writer):
    prompt = "The cat sat. The cat is good.\n\nThe movie is good."
    a = writer.explain_completion(prompt, COMPLETION, sources="sentence", verify="paragraph")
    first, second = a.verified.single
    by_size = sorted((first, second), key=lambda removal: len(removal.tokens))
    assert [len(removal.tokens) for removal in by_size] == [1, 2]
    (alone,) = by_size[0].tokens
    assert a.verified.loss(alone) == pytest.approx(a.verified.original.value - by_size[0].value)
    assert [a.verified.loss(unit) for unit in by_size[1].tokens] == [None, None]
    assert "paragraph" in str(a)


def test_what_has_no_sense_is_refused_in_a_line(writer):
    complete = writer.explain_completion
    refused(InputError, "sources are 'word'", lambda: complete(PROMPT, COMPLETION, sources="chapter"))
    refused(InputError, "parts of an answer are", lambda: complete(PROMPT, COMPLETION, parts="chapter"))
    lone = writer.explain_completion("the cat sat", COMPLETION, sources="sentence", verify=2)
    assert lone.verified is None
    assert "not verified" in lone.notes[-1]


def test_the_page_shows_the_prompt_between_its_sources(writer):
    first, between, last = SENTENCES
    a = writer.explain_completion(PROMPT, COMPLETION, sources={text: SOURCES[text] for text in (first, last)})
    page = " ".join(re.sub("<[^>]*>", " ", a.to_html()).split())
    assert between not in " ".join(a.unit_names)
    assert between in page


@pytest.mark.parametrize(("method", "passes"), [("normxlogit", 1), ("logat", 1), ("gradient-x-input", 4)])
def test_the_cost_is_one_pass_where_the_scores_of_a_token_are_its_own(writer, method, passes):
    if method == "gradient-x-input":
        pytest.importorskip("normxlogit.decompositions", reason="gradients are a wing's")
    for options in ({"sources": SOURCES}, {"parts": "all"}):
        a = writer.explain_completion(PROMPT, COMPLETION, method=method, **options)
        assert a.diagnostics == {"forward_passes": passes}
