"""A second opinion on the verdicts: a classifier of pairs of texts that knows entailment."""

from functools import partial

import pytest
import torch
from torch import nn

from normxlogit import Attributions, Explainer, InputError
from tests import tiny
from tests.contract.compare import comes_back, refused

LABELS = ("entailment", "neutral", "contradiction")
DOCUMENTS = {"film": "The movie is good. The plot is never bad. A cat sat on the mat."}
ANSWER = "The movie is never great. The cat is here."


class Weighed(nn.Module):
    """A classifier whose logits are sums of weights of words: "never" contradicts, "cat" entails."""

    def __init__(self):
        super().__init__()
        self.embedding, self.classifier = nn.Embedding(tiny.SIZE, 3), nn.Linear(3, 3)
        nn.init.zeros_(self.embedding.weight)
        nn.init.zeros_(self.classifier.bias)
        self.classifier.weight.data = torch.eye(3)
        self.embedding.weight.data[tiny.VOCABULARY["cat"], 0] = 2.0
        self.embedding.weight.data[tiny.VOCABULARY["never"], 2] = 5.0

    def forward(self, input_ids, attention_mask=None, **_):
        return self.classifier((self.embedding(input_ids) * attention_mask[..., None]).sum(1))


def classifier(labels=LABELS):
    return Explainer(Weighed(), tiny.tokenizer(), task="sequence-classification", labels=labels)


@pytest.fixture(scope="module")
def cited():
    return tiny.writer().cite("is it good ?", DOCUMENTS, answer=ANSWER, checker=classifier())


def test_a_checker_predicts_of_each_sentence_and_names_the_words_that_decide(cited):
    first, second = cited.checks
    assert (first.label, second.label) == ("contradiction", "entailment")
    assert first.words == ("never",)
    assert second.words == ("cat",)
    for check, sentence in zip(cited.checks, cited.sentences, strict=True):
        source = cited.text[slice(*cited.spans[check.source])]
        (alone,) = classifier()([(source, sentence.strip())])
        assert (alone.prediction.label, alone.prediction.probability) == (check.label, pytest.approx(check.probability))
    assert [support.check for support in cited.support] == list(cited.checks)
    assert "checker: contradiction" in cited.support[0].reason


def test_the_verdict_is_combined_with_the_readers_and_saved(cited, tmp_path):
    alone = tiny.writer().cite("is it good ?", DOCUMENTS, answer=ANSWER)
    assert alone.readings == cited.readings
    for before, after in zip(alone.support, cited.support, strict=True):
        said = {"entailment": "rests", "contradiction": "contradicts"}[after.check.label]
        if before.judgement == "cannot tell" and said == "contradicts":
            assert after.judgement == "contradicts"
        assert after.judgement in (before.judgement, said, "cannot tell")
        assert after.judgement != "rests" or before.covered > 0.9, "no checker passes an invention"
    comes_back(Attributions([cited, cited]), tmp_path)


def test_what_is_no_checker_is_refused():
    cite = partial(tiny.writer().cite, "is it good ?", DOCUMENTS, answer=ANSWER)
    other = classifier(("good", "bad", "other"))
    refused(InputError, "a label called entailment", lambda: cite(checker=other))
    refused(InputError, "verify=0 gives none", lambda: cite(checker=classifier(), verify=0))
