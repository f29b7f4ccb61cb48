import pytest
import torch

from normxlogit import Explainer
from normxlogit.leave_out.outcomes import Outcomes, in_batches
from normxlogit.leave_out.removal import TextRemoval, tokens_removed
from normxlogit.leave_out.text_answers import TextAnswers
from tests import tiny


def test_each_removal_is_asked_about_once_and_answers_are_in_the_order_of_the_questions():
    explainer, asked = tiny.explainer("bert"), []
    model, encodings = explainer._model, explainer.encode(["bad movie", "good movie and a plot"])

    def measure(inputs, removals):
        asked.extend(removals)
        return model.answer(model.batch(inputs, list(range(len(inputs)))).inputs).tolist()

    table = Outcomes(in_batches(model, tokens_removed(model, encodings), measure), known={(0, ()): "known"})
    removals = [TextRemoval(*removal) for removal in [(1, (2, 3)), (0, ()), (0, (1,)), (1, ()), (0, (1,))]]
    first = table(removals)
    assert table(reversed(removals)) == first[::-1]
    assert first[1] == "known"
    assert sorted(asked) == sorted({*removals} - {(0, ())})
    ids = explainer.tokenizer("good movie and a plot")["input_ids"]
    ids[2] = ids[3] = explainer.tokenizer.mask_token_id
    torch.testing.assert_close(torch.tensor(first[0]), tiny.logits_of(explainer.model, ids))


@pytest.mark.parametrize("has_mask", [True, False])
def test_a_span_that_begins_at_a_word_that_is_left_out_is_never_the_answer(has_mask):
    tokenizer = tiny.tokenizer_for("bert")
    if not has_mask:
        tokenizer.mask_token = None
    model = tiny.model("bert", "QuestionAnswering")
    a = Explainer(model, tokenizer)(("a film ?", "the cat sat on the mat"), verify=4)
    at_target = [removal for removal in a.verified.single if a.target.position in removal.tokens]
    others = [removal for removal in a.verified.single if a.target.position not in removal.tokens]
    assert [removal.value for removal in at_target] == [0.0]
    assert others
    assert all(0 < removal.value <= 1 for removal in others)


@pytest.mark.parametrize("masked", [True, False])
def test_a_span_that_begins_at_a_token_that_is_masked_or_deleted_has_no_chance(masked):
    explainer = tiny.explainer("bert", "QuestionAnswering")
    pair = ("a film ?", "the cat sat on the mat")
    a, encodings = explainer(pair), explainer._model.encoder([pair])
    answers = TextAnswers(explainer._model, encodings, [a], masked=masked)
    read = [token for token in range(1, len(a.units) - 1) if a.offsets[token][1]]
    values = {token: answers([TextRemoval(0, (token,))])[0].value for token in read}
    assert [token for token, value in values.items() if value == 0] == [a.target.position]
