import pytest
import torch
import transformers

from normxlogit import Explainer, MethodError
from tests import tiny
from tests.contract.heads import HEADS

QUESTION = ("the cat sat on", ["the mat .", "a movie plot", "time !"])


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra", "deberta-v2", "xlnet"])
def test_multiple_choice_explains_the_row_of_a_choice(family):
    model, tokenizer = tiny.model(family, "MultipleChoice"), tiny.tokenizer_for(family)
    explainer = Explainer(model, tokenizer)
    prompt, choices = QUESTION
    padded = tokenizer([prompt] * 3, choices, return_tensors="pt", padding=True)
    with torch.inference_mode():
        logits = model(**{k: v[None] for k, v in padded.items()}).logits[0]
    best = int(logits.argmax())
    said = explainer(QUESTION)
    assert said.prediction.label == choices[best]
    assert said.prediction.id == best
    assert said.prediction.value == pytest.approx(float(logits[best]), abs=1e-4)
    assert said.prediction.probability == pytest.approx(float(logits.softmax(-1)[best]), abs=1e-4)
    assert said.target.name == choices[best]
    assert said.text_pair == choices[best]
    for index, choice in enumerate(choices):
        encoded = tokenizer(prompt, choice, return_tensors="pt")
        with torch.inference_mode():
            hidden = model.base_model(**encoded).last_hidden_state
            first = model(**{k: v[None] for k, v in encoded.items()}, output_hidden_states=True).hidden_states[0]
            wanted = first.reshape(-1, first.shape[-1]).norm(dim=-1) * head_of_a_choice(model, hidden[0])
        a = explainer(QUESTION, target=index, method="normxlogit")
        assert a.target.id == index
        torch.testing.assert_close(torch.tensor(a.scores), wanted, rtol=1e-4, atol=1e-5)
        assert (explainer(QUESTION, target=choice, method="normxlogit").scores == a.scores).all()


def head_of_a_choice(model, hidden):
    """A family's multiple-choice head, written out, on one token each, (T, H) to (T,)."""
    family = model.config.model_type
    if family == "electra":
        return model.classifier(model.sequence_summary.activation(model.sequence_summary.summary(hidden)))[:, 0]
    if family == "roberta":
        return model.classifier(model.roberta.pooler(hidden[:, None]))[:, 0]
    return HEADS[family, "SequenceClassification"](model, hidden)[:, 0]


def test_characters_that_are_hashed_have_no_point_between_them_and_a_baseline():
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    config = transformers.CanineConfig(num_hash_buckets=64, num_hash_functions=2, local_transformer_stride=32, **sizes)
    explainer = Explainer(transformers.CanineForMultipleChoice(config).eval(), transformers.CanineTokenizer())
    with pytest.raises(MethodError, match="not read as words"):
        explainer(("is it good", ["yes", "no"]), method="frozen-gradient:point=0.5")
