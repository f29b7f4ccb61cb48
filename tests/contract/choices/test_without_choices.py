"""What would be chosen without a word: multiple choice and zero-shot classification."""

import pytest
import torch
import transformers

from normxlogit import Explainer
from tests import tiny
from tests.contract.cases import Case

PROMPT, CHOICES = "the movie is good and the plot is bad", ["good movie", "bad cat", "the plot sat"]


@pytest.mark.parametrize("words", [["plot"], ["good", "bad"]])
def test_words_of_the_prompt_are_left_out_of_every_pair_and_words_of_a_choice_of_its_own(words: list[str]) -> None:
    explainer = Case("bert", "MultipleChoice").explainer
    removal = explainer.without((PROMPT, CHOICES), words, target=1)
    logits = []
    for place, choice in enumerate(CHOICES):
        encoding = explainer.tokenizer(PROMPT, choice)
        tokens, of = explainer.tokenizer.convert_ids_to_tokens(encoding["input_ids"]), encoding.sequence_ids()
        kept = [i for i, token in enumerate(tokens) if token not in words or (of[i] == 1 and place != 1)]
        rows = {name: torch.tensor([[[values[i] for i in kept]]]) for name, values in encoding.items()}
        with torch.no_grad():
            logits.append(explainer.model(**rows).logits[0, 0])
    probabilities = torch.stack(logits).softmax(0)
    assert removal.value == pytest.approx(float(probabilities[1]), abs=1e-6)
    assert removal.prediction.id == int(probabilities.argmax())


def test_a_choice_is_verified() -> None:
    a = Case("bert", "MultipleChoice").explainer((PROMPT, CHOICES), verify=2)
    assert (len(a.verified.single), a.verified.original.prediction.label) == (2, a.prediction.label)
    assert a.verified.original.value == pytest.approx(a.prediction.probability, abs=1e-6)


@pytest.mark.parametrize("multi_label", [False, True])
def test_a_label_of_a_zero_shot_pipeline_without_a_word(multi_label: bool) -> None:
    model = tiny.model("bert", num_labels=3)
    model.config.label2id, model.config.id2label = (
        {"entailment": 0, "neutral": 1, "contradiction": 2},
        {0: "entailment", 1: "neutral", 2: "contradiction"},
    )
    pipe = transformers.pipeline(
        "zero-shot-classification", model=model, tokenizer=tiny.tokenizer_for("bert"), multi_label=multi_label
    )
    explainer = Explainer(pipe, labels=["cat", "movie"])
    removal = explainer.without(PROMPT, "plot", target="movie")
    expected = pipe(PROMPT.replace("plot ", ""), ["cat", "movie"], multi_label=multi_label)
    scores = dict(zip(expected["labels"], expected["scores"], strict=True))
    assert removal.value == pytest.approx(scores["movie"], abs=1e-5)
    assert removal.prediction.label == ("movie" if multi_label else expected["labels"][0])
