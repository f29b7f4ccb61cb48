"""The cosine of two texts: what it rests on."""

import numpy as np
import pytest
import torch
import transformers

import normxlogit
from normxlogit import Attribution, Attributions, Explainer, InputError, UnsupportedModelError
from tests import tiny
from tests.commands import run
from tests.contract.compare import refused
from tests.contract.test_attention_sinks import CLOSE, PLAIN, TEXT, with_sink
from tests.contract.test_saved_files import strict
from tests.similarity.sentence_steps import steps_beside


def test_a_cosine_is_computed_again_without_the_words_of_either_text() -> None:
    model, tokenizer = tiny.model("bert").bert, tiny.tokenizer_for("bert")
    explainer = Explainer(model, tokenizer, task="embedding", pooling="mean")
    s = explainer.similarity("the movie is good", "a cat sat on the mat", verify=4)

    def vector(ids: list[int]) -> torch.Tensor:
        with torch.no_grad():
            return torch.nn.functional.normalize(model(torch.tensor([ids])).last_hidden_state[0].mean(0), dim=0)

    for removal in (s.verified.original, *s.verified.single, s.verified.together):
        kept = [place for place in range(len(s.units)) if place not in removal.tokens]
        first, second = ([s.token_ids[place] for place in kept if s.units.sequence[place] == text] for text in (0, 1))
        assert removal.value == pytest.approx(float(vector(first) @ vector(second)), abs=1e-5)
    assert type(s).from_dict(s.to_dict()) == s
    assert "with all" in str(s)
    removal = explainer.without("the movie is good", "good", second="a cat sat on the mat")
    moved = "falls" if removal.value < removal.original else "rises"
    shown = f"the similarity {moved} from {removal.original:.2f} to {removal.value:.2f}"
    assert str(removal) == f'Without "good": {shown}.'
    assert removal.original == pytest.approx(s.prediction.value, abs=1e-6)


def test_a_similarity_says_what_is_in_its_bias():
    base = with_sink()[1].model
    explainer = Explainer(base, tiny.tokenizer_for("llama"), task="embedding", pooling="mean")
    s = explainer.similarity(PLAIN, TEXT, matrix=True)
    assert s.notes == ("attention sink: 'once'; what a sink contributes is in the bias",)
    of_second = np.array(s.units.sequence) == 1
    np.testing.assert_allclose(s.scores[of_second].sum() + s.bias[1], s.prediction.value, **CLOSE)
    np.testing.assert_allclose(s.pairs.sum(), s.prediction.value, **CLOSE)
    assert explainer.similarity(PLAIN, "bad").notes == ()


def test_vectors_have_no_labels():
    with pytest.raises(InputError, match="leave out labels="):
        Explainer(tiny.model("bert").bert, tiny.tokenizer(), labels=["no", "yes"], task="embedding", pooling="mean")


def test_a_pipeline_of_features_is_refused_with_what_would_embed() -> None:
    pipe = transformers.pipeline(
        "feature-extraction", model=tiny.model("bert").bert, tokenizer=tiny.tokenizer_for("bert")
    )
    refused(UnsupportedModelError, "task='embedding'", lambda: Explainer(pipe))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "encoder"
    tiny.model("bert").bert.save_pretrained(folder)
    tiny.tokenizer_for("bert").save_pretrained(folder)
    pooling = {"word_embedding_dimension": 32, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    steps_beside(folder, ("Pooling", pooling))
    return folder


@pytest.mark.parametrize("texts", [["the cat", "a mat", "--matrix"], ["the cat", "a mat", "bad"]])
@pytest.mark.parametrize("suffix", ["json", "parquet"])
def test_what_the_command_writes_is_loaded(encoder, texts, suffix, capsys, tmp_path):
    file = tmp_path / f"out.{suffix}"
    code, _, err = run(capsys, "similarity", *texts, "--model", encoder, "--output", tmp_path / "out.json")
    assert code == 0, err
    strict(tmp_path / "out.json")
    normxlogit.load(tmp_path / "out.json").save(file)
    loaded = normxlogit.load(file)
    assert type(loaded) is Attributions
    assert Attributions.from_dict(loaded.to_dict()) == loaded == normxlogit.load(tmp_path / "out.json")
    assert all(isinstance(result, Attribution) and result.bias.shape == (2,) for result in loaded)
    assert (loaded[0].pairs is not None) is ("--matrix" in texts)
