import numpy as np
import pytest
import torch

from normxlogit import Explainer, UnsupportedModelError
from normxlogit.results.collection import Attributions
from tests import tiny
from tests.similarity.sentence_steps import steps_beside

A, B, C = "the movie is not good", "a great film with charm and wit !", "bad"
POOLED = [("bert", "mean"), ("bert", "first"), ("bert", "last"), ("modernbert", "mean"), ("deberta-v2", "first")]
POOLED += [("llama", "last"), ("gemma2", "mean")]


def bare(family="bert", **options):
    return tiny.model(family, "SequenceClassification", **options).base_model


def made(family="bert", pooling="mean"):
    tokenizer = tiny.tokenizer_for(family)
    return Explainer(bare(family), tokenizer, task="embedding", pooling=pooling, name="tiny")


def first_tokens(s):
    return s.units.sequence.count(0)


def state_cosines(s):
    return np.array([prediction.value for prediction in s.token_predictions], np.float32)


def vector_of(model, tokenizer, text, pooling):
    with torch.inference_mode():
        states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
    return {"mean": states.mean(0), "first": states[0], "last": states[-1]}[pooling]


@pytest.mark.parametrize(("family", "pooling"), POOLED)
def test_the_shares_of_tokens_and_of_pairs_sum_to_the_cosine(family, pooling):
    explainer = made(family, pooling)
    model, tokenizer = bare(family), tiny.tokenizer_for(family)
    wanted = torch.cosine_similarity(*(vector_of(model, tokenizer, text, pooling) for text in (A, B)), dim=0)
    s = explainer.similarity(A, B, matrix=True)
    assert s.prediction.value == pytest.approx(float(wanted), abs=1e-5)
    halves = s.scores[: first_tokens(s)], s.scores[first_tokens(s) :]
    for half, bias in zip(halves, s.bias, strict=True):
        assert half.sum() + bias == pytest.approx(s.prediction.value, abs=1e-4)
    assert s.pairs.sum() == pytest.approx(s.prediction.value, abs=1e-4)
    np.testing.assert_allclose(s.pairs[:-1].sum(1), halves[0], atol=1e-4)
    np.testing.assert_allclose(s.pairs[:, :-1].sum(0), halves[1], atol=1e-4)


def test_own_states_are_normxlogits_form():
    explainer = made()
    s = explainer.similarity(A, B, matrix=True)
    model, tokenizer = bare(), tiny.tokenizer_for("bert")
    with torch.inference_mode():
        first, second = (model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0] for text in (A, B))
    np.testing.assert_allclose(
        state_cosines(s)[: first_tokens(s)], torch.cosine_similarity(first, second.mean(0)[None]), atol=1e-5
    )
    np.testing.assert_allclose(explainer.similarity(A, B, method="logat").scores, state_cosines(s), atol=1e-5)
    norms = explainer.similarity(A, B, method="input-norm").scores
    np.testing.assert_allclose(
        explainer.similarity(A, B, method="normxlogit").scores, state_cosines(s) * norms, rtol=1e-4
    )


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_many_documents_are_explained_as_each_alone(family):
    explainer = made(family, "last" if family == "llama" else "mean")
    many = explainer.similarity(A, iter([B, C, A]), matrix=True)
    assert isinstance(many, Attributions)
    for found, text in zip(many, [B, C, A], strict=True):
        alone = explainer.similarity(A, text, matrix=True)
        assert (found.text, found.text_pair) == (A, text)
        np.testing.assert_allclose(found.scores, alone.scores, atol=1e-5)
        np.testing.assert_allclose(found.pairs, alone.pairs, atol=1e-5)
    assert many[2].prediction.value == pytest.approx(1, abs=1e-5)


def write_trunk(folder):
    bare().save_pretrained(folder)
    tiny.tokenizer_for("bert").save_pretrained(folder)


CLS = ("Pooling", {"word_embedding_dimension": 32, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False})


def test_a_folder_is_pooled_as_its_files_say(tmp_path):
    write_trunk(tmp_path)
    read = {"sentence_bert_config": {"max_seq_length": 6, "do_lower_case": True}}
    read["config_sentence_transformers"] = {"prompts": {"q": "here "}, "default_prompt_name": "q"}
    folder = steps_beside(tmp_path, CLS, ("Normalize", {}), **read)
    explainer = Explainer.from_pretrained(folder)
    assert explainer._model.task.name == "embedding"
    s = explainer.similarity("GOOD", B)
    assert s.text == "here good"
    assert len(s.tokens) - first_tokens(s) == 6
    assert s.notes
    texts = [vector_of(bare(), tiny.tokenizer_for("bert"), f"here {text}", "first") for text in ("good", "bad")]
    found = explainer.similarity("good", "bad").prediction.value
    assert found == pytest.approx(float(torch.cosine_similarity(*texts, dim=0)), abs=1e-5)
    pooled = Explainer.from_pretrained(folder, task="embedding", pooling="mean").similarity(A, B)
    assert pooled.prediction.value != s.prediction.value


def test_a_trunk_in_a_folder_of_its_own_is_named(tmp_path):
    write_trunk(tmp_path)
    modules = [{"type": "sentence_transformers.models.Transformer", "path": "0_Transformer"}]
    modules.append({"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"})
    folder = steps_beside(tmp_path, CLS, modules=modules)
    with pytest.raises(UnsupportedModelError, match="keeps its trunk in 0_Transformer; load it from there"):
        Explainer.from_pretrained(folder, task="embedding")
