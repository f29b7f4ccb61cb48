"""Tokenizers that report no offsets: their tokens are found in the text, or words of it are refused."""

import json
import random

import numpy as np
import pytest
import sentencepiece
import torch
import transformers
from tokenizers import BertWordPieceTokenizer

from normxlogit import ALL, DataError, Explainer
from tests import tiny
from tests.abilities import PythonBertTokenizer

TEXT = "The naïve  movie is great. Fine ﬁlm… what is ☃?"
WORDS = ["The", "naïve", "movie", "is", "great", ".", "Fine", "ﬁlm", "…", "what", "is", "☃", "?"]

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")

PIECES = "the a movie Film is GREAT greatly naïve café plot . , ! zebra ☃ 中文 国 don't 3.14 [MASK] … “what” ßt $5 a+b"
PIECES += " #x films ﬁne \u200b \xad e\u0301 ａｂ"

SIZES = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
SIZES |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "max_position_embeddings": 256}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of a SentencePiece model and of vocabularies."""
    folder = tmp_path_factory.mktemp("slow")
    lines = ["the movie is not good but a great film with charm", "naive cafe plot never awful, maybe!", "Das ist ein"]
    (folder / "lines.txt").write_text("\n".join([*lines, "fine films: \"what\" 'is' it? 3.14 ..."] * 5))
    files = {"input": str(folder / "lines.txt"), "model_prefix": str(folder / "spm")}
    sentencepiece.SentencePieceTrainer.train(**files, vocab_size=80, hard_vocab_limit=False, minloglevel=2)
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spm.model"))
    pieces = [model.id_to_piece(index) for index in range(3, model.get_piece_size())]
    names = ["</s>", "<unk>", *pieces, "<pad>"]
    (folder / "marian.json").write_text(json.dumps({piece: index for index, piece in enumerate(names)}))
    (folder / "vocab.txt").write_text("\n".join(tiny.VOCABULARY))
    return folder


@pytest.fixture(scope="module")
def marian(folder):
    spm = str(folder / "spm.model")
    tokenizer = transformers.MarianTokenizer(source_spm=spm, target_spm=spm, vocab=str(folder / "marian.json"))
    pad = tokenizer.pad_token_id
    ids = {"pad_token_id": pad, "eos_token_id": 0, "decoder_start_token_id": pad, "forced_eos_token_id": 0}
    config = transformers.MarianConfig(vocab_size=len(tokenizer), **SIZES, **ids)
    return Explainer(tiny.random_model(transformers.MarianMTModel, config), tokenizer)


@pytest.fixture(scope="module")
def byt5():
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
    config = transformers.T5Config(vocab_size=384, decoder_start_token_id=0, **sizes)
    return Explainer(tiny.random_model(transformers.T5ForConditionalGeneration, config), transformers.ByT5Tokenizer())


@pytest.fixture(scope="module")
def bert(folder):
    return Explainer(tiny.model("bert"), PythonBertTokenizer(str(folder / "vocab.txt")))


@pytest.fixture(scope="module", params=["marian", "byt5"])
def writer(request):
    return request.getfixturevalue(request.param)


def test_what_a_completion_rests_on_are_words_and_sentences_of_the_text(writer):
    g = writer.explain_completion(TEXT, "Das ist ein")
    words = [word.text for word in g.words() if word.end <= len(g.prompt) and word.text.strip()]
    unknown = "☃" not in words  # what the tokenizer does not know is no word of a prompt
    assert words == [word for word in WORDS if word != "☃" or not unknown]
    assert all(g.text[word.start : word.end] == word.text for word in g.words())
    rest = [token for token in range(g.text_units) if token not in {t for word in g.words() for t in word.tokens}]
    sums = sum(word.score for word in g.words()) + g.scores[:, rest].sum(-1)
    np.testing.assert_allclose(sums, g.scores.sum(-1), atol=1e-4)
    sources = g.sources("sentence")
    assert sources.units.text[:2] == ("The naïve  movie is great.", "Fine ﬁlm… what is ☃?")


def test_characters_of_canine_are_the_texts():
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    config = transformers.CanineConfig(num_hash_buckets=64, num_hash_functions=2, local_transformer_stride=32, **sizes)
    torch.manual_seed(0)
    model = transformers.CanineForSequenceClassification(config).eval()
    result = Explainer(model, transformers.CanineTokenizer())(TEXT)
    assert result.offsets[1:-1] == tuple((place, place + 1) for place in range(len(TEXT)))
    assert [word.text for word in result.words() if word.text.strip()] == WORDS


def test_words_of_berts_python_tokenizer_are_removed_and_grouped(bert):
    result = bert(TEXT, verify=3)
    assert [word.text for word in result.words()] == WORDS
    assert {removal.units[0] for removal in result.verified.single} <= set(WORDS)
    np.testing.assert_allclose(result.group("word").scores.sum(), result.scores.sum(), atol=1e-5)
    pair = bert(("the naïve film", TEXT))
    assert [word.text for word in pair.words(sequence=1)] == WORDS


def test_offsets_are_those_of_the_fast_tokenizer(bert, folder):
    fast, draw = BertWordPieceTokenizer(str(folder / "vocab.txt")), random.Random(0)
    for _ in range(300):
        text = "".join(draw.choice(PIECES.split(" ")) + draw.choice([" ", "  ", "\n", ""]) for _ in range(8))
        expected = fast.encode(text)
        if len(expected.ids) <= 2:
            continue
        (encoding,) = bert.encode(text, max_length=38)
        assert encoding.ids == expected.ids[: len(encoding) - 1] + expected.ids[-1:]
        for ours, theirs in list(zip(encoding.offsets, expected.offsets, strict=False))[1:-1]:
            kept = [text[slice(*span)].strip("\u200b\xad \u0301\n") for span in (ours, theirs)]
            assert kept[0] == kept[1], text


def test_words_that_the_caller_has_split(folder):
    tagger = Explainer(tiny.model("bert", "TokenClassification"), PythonBertTokenizer(str(folder / "vocab.txt")))
    words = ["The", "U.S.", "zebra's", "☃☃ film", "naïve"]
    result = tagger(words, is_split_into_words=True, position=ALL)
    assert [word.text for word in result.words()] == words
    assert list(result.token_ids) == tagger.tokenizer(words, is_split_into_words=True)["input_ids"]
    assert [target.name.rpartition(":")[0] for target in result.targets] == words


class Forgetting(PythonBertTokenizer):
    """A tokenizer that knows "the" between other words alone."""

    def _tokenize(self, text, **options):
        return ["[UNK]", "the", "[UNK]"]


def test_tokens_that_may_stand_at_several_places_have_no_words(folder):
    explainer = Explainer(tiny.model("bert"), Forgetting(str(folder / "vocab.txt")))
    with pytest.raises(DataError, match="character offsets"):
        explainer("cat the bad the sat").words()
