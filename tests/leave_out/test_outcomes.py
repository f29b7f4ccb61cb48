import torch

from normxlogit.leave_out.outcomes import Outcomes, in_batches
from normxlogit.leave_out.removal import tokens_removed
from tests import tiny


def table_of(model, texts, asked, **more):
    encodings = model.encoder(texts)

    def measure(inputs, removals):
        asked.extend(removals)
        return model.answer(model.batch(inputs, list(range(len(inputs)))).inputs).tolist()

    return Outcomes(in_batches(model, tokens_removed(model, encodings), measure), **more)


def test_each_removal_is_asked_about_once_and_answers_are_in_the_order_of_the_questions():
    explainer, asked = tiny.explainer("bert"), []
    table = table_of(explainer._model, ["bad movie", "good movie and a plot"], asked)
    removals = [(1, (2, 3)), (0, ()), (0, (1,)), (1, ()), (0, (1,))]
    first = table(removals)
    assert table(reversed(removals)) == first[::-1]
    assert sorted(asked) == sorted(set(removals))
    ids = explainer.tokenizer("good movie and a plot")["input_ids"]
    ids[2] = ids[3] = explainer.tokenizer.mask_token_id
    torch.testing.assert_close(torch.tensor(first[0]), tiny.logits_of(explainer.model, ids))


def test_what_is_known_is_not_asked_about_and_the_callers_code_runs_outside_inference_mode():
    asked = []
    table = table_of(tiny.explainer("bert")._model, ["bad movie"], asked, known={(0, ()): "known"})
    assert table([(0, ())]) == ["known"]
    assert not asked
    modes = []

    def ask(removals):
        for outcome in in_batches(tiny.explainer("bert")._model, encodings.__getitem__, lambda e, r: r)(removals):
            modes.append(torch.is_inference_mode_enabled())
            yield outcome

    encodings = tiny.explainer("bert")._model.encoder(["bad movie", "good"])
    assert Outcomes(ask)([1, 0, 1]) == [1, 0, 1]
    assert modes == [False, False]
