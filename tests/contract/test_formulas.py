"""The formulas against plain loops, and what a result says of itself."""

import pytest
import torch

from normxlogit import ALL, Attribution, Explainer, InputError, TargetError
from tests import tiny
from tests.tiny import explainer

from .compare import close, refused


def test_causal_lm_equals_a_plain_loop():
    model, tokenizer = tiny.model("llama", "CausalLM"), tiny.tokenizer_for("llama")
    inputs = tokenizer(tiny.TEXTS[0], return_tensors="pt")
    with torch.no_grad():
        outputs = model(**inputs, output_hidden_states=True)
        last = outputs.hidden_states[-1][0]
        first = model.model.norm(outputs.hidden_states[1][0])  # layers below the last have not met the final norm
        norms, label = outputs.hidden_states[0][0].norm(dim=-1), outputs.logits[0, -1].argmax()
        expected = torch.stack([model.lm_head(h)[:, label] * norms for h in (first, last)])
    result = Explainer(model, tokenizer)(tiny.TEXTS[0], layers=[1, 3], method="normxlogit")
    close(result.scores, expected.numpy())
    assert result.prediction.id == int(label)
    assert result.target.position == len(result.units) - 1


def test_each_text_of_a_batch_is_as_far_from_its_own_output_as_it_is_alone():
    e = tiny.explainer("bert", num_labels=1)
    texts = ["the movie is good", "a bad film !"]
    together = e(texts, method="logat")
    assert len(together[0]) == len(together[1]), "of one length, so that one batch holds both"
    assert abs(together[0].prediction.value - together[1].prediction.value) > 1e-3
    for text, one in zip(texts, together, strict=True):
        close(one.scores, e(text, method="logat").scores)


@pytest.mark.parametrize("count", [1, 3])
def test_a_regression_is_explained_by_the_distance_to_each_value(count):
    options = {"num_labels": count, "problem_type": "regression"}
    model, tokenizer = tiny.model("bert", **options), tiny.tokenizer_for("bert")
    inputs = tokenizer(*tiny.PAIR, return_tensors="pt")
    with torch.no_grad():
        states = model.bert(**inputs).last_hidden_state[0]
        values = model.classifier(torch.tanh(model.bert.pooler.dense(states)))  # (T, C)
        outputs = model(**inputs).logits
    expected = (values - outputs).abs().T.numpy()  # (C, T)
    assert expected[:, 0] == pytest.approx(0, abs=1e-5), "the pooled position is the model's own output"
    e = Explainer(model, tokenizer)
    for index in range(count):
        close(e(tiny.PAIR, method="logat", target=index).scores, expected[index])
    close(e(tiny.PAIR, method="logat", target=ALL).scores, expected)
    result = e(tiny.PAIR, method="logat")
    close(result.scores, expected[0])
    assert result.prediction.probability is None
    assert result.prediction.value == pytest.approx(outputs[0, 0].item(), abs=1e-5), "the value that is explained"
    assert (result.signed, result.target.kind) == (False, "value")
    refused(TargetError, "leave out contrast", lambda: e(tiny.PAIR, target=0, contrast=1 % count))


def test_input_norm_and_both_norms():
    model, tokenizer = tiny.model("bert"), tiny.tokenizer_for("bert")
    inputs = tokenizer(tiny.TEXTS[0], return_tensors="pt")
    with torch.no_grad():
        output = model.bert.embeddings(inputs["input_ids"], token_type_ids=inputs["token_type_ids"])[0].norm(dim=-1)
        word = model.bert.embeddings.word_embeddings.weight[inputs["input_ids"][0]].norm(dim=-1)
    e = Explainer(model, tokenizer)
    close(e(tiny.TEXTS[0], method="input-norm").scores, output.numpy())
    close(e(tiny.TEXTS[0], method="input-norm:norm_of=word_embedding").scores, word.numpy())
    logat = e(tiny.TEXTS[0], method="logat").scores
    close(e(tiny.TEXTS[0], method="normxlogit:norm_of=word_embedding").scores, logat * word.numpy())
    random = e(tiny.TEXTS[2], method="random").scores
    assert len(set(random.tolist())) == len(random), "a permutation"


def test_token_predictions_are_the_heads_words():
    model = tiny.model("bert", num_labels=3, problem_type="multi_label_classification")
    tokenizer = tiny.tokenizer_for("bert")
    result = Explainer(model, tokenizer)(tiny.TEXTS[0], token_predictions=True)
    inputs = tokenizer(tiny.TEXTS[0], return_tensors="pt")
    with torch.no_grad():
        states = model.bert(**inputs).last_hidden_state[0]
        logits = model.classifier(torch.tanh(model.bert.pooler.dense(states)))
    assert [p.id for p in result.token_predictions] == logits.argmax(-1).tolist()
    close([p.probability for p in result.token_predictions], logits.max(-1).values.sigmoid().numpy())
    assert Explainer(model, tokenizer)(tiny.TEXTS[0]).token_predictions is None, "the method does not read them"
    assert Explainer(model, tokenizer)(tiny.TEXTS[0], method="normxlogit").token_predictions == result.token_predictions
    lm = explainer("bert", "MaskedLM")
    assert lm(tiny.MASKED).token_predictions is None, "a vocabulary for every token is not computed unasked"
    said = lm(tiny.MASKED, token_predictions=True)
    assert len(said.token_predictions) == len(said.units)
    assert said.token_predictions[said.target.position].id == said.prediction.id


def test_result_describes_itself():
    model = tiny.model("bert")
    model.config._name_or_path = "some/model"
    result = Explainer(model, tiny.tokenizer_for("bert"))("The keyly cat.", method="normxlogit")
    assert isinstance(result, Attribution)
    assert (result.model, result.method) == ("some/model", "normxlogit")
    assert dict(result.settings) == {"norm_of": "embedding_output"}
    assert [result.text[a:b] for a, b in result.offsets][1:3] == ["The", "key"]
    assert [w.text for w in result.words()] == ["The", "keyly", "cat", "."]
    pair = explainer("bert")(tiny.PAIR)
    assert (pair.text, pair.text_pair) == tiny.PAIR
    assert {s for s in pair.units.sequence if s is not None} == {0, 1}
    assert [w.text for w in pair.words() if w.sequence == 1] == tiny.PAIR[1].split()
    refused(InputError, "single texts", lambda: explainer("bert", type_vocab_size=1)(tiny.PAIR))
