"""A second opinion on the sentences of an answer: a model that was trained to say whether a text supports another."""

from functools import partial

import pytest
import torch
from torch import nn

from normxlogit import Attributions, Explainer, InputError
from normxlogit.grounding import Checker, Pair
from tests import tiny
from tests.contract.compare import comes_back, refused

LABELS = ("entailment", "neutral", "contradiction")
DOCUMENTS = {"film": "The movie is good. The plot is never bad. A cat sat on the mat."}
ANSWER = "The movie is never great. The cat is here."
CARD = "it was said : {source} so {sentence}"


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


class Tagger(Weighed):
    """The same for each token by itself: "never" is not supported, "cat" is."""

    def forward(self, input_ids, attention_mask=None, **_):
        return self.classifier(self.embedding(input_ids))[..., [0, 2]]


def classifier(labels=LABELS):
    return Explainer(Weighed(), tiny.tokenizer(), task="sequence-classification", labels=labels)


def tagger():
    return Explainer(Tagger(), tiny.tokenizer(), task="token-classification", labels=["supported", "hallucinated"])


def cite(**options):
    return tiny.writer().cite("is it good ?", DOCUMENTS, answer=ANSWER, **options)


@pytest.fixture(scope="module")
def cited():
    return cite(checker=classifier())


def test_a_checker_predicts_of_each_sentence_and_names_the_words_that_decide(cited):
    first, second = (support.check for support in cited.support)
    assert (first.label, second.label) == ("contradiction", "entailment")
    assert (first.words, second.words) == (("never",), ("cat",))
    for support in cited.support:
        source = cited.text[slice(*cited.spans[support.check.source])]
        (alone,) = classifier()([(source, support.text.strip())])
        assert alone.prediction.label == support.check.label
        assert alone.prediction.probability == pytest.approx(support.check.probability)
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


def test_a_template_is_filled_as_the_card_says():
    checker = Checker(classifier(), template=CARD)
    (check,) = checker.compare([cited_pairs("A cat sat.", "The plot is never bad.")])
    (alone,) = classifier()(["it was said : The plot is never bad. so A cat sat."])
    assert (check.label, check.probability) == (alone.prediction.label, pytest.approx(alone.prediction.probability))
    assert (check.source_words, check.words) == (("never",), ())


def cited_pairs(sentence, *sources):
    return [Pair("is it good ?", source, sentence) for source in sources]


def test_one_source_that_entails_decides_and_others_do_not():
    (check,) = Checker(classifier()).compare([cited_pairs("It is here.", "the film", "a cat and a cat", "the plot")])
    assert (check.source, check.label) == (1, "entailment")


@pytest.mark.parametrize(("family", "kind"), [("t5", "Seq2SeqLM"), ("llama", "CausalLM")])
def test_a_model_that_writes_its_label_is_asked_for_the_likelier_one(family, kind):
    model, tokenizer = tiny.model(family, kind), tiny.tokenizer_for(family)
    opinions = {"good": "entails", "bad": "unsupported"}
    checker = Checker(Explainer(model, tokenizer), template=CARD, labels=opinions)
    (check,) = checker.compare([cited_pairs("A cat sat.", "The plot is never bad.")])
    ids = tokenizer("it was said : The plot is never bad. so A cat sat.", return_tensors="pt")
    inputs = {"input_ids": ids["input_ids"]}
    if family == "t5":
        inputs["decoder_input_ids"] = torch.tensor([[model.config.decoder_start_token_id]])
    with torch.inference_mode():
        logits = model(**inputs).logits[0, -1]
    good, bad = logits[tokenizer.convert_tokens_to_ids(list(opinions))].softmax(0).tolist()
    label, probability = ("good", good) if good > bad else ("bad", bad)
    assert (check.label, check.opinion) == (label, opinions[label])
    assert check.probability == pytest.approx(probability, abs=1e-5)


def test_a_classifier_of_tokens_marks_words():
    first, second = (support.check for support in cite(checker=tagger()).support)
    assert (first.words, first.label, first.opinion) == (("never",), "hallucinated", "unsupported")
    assert (second.words, second.opinion) == ((), "entails")


def test_a_classifier_of_tokens_may_answer_at_one_of_them():
    checker = Checker(tagger(), template="{sentence} {source}", position=1)
    entailed, unsupported = checker.compare([cited_pairs("cat", "it"), cited_pairs("never", "it")])
    assert (entailed.opinion, unsupported.opinion) == ("entails", "unsupported")


def test_what_a_checker_does_not_support_is_not_called_supported():
    for support in cite(checker=tagger()).support:
        if support.check.opinion == "unsupported":
            assert support.judgement in ("quoted", "cannot tell", "missing", "not in the sources")


def test_what_is_no_checker_is_refused():
    other = classifier(("good", "bad", "other"))
    refused(InputError, "which label", lambda: cite(checker=other))
    refused(InputError, "no label 'yes'", lambda: Checker(other, labels={"yes": "entails"}))
    refused(InputError, "template=", lambda: Checker(classifier(), template="{premise}"))
    written = tiny.explainer("t5", "Seq2SeqLM")
    refused(InputError, "which label", lambda: Checker(written, template=CARD))
    refused(InputError, "needs template=", partial(Checker, written, labels={"yes": "entails"}))
    number = tiny.explainer("bert", num_labels=1)
    refused(InputError, "predicts a number", partial(Checker, number, labels={"LABEL_0": "entails"}))
