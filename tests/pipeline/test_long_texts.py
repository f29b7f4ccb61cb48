import numpy as np
import pytest
import torch

from normxlogit import ALL, Explainer, InputError
from tests import tiny

SENTENCE = "the movie is not good but a great film with charm and wit , maybe mediocre plot upon time here there"
WORDS = SENTENCE.split() * 6
LONG = " ".join(WORDS)  # 126 tokens; the models read 40
LIMIT = 40


def by_hand(length, first, last):
    """Windows over places first..last, all other places in each: a quarter shared, the last at the end."""
    room = LIMIT - (length - (last - first + 1))
    step = room - room // 4
    found, start = [], first
    while start + room <= last:
        found.append(start)
        start += step
    found.append(last - room + 1)
    return [[*range(first), *range(s, s + room), *range(last + 1, length)] for s in found]


@pytest.fixture(scope="module")
def explainer():
    return tiny.explainer("bert", num_labels=3)


def windowed(explainer, length, first, last, ids, segments=None):
    model = tiny.model("bert", num_labels=3)
    kept = by_hand(length, first, last)
    logits, tables = [], []
    for places in kept:
        inputs = {"input_ids": torch.tensor([[ids[i] for i in places]])}
        if segments is not None:
            inputs["token_type_ids"] = torch.tensor([[segments[i] for i in places]])
        with torch.inference_mode():
            out = model(**inputs, output_hidden_states=True)
            hidden, embedded = out.hidden_states[-1][0], out.hidden_states[0][0]
            each = model.classifier(model.bert.pooler(hidden[:, None]))  # (T, C)
        logits.append(out.logits[0])
        tables.append(each * embedded.norm(dim=-1, keepdim=True))
    mean = torch.stack(logits).mean(0)
    merged = torch.zeros(length, 3)
    for place in range(length):
        held = [tables[w][places.index(place)] for w, places in enumerate(kept) if place in places]
        merged[place] = torch.stack(held).mean(0)
    return mean, merged


def test_scores_are_the_mean_over_windows_and_the_prediction_that_of_the_mean_logits(explainer):
    a = explainer(LONG, long_text="window", method="normxlogit")
    mean, merged = windowed(explainer, len(a.units), 1, len(a.units) - 2, a.token_ids)
    best = int(mean.argmax())
    assert a.prediction.id == best
    assert a.prediction.value == pytest.approx(float(mean[best]), rel=1e-4)
    assert a.target.id == best
    np.testing.assert_allclose(a.scores, merged[:, best], rtol=1e-3, atol=1e-4)
    every = explainer(LONG, long_text="window", method="normxlogit", target=ALL)
    np.testing.assert_allclose(every.scores, merged.T, rtol=1e-3, atol=1e-4)
    assert [a.text[s:e] for s, e in a.offsets[1:-1]] == [word.text for word in a.words()] == WORDS
    assert "5 windows" in a.notes[0]


def windows_of(explainer, text, **options):
    """Each window of a text by itself, through the explainer, with its places in the whole."""
    (encoding,) = explainer._model.encoder([text], long_text="window")
    kept = by_hand(len(encoding), 1, len(encoding) - 2)
    return kept, explainer([encoding.take(places) for places in kept], **options)


def test_all_windows_explain_the_prediction_of_the_whole(explainer):
    model = tiny.model("bert", num_labels=3)
    own = Explainer(model, tiny.tokenizer_for("bert"))
    kept, parts = windows_of(own, LONG)
    with torch.no_grad():  # so that no label is ahead in all of them
        ids = [torch.tensor([part.token_ids]) for part in parts]
        model.classifier.bias -= torch.cat([model(input_ids=some).logits for some in ids]).mean(0)
    a = own(LONG, long_text="window", method="normxlogit")
    _, parts = windows_of(own, LONG, target=a.prediction.id, method="normxlogit")
    total, count = np.zeros(len(a.units)), np.zeros(len(a.units))
    for places, part in zip(kept, parts, strict=True):
        total[places] += part.scores
        count[places] += 1
    assert len({part.prediction.id for part in parts}) > 1, "the windows by themselves do not agree"
    np.testing.assert_allclose(a.scores, total / count, rtol=1e-3, atol=1e-4)


def test_a_token_is_said_to_be_what_the_window_around_it_says(explainer):
    a = explainer(LONG, long_text="window", token_predictions=True)
    kept, parts = windows_of(explainer, LONG, token_predictions=True)
    for place in range(1, len(a.units) - 1):
        holding = [(min(p.index(place), len(p) - 1 - p.index(place)), w) for w, p in enumerate(kept) if place in p]
        best = max(holding)[0]
        said = [parts[w].token_predictions[kept[w].index(place)].value for margin, w in holding if margin == best]
        assert a.token_predictions[place].value == pytest.approx(said[0], abs=1e-4)


