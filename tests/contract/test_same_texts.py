"""A text is found in whatever way it is written: names of labels, words to leave out, places and lists of words."""

import unicodedata

import pytest

from normxlogit import Attributions, Explainer, InputError, NormXLogitError
from tests import tiny


def decomposed(text: str) -> str:
    return unicodedata.normalize("NFD", text)


WAYS = {
    "decomposed": ("Köln", decomposed("Köln")),
    "composed": (decomposed("Köln"), "Köln"),
    "full width": ("Ｋöln", "Köln"),
    "case": ("STRASSE", "Straße"),
    "digits": ("٢٠٢٤", "2024"),
    "apostrophe": ("don’t", "don't"),
    "dash": ("8–12", "8-12"),
    "soft hyphen": ("Wonder\u00adful", "wonderful"),
    "half space": ("می\u200cخواهم", "میخواهم"),
    "line's end": ("wonder-\nful", "wonderful"),
    "compound at a line's end": ("well-\nknown", "well-known"),
    "bold": ("**wonderful**", "wonderful"),
    "asked in bold": ("wonderful", "**wonderful**"),
    "link": ("[wonderful film](https://a.b/c)", "wonderful film"),
    "Chinese": ("电影很好", "很好"),
    "Chinese in bold": ("电影**很好**", "很好"),
    "Japanese, half width": ("ｶﾞｽ", "ガス"),
    "Korean": (decomposed("영화"), "영화"),
    "vowels": ("كِتَاب", "كتاب"),
    "tatweel": ("كتـــاب", "كتاب"),
    "Hebrew points": ("שָׁלוֹם", "שלום"),
    "quotation marks": ("“so good”", '"so good"'),
}


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    return Explainer.from_pretrained()


@pytest.mark.parametrize("way", WAYS)
def test_words_to_leave_out_are_found(explainer: Explainer, way: str) -> None:
    written, asked = WAYS[way]
    text = f"a bad film , {written} or not , and boring"
    start = text.index(written)
    body = explainer.without(text, [asked])
    places = [place for place, word in enumerate(explainer(text).words()) if start <= word.start < start + len(written)]
    assert places
    verified = explainer(text, verify=[asked, "bad"]).verified
    assert verified.single[0].value == body.value
    assert set(verified.single[0].tokens) <= {t for i in places for t in explainer(text).words()[i].tokens}


def test_a_word_is_left_out_wherever_it_stands_in_any_case(explainer: Explainer) -> None:
    text = f"Bad film , so **BAD** , bad and {decomposed('bäd')}"
    (removal,) = explainer(text, verify=["bad"]).verified.single
    assert [explainer(text).units.text[token] for token in removal.tokens] == ["bad"] * 3
    for absent in ("ba", "d", "baad", "film so"):
        with pytest.raises(InputError, match="there is no"):
            explainer.without(text, [absent])


LABELS = {0: "Köln", 1: "don’t know", 2: "很好", 3: "non-toxic", 4: "كتاب", 5: "B-PER", 6: "I-PER", 7: "a", 8: "A"}
CALLED = [
    (decomposed("KÖLN"), 0),
    ("Don't  know", 1),
    ("“don't know”", None),
    ("很 好", 2),
    ("NON‑TOXIC", 3),
    ("كِتاب", 4),
]
CALLED += [("b-per", 5), ("i-per", 6), ("a", 7), ("A", 8), ("Koln", None), ("ａ", None)]


@pytest.mark.parametrize(("name", "index"), CALLED)
def test_labels_are_found_by_name(name: str, index: int | None) -> None:
    made = tiny.model("bert", num_labels=len(LABELS), id2label=LABELS, label2id={n: i for i, n in LABELS.items()})
    classifier = Explainer(made, tiny.tokenizer_for("bert"))
    if index is None:
        with pytest.raises(NormXLogitError, match=r"no label|more than one label"):
            classifier(tiny.TEXTS[0], target=name)
        return
    a = classifier(tiny.TEXTS[0], target=name)
    assert a.target.id == index
    several = classifier(tiny.TEXTS[0], target=list(range(len(LABELS))))
    assert several[name].target.id == index
    assert [r.prediction.label for r in Attributions([a]).filter(label=decomposed(a.prediction.label))] == [
        a.prediction.label
    ]
    with pytest.raises(NormXLogitError, match="also the contrast"):
        classifier(tiny.TEXTS[0], target=name, contrast=LABELS[index])


def test_tokens_are_found_in_both_of_unicodes_forms() -> None:
    writer = tiny.explainer("gpt2", "CausalLM")
    assert writer("the movie", target=decomposed("movie")).target.name == "movie"


def test_a_place_is_found_by_what_stands_there() -> None:
    tagger = tiny.explainer("bert", "TokenClassification")
    for position in ("movie", "MOVIE", "**movie**", "mov\u00adie"):
        assert tagger("the movie is bad", position=position).target.position == 2
    with pytest.raises(InputError, match="once"):
        tagger("the movie is bad", position="the film")


def test_lists_of_words_count_a_word_once(explainer: Explainer) -> None:
    many = explainer(["a Wonderful film", "wonder\u00adful", "WONDERFUL , don’t", "don't"])
    words = {word.text: word.texts for word in many.top(20)}
    assert (words["wonderful"], words["don't"]) == (3, 2)
    assert set(words) == {"a", "wonderful", "film", "don't"}


def test_sentences_are_those_of_a_reader(explainer: Explainer) -> None:
    table, code = "| a | b |\n|---|:-:|\n| 1 | 2 |", "```python\nx = items[1]. Y\n```"
    text = f"Am 5. Mai war es bad. Nun ist es gut.\n\n---\n\n{table}\n\n{code}\n\n😀\n\n好。坏。"
    removed = {removal.units[0] for removal in explainer(text, verify="sentence").verified.single}
    rows = {"| a | b |", "| 1 | 2 |"}
    assert removed == {"Am 5. Mai war es bad.", "Nun ist es gut.", "x = items[1]. Y", "好。", "坏。"} | rows


def test_an_answer_without_a_sentence_is_one_part() -> None:
    g = tiny.explainer("gpt2", "CausalLM").explain_completion("the movie is good .", " . . !")
    assert [target.name for target in g.group_targets("sentence").targets] == [". . !"]
