"""What would happen without X: words, spans, paragraphs and sources that a caller names, and texts read in windows."""

import itertools
from functools import partial

import numpy as np
import pytest
import torch

from normxlogit import Explainer, InputError
from tests import tiny
from tests.contract.cases import Case
from tests.contract.compare import nats_of, refused

TEXT = "the movie is bad , maybe even bad but not boring"
PROMPT, COMPLETION = "the movie is good and the plot is bad", " never seen"
SOURCES = {"first": (0, 17), "second": (18, 37)}


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    return Explainer.from_pretrained()


def own(explainer: Explainer, ids: list[int]) -> torch.Tensor:
    return tiny.logits_of(explainer.model, ids).softmax(-1)


def counted(explainer: Explainer) -> list[int]:
    """Count the texts of more than one token that the model of a new explainer reads, batch by batch."""
    rows = []

    def count(_module: object, _args: object, kwargs: dict[str, torch.Tensor]) -> None:
        rows.append(len(kwargs["input_ids"]) * (kwargs["input_ids"].shape[1] > 1))

    explainer.task_model.module.register_forward_pre_hook(count, with_kwargs=True)
    return rows


def test_words_are_removed_wherever_they_stand_and_the_answer_is_printed_as_a_sentence(explainer: Explainer) -> None:
    removal = explainer.without(TEXT, ["bad", "not boring"])
    kept = explainer.tokenizer("the movie is , maybe even but")["input_ids"]
    probabilities = own(explainer, kept)
    assert removal.units == ("bad", "not boring")
    assert removal.value == pytest.approx(float(probabilities[explainer(TEXT).prediction.id]), abs=1e-5)
    assert removal.prediction.id == int(probabilities.argmax())
    assert removal.changed == (removal.prediction.label != explainer(TEXT).prediction.label)
    share = f"{100 * removal.prediction.probability:.1f}%"
    assert str(removal) == f'Without "bad" and "not boring": {removal.prediction.label}, {share}.'
    verified = explainer(TEXT, verify=["bad", "even"])
    assert str(verified.verified) in " ".join(str(verified).split())


@pytest.mark.parametrize("span", [(4, 9), (13, 30)])
def test_spans_are_characters(explainer: Explainer, span: tuple[int, int]) -> None:
    kept = explainer.tokenizer(TEXT[: span[0]] + TEXT[span[1] :])["input_ids"]
    expected = float(own(explainer, kept)[explainer(TEXT).prediction.id])
    removal = explainer.without(TEXT, span)
    assert removal.units == (TEXT[slice(*span)].strip(),)
    assert removal.value == pytest.approx(expected, abs=1e-5)
    named = explainer(TEXT, verify={"what": span}).verified
    assert (named.single[0].units, named.single[0].value) == (("what",), removal.value)


def test_the_callers_units_are_removed_in_their_order_and_others_are_the_control(explainer: Explainer) -> None:
    verified = explainer(TEXT, verify=["boring", "movie"]).verified
    assert [removal.units for removal in verified.single] == [("boring",), ("movie",)]
    assert set(verified.control.tokens).isdisjoint(verified.together.tokens)
    text = "It is mediocre, maybe even bad."
    assert 'Without "maybe" and "even": still' in str(explainer(text, verify=["even", "maybe"]))


def test_every_paragraph_is_left_out_and_the_one_that_decides_is_found(explainer: Explainer) -> None:
    paragraphs = ["I liked the story.", "It is a dull and terrible waste of time.", "The actors are fine."]
    a = explainer("\n\n".join(paragraphs), verify="paragraph")
    by_text = {removal.units[0]: removal for removal in a.verified.single}
    assert set(by_text) == set(paragraphs)
    for paragraph in paragraphs:
        left = " ".join(other for other in paragraphs if other != paragraph)
        expected = own(explainer, explainer.tokenizer(left)["input_ids"])[a.target.id]
        assert by_text[paragraph].value == pytest.approx(float(expected), abs=1e-5)
    assert a.verified.smallest.units == (paragraphs[1],)
    assert paragraphs[1] in str(a)