def test_the_diagnostics_are_those_of_the_worst_window(explainer):
    method = "integrated-gradients:steps=2"
    a = explainer(LONG, long_text="window", method=method, target=1)
    _, parts = windows_of(explainer, LONG, method=method, target=1)
    errors = [part.diagnostics["convergence_error"] for part in parts]
    assert a.diagnostics["convergence_error"] == pytest.approx(max(errors, key=abs), abs=1e-5)
    assert abs(errors[0]) < max(map(abs, errors)), "the first window is not the worst"


def test_of_a_pair_the_longer_text_is_cut(explainer):
    pair = ("the cat sat here", LONG)
    a = explainer(pair, long_text="window", method="normxlogit")
    encoded = tiny.tokenizer_for("bert")(*pair, truncation=False, verbose=False)
    first = encoded.sequence_ids(0).index(1)
    mean, merged = windowed(
        explainer, len(a.units), first, len(a.units) - 2, encoded.input_ids, segments=encoded.token_type_ids
    )
    assert a.prediction.id == int(mean.argmax())
    np.testing.assert_allclose(a.scores, merged[:, a.prediction.id], rtol=1e-3, atol=1e-4)
    with pytest.raises(InputError, match="none for windows"):
        explainer((LONG, LONG), long_text="window")


def test_a_mask_is_read_in_the_window_around_it():
    explainer = tiny.explainer("bert", "MaskedLM")
    place = 70
    text = " ".join([*WORDS[: place - 1], "[MASK]", *WORDS[place:]])
    a = explainer(text, long_text="window", target="cat")
    start = place - 38 // 2
    window = explainer(" ".join(text.split(" ")[start - 1 : start + 37]), target="cat")
    assert len(window.units) == LIMIT
    np.testing.assert_allclose(a.scores[start : start + 38], window.scores[1:-1], rtol=1e-3, atol=1e-4)
    assert (a.scores[1:start] == 0).all()
    assert (a.scores[start + 38 : -1] == 0).all()
    assert a.target.position == place
    assert a.prediction == window.prediction
    assert "38 tokens" in a.notes[0]


def test_a_causal_model_reads_the_end():
    explainer = tiny.explainer("llama", "CausalLM")
    a = explainer(LONG, long_text="window")
    end = explainer(" ".join(WORDS[-LIMIT:]))
    np.testing.assert_allclose(a.scores[-LIMIT:], end.scores, rtol=1e-3, atol=1e-4)
    assert (a.scores[:-LIMIT] == 0).all()
    assert a.prediction.id == end.prediction.id


def test_an_answer_comes_from_the_window_that_has_the_best_one():
    explainer = tiny.explainer("bert", "QuestionAnswering")
    question = "is the cat here ?"
    a = explainer((question, LONG), long_text="window", target="start")
    encoding = explainer._model.encoder([(question, LONG)], long_text="window")[0]
    first = encoding.sequence_ids.index(1)
    values = []
    for places in by_hand(len(encoding), first, len(encoding) - 2):
        start, end = places[first], places[-2]
        part = LONG[encoding.offsets[start][0] : encoding.offsets[end][1]]
        values.append(explainer((question, part)).prediction)
    best = max((v for v in values if v.label), key=lambda v: v.value)
    assert a.prediction.label == best.label
    assert a.prediction.value == pytest.approx(best.value, rel=1e-4)
    assert a.target.position == a.prediction.id
    assert a.text_pair[a.offsets[a.prediction.id][0] :].startswith(best.label)


def test_a_span_has_no_chance_without_the_token_at_which_it_starts_whatever_its_window():
    explainer = tiny.explainer("bert", "QuestionAnswering")
    in_later_window = 0
    for shift in range(12):
        text = " ".join(WORDS[shift:50] + WORDS[:shift])
        a = explainer(("is it ?", text), long_text="window", target="start", verify=50)
        begins_later = a.scores[a.units.sequence.index(1)] == 0  # the first token of the text is in another window
        in_later_window += a.target.position < LIMIT and begins_later
        for removal in a.verified.single:
            assert (removal.value == 0) == (a.target.position in removal.tokens)
    assert in_later_window


def test_a_window_that_loses_all_its_text_has_no_say(explainer):
    kept, _ = windows_of(explainer, LONG)
    ids = explainer(LONG, method="normxlogit", long_text="window").token_ids
    words = len(kept[0]) - 2
    a = explainer(LONG, method="normxlogit", long_text="window", verify=[(0, len(" ".join(WORDS[:words])))])
    model, logits = tiny.model("bert", num_labels=3), []
    for places in kept[1:]:
        row = torch.tensor([[ids[place] for place in places if place == 0 or place > words]])
        with torch.inference_mode():
            logits.append(model(row).logits[0])
    expected = torch.stack(logits).mean(0).softmax(-1)[a.target.id]
    assert a.verified.single[0].value == pytest.approx(float(expected), abs=1e-5)


def test_one_note_says_for_all_positions_that_their_answers_come_from_windows():
    tagger = tiny.explainer("bert", "TokenClassification")
    every = tagger(" ".join(WORDS[:50]), position=ALL, long_text="window")
    assert len(every.targets) == 50
    assert len(every.notes) == 1
