"""What is said of the sentences of an answer: measured with the documents and without them."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

import normxlogit
from normxlogit import Attributions, DataError, Explainer
from normxlogit.grounding import Citations
from normxlogit.leave_out.picking import Verify
from tests import tiny
from tests.contract.compare import comes_back, nats, refused
from tests.contract.test_lengths_and_batches import MODELS, STRETCHED
from tests.contract.test_lengths_and_batches import tokenizer as tokenizer_of_stretched
from tests.contract.texts import chat

DOCUMENTS = {
    "refunds.txt": "Refunds are possible within 30 days. Shipping takes 5 days.",
    "pool.txt": "The pool was built by Anna Berg in 1974. The library was built by Jonas Holm.",
}
ANSWER = "Refunds are possible within 5 days. This is all."


def made(family: str = "llama") -> Explainer:
    return Explainer(tiny.model(family, "CausalLM", vocab_size=100, max_position_embeddings=600), tiny.letters())


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    return made()


def test_the_question_is_no_source_but_alone(explainer):
    for said, sources in (
        ("When does it ship?", ()),
        ("Tell me when it ships", ()),
        ("It ships on 5 May. Doesn't it?", ("user:1",)),
        ("It ships on 5 May. Is that right? And “when” (exactly?)", ("user:1",)),
        ("它什么时候发货？", ()),
        ("It ships on 5 May. Say it again.", ("user:1", "user:2")),
    ):
        messages = chat(("tool", "It ships on 30 May."), ("user", said), ("assistant", "On 5 May."))
        messages[0]["name"] = "search"
        cited = explainer.cite(messages=messages, verify=0)
        assert cited.names == ("tool result search:1", *sources)
        assert [message.name for message in cited.messages] == ["tool result search", "user"]
        assert cited.question == said
    alone = explainer.cite(messages=chat(("user", "When?"), ("assistant", "On 5 May.")), verify=0)
    assert alone.names == ("user:1",)


def without_sources(cited: Citations, end: int, names: tuple[str, ...] | None = None) -> str:
    """Return the text before a character without the sources, or without those of some names."""
    rest, start = "", 0
    for (first, last), name in sorted(zip(cited.spans, cited.names, strict=True)):
        if names is None or name in names:
            rest, start = rest + cited.text[start:first], last
    return rest + cited.text[start:end]


@pytest.mark.parametrize("verify", ["auto", 1])
def test_sources_that_are_the_same_word_for_word_are_left_out_together(explainer, verify) -> None:
    said = "Refunds are possible within 30 days."
    documents = {"a": f"{said} Shipping takes 5 days.", "b": said, "c": f"Hello.\n\n{said.replace(' are', '  are')}"}
    cited = explainer.cite("When?", documents, answer="Within 30 days.", verify=verify)
    copies = ("a:1", "b:1", "c:2")
    assert {name: cited.losses[name] for name in copies} == dict.fromkeys(copies, cited.losses["a:1"])
    first, (answer,) = cited.attribution.targets[0].span[0], cited.sentences
    contexts = cited.text[:first], without_sources(cited, first, copies)
    whole, without = (nats(explainer, text, answer) for text in contexts)
    assert cited.losses["a:1"] == pytest.approx(whole - without, abs=1e-3)
    assert Citations.from_dict(cited.to_dict()) == cited


@pytest.mark.parametrize("family", ["llama", "gpt2", "mamba", "opt", "bloom"])
def test_readings_and_losses_are_those_of_the_callers_own_model(family: str) -> None:
    explainer = made(family)
    answer = explainer.cite(
        "When?", DOCUMENTS, answer="Refunds are possible within 5 days. Anna built it.", verify="sentence"
    )
    assert len(answer.readings) == len(answer.sentences)
    of_sentences = zip(answer.attribution.targets, answer.readings, answer.sentence_losses, strict=True)
    for k, (target, reading, loss) in enumerate(of_sentences):
        start, end = target.span
        contexts = answer.text[:start], without_sources(answer, start)
        own = [nats(explainer, before, answer.text[start:end]) for before in contexts]
        assert (reading.nats, reading.nats_without) == pytest.approx(tuple(own), abs=1e-3)
        assert loss == pytest.approx(own[0] - own[1], abs=1e-3)
        assert answer.support[k].gain == pytest.approx(loss, abs=1e-3)
        for source, name in enumerate(answer.names):
            alone = nats(explainer, without_sources(answer, start, (name,)), answer.text[start:end])
            assert answer.source_losses[k, source] == pytest.approx(own[0] - alone, abs=1e-3)
        largest = int(answer.source_losses[k].argmax())
        assert answer.support[k].largest_loss.name == answer.names[largest]


@pytest.mark.parametrize("kind", MODELS)
def test_a_text_that_is_cut_below_the_length_from_which_positions_stretch_is_read_anew(kind: str) -> None:
    model, tokenizer = MODELS[kind](), tokenizer_of_stretched()
    explainer = Explainer(model, tokenizer)
    document = "A cat. The movie is good, and the plot was never bad."
    cited = explainer.cite("cat ?", [document], answer="a great cat", verify="sentence")
    first, (answer,), (reading,) = cited.attribution.targets[0].span[0], cited.sentences, cited.readings
    texts = {"": cited.text[:first], "all": without_sources(cited, first)}
    texts |= {name: without_sources(cited, first, (name,)) for name in cited.names}
    ids = {name: tokenizer(text + answer)["input_ids"] for name, text in texts.items()}
    lengths = list(map(len, ids.values()))
    assert len(ids["document 1:2"]) - 1 <= STRETCHED < max(lengths)

    def own_nats(row: list[int]) -> float:
        logits = tiny.logits_of(model, row[:-1]).log_softmax(-1)  # from what is read before the last token
        return sum(float(logits[place - 1, row[place]]) for place in range(len(row) - len(answer.split()), len(row)))

    expected = {name: own_nats(row) for name, row in ids.items()}
    assert (reading.nats, reading.nats_without) == pytest.approx((expected[""], expected["all"]), abs=1e-5)
    assert cited.losses["document 1:2"] == pytest.approx(expected[""] - expected["document 1:2"], abs=1e-5)


def test_tokens_count_in_the_evidence_by_what_they_gain_from_the_sources(explainer) -> None:
    cited = explainer.cite("When?", DOCUMENTS, answer="In 5 days. So.", verify=0)
    prompt, spans = cited.text[: -len(cited.answer)], dict(zip(cited.names, cited.spans, strict=True))
    count = len(explainer.explain_completion(prompt, cited.answer).targets)

    def token_nats(text: str) -> np.ndarray:
        ids = explainer.tokenizer(text, add_special_tokens=False)["input_ids"]
        logits = tiny.logits_of(explainer.model, ids).log_softmax(-1)
        return np.array([float(logits[place - 1, ids[place]]) for place in range(len(ids) - count, len(ids))])

    gains = np.maximum(token_nats(cited.text) - token_nats(without_sources(cited, len(cited.text))), 0)
    expected = np.zeros_like(cited.weighted_scores[:, cited.sources])
    of_tokens = explainer.explain_completion(prompt, cited.answer, sources=spans, parts="token")
    for target, scores, gain in zip(of_tokens.targets, of_tokens.scores, gains, strict=True):
        for k, part in enumerate(cited.attribution.targets):
            if part.span[0] <= target.span[0] < part.span[1]:  # not of the white space between sentences
                expected[k] += gain * scores[of_tokens.units.sources]
    np.testing.assert_allclose(cited.weighted_scores[:, cited.sources], expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(cited.evidence.scores[:, cited.sources], cited.weighted_scores[:, cited.sources])


def test_sentences_rest_on_sources_through_earlier_sentences(explainer):
    cited = explainer.cite("When?", DOCUMENTS, answer="In 5 days. The pool is old. So it was built.", verify=0)
    direct, passed = cited.attribution, cited.through()
    answer = [unit for unit, kind in enumerate(direct.units.kind) if kind == "answer"]
    assert [direct.units.spans[unit] for unit in answer[:3]] == [target.span for target in direct.targets]
    np.testing.assert_allclose(passed.scores.sum(-1), direct.scores.sum(-1), atol=1e-5)
    rests, expected = [], direct.scores.astype(np.float64)
    for k, weighted in enumerate(cited.weighted_scores.astype(np.float64)):
        total = np.zeros(len(direct.units))
        total[cited.sources] = cited.evidence.scores[k, cited.sources]
        for unit, earlier in zip(answer, rests, strict=False):
            total += weighted[unit] * earlier
            expected[k] += direct.scores[k, unit] * earlier
        positive = np.maximum(total, 0)
        rests.append(positive / positive.sum())
        expected[k] += direct.scores[k, answer[k]] * rests[k]
        expected[k, answer[:3]] = 0
    np.testing.assert_allclose(passed.scores, expected, atol=1e-4)


def test_words_have_gains_that_sum_to_those_of_their_sentences_and_files_keep_all(explainer, tmp_path) -> None:
    cited = explainer.cite("When?", DOCUMENTS, answer=ANSWER, verify=1)
    comes_back(Attributions([explainer.cite("When?", DOCUMENTS, answer="This is all.", verify=0), cited]), tmp_path)
    comes_back(cited, tmp_path)
    loaded = normxlogit.load(tmp_path / "result.parquet")
    assert (loaded.support, loaded.facts, loaded.top(4)) == (cited.support, cited.facts, cited.top(4))
    for reading in cited.readings:
        words = reading.words
        assert all(cited.text[word.start : word.end] == word.text for word in words)
        assert sum(word.gain for word in words) == pytest.approx(reading.nats - reading.nats_without, abs=1e-6)
    state = cited.to_dict()
    assert [row["verdict"] for row in state["sentences"]] == [s.verdict for s in cited.support]
    table = str(cited).partition("Sources")[0]
    assert cited.summary in table
    assert "nats" not in table
    assert all(sentence.verdict in table for sentence in cited.support)
    for wrong in ({"support": []}, {"facts": []}, {"support": [{**row, "sources": [99]} for row in state["support"]]}):
        refused(DataError, "support", partial(Citations.from_dict, {**state, **wrong}))


def test_the_numbers_of_a_list_are_no_words_that_documents_could_say(explainer):
    answer = "1. The pool was built in 1974.\n2. Shipping takes 5 days."
    listed = explainer.cite("When?", DOCUMENTS, answer=answer, verify=1)
    words = [" ".join(word.text for word in reading.words).split() for reading in listed.readings]
    assert words == [["The", "pool", "was", "built", "in", "1974", "."], ["Shipping", "takes", "5", "days", "."]]
    assert [support.judgement == "quoted" for support in listed.support] == [False, True]
    assert not any(support.missing for support in listed.support)
    dated = explainer.cite("When?", DOCUMENTS, answer="12. That was the day.", verify=1)
    assert dated.readings[0].words[0].text == "12"  # no list begins with 12
    assert dated.support[0].missing == ("12",)


def test_an_answer_is_summed_up_in_one_line(explainer):
    answer = "Shipping takes 5 days. Refunds are possible within 30 days. This is all."
    cited = explainer.cite("When?", DOCUMENTS, answer=answer, verify=0)
    assert cited.summary.startswith("2 of 3 sentences are supported; 1 ")
    one = explainer.cite("When?", DOCUMENTS, answer="Shipping takes 5 days.", verify=0)
    assert one.summary == "1 of 1 sentence is supported"
    for drawn in (str(cited), cited.to_html(), str(cited.to_dict()["summary"])):
        assert cited.summary in drawn


def counted(explainer: Explainer, call: Callable[[], Citations]) -> tuple[Citations, int]:
    """Return what a call returns, and how many tokens are embedded for it."""
    counts: list[int] = []
    embedding = explainer.model.get_input_embeddings()
    hook = embedding.register_forward_hook(lambda _, given, __: counts.append(given[0].numel()))
    call()  # the proofs are made once
    counts.clear()
    cited = call()
    hook.remove()
    return cited, sum(counts)


def test_the_prompt_is_read_a_few_times_whatever_the_number_of_sentences() -> None:
    explainer = made()
    explainer.model.config.max_position_embeddings = 4000
    lines = [[f"Order {10 * d + s} ships on {s + 3} May, with {d} of them." for s in range(4)] for d in range(4)]
    documents = {f"{d}.txt": " ".join(sentences) for d, sentences in enumerate(lines)}
    answer = " ".join(f"On {day} May." for day in range(1, 11))

    def cite(verify: Verify, *, rank: bool = False) -> tuple[Citations, float]:
        asked = {"documents": documents, "answer": answer, "verify": verify, "rank": rank}
        cited, tokens = counted(explainer, lambda: explainer.cite("When?", **asked))
        prompt = len(explainer.tokenizer(cited.text[: -len(cited.answer)], add_special_tokens=False)["input_ids"])
        return cited, tokens / prompt

    cited, prompts = cite("auto")
    assert len(cited.sentences) == 10
    assert cited.losses
    # Once for scores and measurements alike, each document alone before the answer and before the best one, two sources
    # from their places on.
    assert prompts < 7
    prompts = cite(0)[1]
    assert prompts < 1.5
    assert cite(0, rank=True)[1] - prompts < 5  # ten sentences with a passage each, and the passages
    cited, prompts = cite(10)
    assert len(cited.losses) == 10
    assert prompts < 13