def test_no_two_words_are_missed_that_change_the_answer_together(explainer: Explainer) -> None:
    some_pair, texts = 0, ["a thoughtful , well acted and moving film about a family that has lost everything"]
    texts += ["the script is weak but the acting and the music are wonderful"]
    texts += ["an uneven film with a few fine moments and a strong lead"]
    for text in texts:
        a = explainer(text, verify="auto")
        words = sorted(a.words(), key=lambda word: -word.score)[:20]
        sets = [s for size in (1, 2) for s in itertools.combinations(words, size)]
        kept = ([i for p, i in enumerate(a.token_ids) if not any(p in word.tokens for word in s)] for s in sets)
        answers = (int(own(explainer, ids).argmax()) for ids in kept)
        least = next((len(s) for s, answer in zip(sets, answers, strict=True) if answer != a.prediction.id), None)
        some_pair += least == 2
        assert least is None or len(a.verified.smallest.units) == least
    assert some_pair


def test_what_is_not_there_or_one_word_alone_is_an_error_that_names_what_is_meant(explainer: Explainer) -> None:
    for units, problem in (
        ("borin", "did you mean 'boring'"),
        (["ba"], "'bad'"),
        ((3, 900), "not a span"),
        ([3], "a span is"),
        ([], "empty"),
    ):
        refused(InputError, problem, partial(explainer.without, TEXT, units))
    refused(InputError, r"verify=\['bad'\]", lambda: explainer(TEXT, verify="bad"))
    refused(InputError, "nothing is scored", lambda: explainer.without(TEXT, "bad", method="occlusion"))
    refused(InputError, "one input", lambda: explainer.without([TEXT, TEXT], "bad"))


def test_the_masked_word_that_is_predicted_cannot_be_left_out() -> None:
    text, explainer = "the movie is [MASK] but good", Case("bert", "MaskedLM").explainer
    refused(InputError, "cannot be left out", lambda: explainer.without(text, "[MASK]"))
    assert explainer.without(text, "good").units == ("good",)


def test_a_completion_without_words_and_without_sources() -> None:
    case = Case("llama", "CausalLM")
    g = case.explainer.explain_completion(PROMPT, COMPLETION)
    without = partial(case.explainer.without, PROMPT, completion=COMPLETION)

    def nats(tokens: set[int]) -> float:
        ids = [i for place, i in enumerate(g.token_ids) if place not in tokens]
        return nats_of(case.model, ids, len(g.token_ids) - g.prompt_tokens)

    removal = without(["plot", (0, 9)])
    assert removal.units == ("the movie", "plot")
    assert removal.value == pytest.approx(nats(set(removal.tokens)), abs=1e-4)
    of_source = without("second", sources=SOURCES)
    tokens = {i for i in range(g.prompt_tokens) if g.offsets[i][1] > 18 and not g.units.special[i]}
    assert of_source.value == pytest.approx(nats(tokens), abs=1e-4)
    refused(InputError, "did you mean 'second'", lambda: without("secnd", sources=SOURCES))
    refused(InputError, "would divide", lambda: without((0, 9), sources=SOURCES))  # a source is left out whole or not
    assert without((0, 17), sources=SOURCES).value == pytest.approx(without("first", sources=SOURCES).value, abs=1e-6)
    nothing_left = "nothing of the prompt is left"
    refused(InputError, nothing_left, lambda: case.explainer.without("good movie", ["good", "movie"], completion=" x"))


def test_of_a_large_set_many_words_are_put_back_at_once() -> None:
    explainer = Explainer.from_pretrained()
    text = "An awful, boring, stupid and pointless waste of time."
    text += " A dull and silly story, and a bad, lame, ugly, tired, clumsy mess of a film."
    rows = counted(explainer)
    verified = explainer(text, verify=20).verified
    assert verified.smallest is not None
    assert len(verified.smallest.units) > 8
    assert sum(rows) < 3 * len(text.split()) + 20  # each alone, each back, and some tries


