"""A second opinion on the verdicts: a classifier of pairs of texts that knows entailment; it alone may contradict."""

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
    checks = [support.check for support in cited.support]
    first, second = checks
    assert (first.label, second.label) == ("contradiction", "entailment")
    assert first.words == ("never",)
    assert second.words == ("cat",)
    for check, sentence in zip(checks, cited.sentences, strict=True):
        source = cited.text[slice(*cited.spans[check.source])]
        (alone,) = classifier()([(source, sentence.strip())])
        assert (alone.prediction.label, alone.prediction.probability) == (check.label, pytest.approx(check.probability))
    assert "checker: contradiction" in cited.support[0].reason


def test_contradictions_are_said_by_the_checker_alone(cited, tmp_path):
    alone = tiny.writer().cite("is it good ?", DOCUMENTS, answer=ANSWER)
    assert alone.readings == cited.readings
    assert not any(support.judgement == "contradicts" or support.check for support in alone.support)
    assert [support.judgement for support in cited.support] == ["contradicts", "supported"]
    contradicted = cited.support[0]
    assert contradicted.sources == (contradicted.check.source,)
    assert contradicted.verdict == f"contradicts [{contradicted.citations[0]}]"
    assert "contradicts the documents" in cited.summary
    assert "contradict" not in str(alone)
    comes_back(Attributions([cited, cited]), tmp_path)


def test_a_checker_overrules_no_fact():
    answer = "The cat sat in 1974. The plot is never bad."
    missing, quoted = tiny.writer().cite("is it good ?", DOCUMENTS, answer=answer, checker=classifier()).support
    assert missing.check.opinion == "entails"
    assert missing.judgement != "supported"
    assert missing.missing == ("1974",)
    assert quoted.check.opinion == "contradicts"
    assert quoted.judgement == "quoted"
    untested = tiny.writer().cite("is it good ?", DOCUMENTS, answer=ANSWER, checker=classifier(), verify=0)
    assert [support.judgement for support in untested.support] == ["contradicts", "supported"]


def test_what_is_no_checker_is_refused():
    cite = partial(tiny.writer().cite, "is it good ?", DOCUMENTS, answer=ANSWER)
    other = classifier(("good", "bad", "other"))
    refused(InputError, "a label called entailment", lambda: cite(checker=other))
