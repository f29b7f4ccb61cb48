"""Named words: the prompts, and what is counted as a person would count it."""

from benchmarks.named_words import RAREST, NamedPrompt, evaluate_named_words, named_words_table
from tests import tiny


def test_what_is_first_is_counted_by_hand():
    explainer = tiny.explainer("gpt2", "CausalLM")
    prompt = "the movie is bad and a cat"
    a = explainer(prompt, method="frozen-gradient")
    ranked = sorted((w for w in a.words() if len(a.tokens) - 1 not in w.tokens), key=lambda w: -w.score)
    names = [word.text for word in ranked]
    prompts = [NamedPrompt(prompt, (names[0],), None), NamedPrompt(prompt, (names[1],), names[0])]
    result, rarest = evaluate_named_words(explainer, prompts, ["frozen-gradient"])
    assert result.plain.tolist() == [[True, True]]
    assert result.distracted.tolist() == [[False, True]]
    assert result.fooled.tolist() == [True]
    assert rarest.method == RAREST
    assert "1.00 (1.00 to 1.00)" in named_words_table([result, rarest])