def test_a_text_in_windows_loses_the_word_in_each_window_that_holds_it_and_no_other_is_read_again() -> None:
    model, tokenizer = tiny.model("bert", max_position_embeddings=24), tiny.tokenizer_for("bert")
    explainer = Explainer(model, tokenizer)
    words = ["good", "movie", "bad", "plot", "cat", "sat", "maybe", "never"]
    text = " ".join(np.random.default_rng(0).choice(words, 100))
    counts, rows = [], counted(explainer)
    a = explainer(text, long_text="window", verify=2)  # other lengths are tried at first
    for verify in (0, 2):
        rows.clear()
        explainer(text, long_text="window", verify=verify)
        counts.append(sum(rows))
    assert not any("not verified" in note for note in a.notes)
    room, ids = 22, list(a.token_ids)
    starts = [*range(0, 100 - room, room - room // 4), 100 - room]
    windows = [[0, *range(1 + start, 1 + start + room), 101] for start in starts]
    for removal in (a.verified.original, *a.verified.single, a.verified.together, a.verified.control):
        logits = [tiny.logits_of(model, [ids[i] for i in w if i not in removal.tokens]) for w in windows]
        mean = torch.stack(logits).mean(0)
        assert removal.value == pytest.approx(float(mean.softmax(-1)[a.target.id]), abs=1e-5)
        assert removal.prediction.id == int(mean.argmax())
    held = sum(len(set(r.tokens) & set(w)) > 0 for r in (*a.verified.single, a.verified.together) for w in windows)
    held += sum(len(set(a.verified.control.tokens) & set(w)) > 0 for w in windows)
    assert counts[1] - counts[0] == len(windows) + held
    assert set(a.verified.single[0].tokens) <= set(range(1, 101))


@pytest.mark.parametrize("head", ["TokenClassification", "QuestionAnswering", "CausalLM"])
def test_heads_that_answer_at_a_token_are_verified_in_the_window_that_answered(head: str) -> None:
    family = "llama" if head == "CausalLM" else "bert"
    explainer = Explainer(tiny.model(family, head, max_position_embeddings=24), tiny.tokenizer_for(family))
    text = " ".join(np.random.default_rng(1).choice(["good", "movie", "bad", "plot", "cat", "sat"], 60))
    a = explainer(("good movie", text) if head == "QuestionAnswering" else text, long_text="window", verify=2)
    assert a.verified.original.prediction.label == a.prediction.label
    assert a.verified.original.prediction.value == pytest.approx(a.prediction.value, abs=1e-5)
    assert len(a.verified.single) == 2


def test_what_is_measured_is_printed_in_words(explainer: Explainer) -> None:
    language_model = Case("llama", "CausalLM").explainer
    removal = language_model.without(PROMPT, "second", completion=COMPLETION, sources=SOURCES)
    verified = language_model.explain_completion(PROMPT, COMPLETION, verify=1).verified
    assert removal.original == pytest.approx(verified.original.value)
    times = np.exp(removal.original - removal.value)
    shown = f"{times:.1f} times less likely" if times > 1.05 else f"{1 / times:.1f} times likelier"
    assert str(removal) == f'Without "second": {shown if abs(times - 1) > 0.05 else "as likely"}.'
    values = Case("bert", "SequenceClassification", regression=True)
    rated = values.explainer.without("the movie is good", "good")
    assert str(rated).endswith(f"{rated.value:.4g} ({rated.original:.3g} with all).")


def test_words_of_the_answer_are_not_words_of_the_prompt() -> None:
    writer = tiny.explainer("llama", "CausalLM")
    prompt, answer = "the movie is", " good and bad"
    for word in ("good", "bad"):
        refused(InputError, word, lambda word=word: writer.explain_completion(prompt, answer, verify=[word]))
    last = writer.explain_completion(prompt, answer, verify=["is"]).verified.single[0]
    assert last.units == ("is",)


@pytest.mark.parametrize("others", [("good", "bad"), ("bad", "good")])
def test_the_probability_of_what_is_explained_is_printed_beside_another_prediction(others) -> None:
    """Whichever of the two labels comes first in the alphabet."""
    model = tiny.model("bert", id2label=dict(enumerate(others)))
    explainer = Explainer(model, tiny.tokenizer_for("bert"))
    a = explainer("the movie is not good", verify=2)
    rest = next(name for name in others if name != a.prediction.label)
    of_other = explainer("the movie is not good", target=rest, verify=2)
    assert all(f"({rest}: {100 * r.value:.1f}%)" in str(of_other) for r in of_other.verified.single)
    assert f"({a.prediction.label}: " not in str(a)


def test_a_question_whose_whole_context_is_removed_has_no_answer() -> None:
    explainer = tiny.explainer("bert", "QuestionAnswering")
    question = ("is the movie bad", "good")
    removal = explainer.without(question, ["good"])
    assert removal.prediction.label == ""
    ids = explainer.tokenizer(*question).convert_to_tensors("pt", prepend_batch_axis=True)
    with torch.no_grad():
        logits = explainer.model(**{name: torch.cat((row[:, :6], row[:, 7:]), 1) for name, row in ids.items()})
    start, end = logits.start_logits[0].softmax(-1), logits.end_logits[0].softmax(-1)
    assert removal.prediction.probability == pytest.approx(float(start[0] * end[0]), rel=1e-3)
    tested = explainer(question, verify=20).verified.single
    assert "" in [each.prediction.label for each in tested if each.units == ("good",)]
