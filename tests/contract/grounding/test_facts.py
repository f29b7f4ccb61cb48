"""What a sentence has in common with its sources is a fact: no word that stands there is called missing."""

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from normxlogit import Explainer
from tests import tiny
from tests.contract.texts import chat

MUSEUM = {
    "visit.md": "# Your visit\n\n**Opening hours:** Tuesday to Sunday, 10–18. On Thursdays the museum stays open until "
    "20:00.\n\n* Admission is €12, reduced 8–10; children under 6 get in free.\n* The café was opened on 12 July 1998.",
    "history.txt": "The collection of Baroness Élise d’Arcy holds 1,200 paintings — about 50 of them are on display. "
    "It was given to the town in two thousand and one.",
    "japan.txt": "博物館は1998年に開館した。",
}
TRUE = [
    "Tuesday to Sunday, 10-18.",
    "On thursdays, the museum stays open until 20:00!",
    "Admission is €12, reduced 8-10; children under 6 get in free.",
    "The cafe\u0301 was opened on 12 July 1998.",
    "*It was given to the town* in two thousand and one.",
    "The Baroness E\u0301lise d'Arcy owned 1200 paintings.",
    "In July 1998, on the 12th, a cafe\u0301 opened.",
    "Some 50 paintings can be seen, of 1.200.",
    "博物館は 1998 年に開館した。",
]


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    """A reader of any script, with random weights: facts do not depend on it."""
    vocabulary = {character: i for i, character in enumerate(["[UNK]", *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    backend = Tokenizer(models.BPE(vocabulary, [], unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    model = tiny.model("llama", "CausalLM", vocab_size=300, max_position_embeddings=4000)
    return Explainer(model, PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]", eos_token="[UNK]"))


def test_true_sentences_in_another_form_are_not_accused(explainer):
    cited = explainer.cite("When?", MUSEUM, answer="\n\n".join(TRUE), verify=0)
    for sentence in cited.support:
        assert sentence.judgement in ("quoted", "supported", "cannot tell"), sentence
        said = {word.casefold() for word in sentence.missing}
        assert not any(any(map(str.isdecimal, word)) for word in said), sentence
        assert not said & {"july", "café", "cafe\u0301", "baroness", "paintings", "thursdays", "d'arcy"}, sentence
    quoted = [sentence.judgement == "quoted" for sentence in cited.support]
    assert quoted == [True, False, True, True, True, False, False, False, True]


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("name,revenue,margin\nCloud,412.7,88.1\nTape,320,1150", "In 2001 it was 412.7, then 88.1, 320 and 1,150."),
        ("ISBN 978-3-16-148410-0, box 10 20 30.", "It is 9783161484100, box 102030."),
        ("Fue en el siglo XXI, en el III acto.", "Fue en 21, en el 3."),
        ("In chapter 21.", "In chapter XXI."),
        ("L'œuvre est là.", "Et l'oeuvre est là."),
        ("Die Fahrradmitnahme am Abend.", "Am Abend ist die Mitnahme."),
        ("Se on Tampereelle tehty.", "Se on tehty Tampereella."),
        ("They keep both of them.", "- Every one of them."),
    ],
)
def test_what_a_person_finds_there_is_not_called_missing(explainer, source, sentence):
    (support,) = explainer.cite("In 2001?", [source], answer=sentence, verify=0).support
    assert not [word for word in support.missing if word.casefold() not in ("every", "sentence")]
    assert support.judgement != "missing"


def said_of(explainer, documents, answer, **options):
    (support,) = explainer.cite("When does it open?", documents, answer=answer, verify=0, **options).support
    return support


@pytest.mark.parametrize(
    ("answer", "missing"),
    [
        ("It was opened by Peter in 1974.", ("Peter", "1974")),
        ("It opens at 9 o'clock.", ()),
        ("It opens at 9:30.", ("9:30",)),
        ("It costs 4,90 for 1 200 people.", ()),
        ("Order 8 came on 09/05/2026.", ("8",)),
        ("Order 8 came on 09/05/2025.", ("8", "09/05/2025")),
        ("Only twenty may enter, and once.", ()),
        ("The order came on 9 May.", ()),
        ("A twelve-year-old may enter.", ()),
        ("Row 7 holds 120 of them.", ()),
        ("Row ７ holds １２０ of them.", ()),
    ],
)
def test_numbers_and_names_that_stand_nowhere_are_named(explainer, answer, missing):
    source = (
        "Opened at 9:00, costing 4.90, for 1.200 people of twelve years and old enough; clocked and ordered "
        "2026-05-09; nothing came later, so enter row 7 120 holding."
    )
    assert said_of(explainer, [source], answer).missing == missing


def test_words_of_the_question_and_of_names_are_not_missing(explainer):
    asked = explainer.cite("When did Mr Smith leave in 1980?", {"Brontë, 1847": "He left."}, answer="x", verify=0)
    assert asked.support[0].missing == ()
    for answer in ("They say Smith did in 1980.", "It was Bronte\u0308 in 1847."):
        cited = explainer.cite("When did Smith leave in 1980?", {"Brontë, 1847": "He left."}, answer=answer, verify=0)
        assert cited.support[0].missing == ()
    named = explainer.cite("When?", ["He left."] * 2, answer="He had 2.", verify=0)
    assert named.support[0].missing == ("2",)  # "document 2" is no statement


def test_a_quotation_is_a_whole_clause(explainer):
    source = "No dogs are allowed, and guests pay 5 euros; cats may stay."
    for answer, is_quoted in (
        ("Dogs are allowed.", False),
        ("No dogs are allowed", False),  # a comma may be followed by a condition
        (f"{source[:-1]}!", True),
        ("- **Cats** may stay!", True),
        ("guests pay 5", False),
        ("cats may", False),
    ):
        assert (said_of(explainer, [source], answer).judgement == "quoted") == is_quoted, answer


def test_a_sentence_is_shown_beside_its_nearest_source_with_the_words_that_differ(explainer):
    documents = {
        "a": "Shipping takes 5 days. Refunds are possible within 30 days of purchase.",
        "b": "Dogs stay outside.",
    }
    cited = explainer.cite("How long?", documents, answer="Refunds are never possible within 5 days.", verify=0)
    beside = cited.support[0].compared
    assert cited.names[beside.source] == "a:2"
    assert [cited.text[start:end] for start, end in beside.words] == ["never", "5"]
    assert [cited.text[start:end] for start, end in beside.source_words] == ["30", "of purchase"]
    drawn = " ".join(str(cited).split())
    assert "Refunds are *never* possible within *5* days." in drawn
    assert "Refunds are possible within *30* days *of purchase*." in drawn
    assert type(cited).from_dict(cited.to_dict()) == cited
    far = said_of(explainer, documents, "Refunds are in the annual report of the company.")
    assert far.compared is None  # most words of both would be in stars


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("Dogs are not allowed in the park.", "Dogs are allowed in the park."),
        ("Dogs may enter without a leash.", "Dogs may not enter without a leash."),
        ("They aren’t open on Sundays.", "They are open on Sundays."),
        ("It’s not bad to lie.", "It’s a sin to lie."),
        ("Im Mai ist das Bad nicht geöffnet.", "Im Mai ist das Bad geöffnet."),
        ("Das Bad ist nicht geöffnet.", "Im Mai ist das Bad geöffnet."),
        ("Hier ist kein Eingang.", "Hier ist noch ein Eingang."),
        ("Les chiens ne sont pas admis.", "Les chiens sont admis."),
        ("La entrada es sin coste.", "La entrada es con coste."),
        ("I cani non sono ammessi.", "I cani sono ammessi."),
        ("Os cães não podem entrar.", "Os cães podem entrar."),
        ("Hunden får inte komma in.", "Hunden får komma in."),
        ("Собакам не разрешается входить.", "Собакам разрешается входить."),
        ("Köpekler içeri giremez değil.", "Köpekler içeri girer."),
        ("الكلاب غير مسموح بها.", "الكلاب مسموح بها."),
        ("公园里不允许带狗。", "公园里允许带狗。"),
        ("犬は入れません。", "犬は入れます。"),
        ("개는 들어올 수 없습니다.", "개는 들어올 수 있습니다."),
        ("Δεν επιτρέπονται οι σκύλοι.", "Επιτρέπονται οι σκύλοι."),
        ("Le musée est ouvert tous les jours sauf le mardi.", "Le musée est ouvert le mardi."),
        ("It is open on all days except Monday.", "It is open on Monday."),
        ("Store it at −20 °C.", "Store it at 20 °C."),
        ("The margin was 6.4%.", "The margin was -6.4%."),
        ("ห้ามนำสุนัขเข้า", "นำสุนัขเข้าได้"),  # of its script no negation is known
    ],
)
def test_a_sentence_and_its_negation_are_opposed(explainer, source, sentence):
    for one, other in ((source, sentence), (sentence, source)):
        (facts,) = explainer.cite("When?", [one], answer=other, verify=0).facts
        assert facts.opposed == (0,), (one, other)


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("Das Bad ist ab dem 5. Mai geöffnet.", "Im Mai ist das Bad geöffnet."),
        ("Das Bad öffnet am 5.5.", "Im Mai öffnet das Bad."),
        ("Das Bad ist offen.", "Das Bad ist noch offen."),
        ("Victor Hugo naquit en 1802.", "Victor Hugo est né en 1802."),
        ("Il museo possiede cinquanta quadri.", "Il museo ne possiede un'altra cinquantina."),
        ("The dogs must never come in.", "Dogs may not come in."),
        ("Los perros nunca entran.", "Los perros no entran nada."),
        ("Nunca abre.", "No abre."),
        ("A sin is told of.", "Of a sin they tell."),
        ("They are noted in Nova.", "Known and noted in Nova."),
    ],
)
def test_words_that_are_no_negation_oppose_nothing(explainer, source, sentence):
    for one, other in ((source, sentence), (sentence, source)):
        (facts,) = explainer.cite("When?", [one], answer=other, verify=0).facts
        assert facts.opposed == (), (one, other)


def test_results_of_tools_are_read_as_their_values(explainer):
    result = (
        '{"status": "confirmed", "note": "caf\\u00e9 \\"Zum Anker\\"", "total": 1200.0, "when": "2026-05-09T09:30:00"}'
    )
    messages = [
        {"role": "user", "content": "What of my order?"},
        {"role": "tool", "name": "look_up", "content": result},
        {"role": "assistant", "content": "The café Zum Anker has confirmed it for 1,200 at 9:30 on 9 May."},
    ]
    cited = explainer.cite(messages=messages, verify=0)
    assert cited.support[0].missing == ()
    quoting = [*messages[:2], {"role": "assistant", "content": 'café "zum Anker"'}]
    assert explainer.cite(messages=quoting, verify=0).support[0].judgement == "quoted"
    unsaid = [*messages[:2], {"role": "assistant", "content": "It is delivered on 10 May."}]
    missing = explainer.cite(messages=unsaid, verify=0).support[0]
    assert missing.missing == ("delivered", "10")


def test_keys_around_a_value_and_titles_are_not_missing(explainer):
    result = '{"address": {"city": "Paris", "items": [{"productName": "Kettle"}]}, "isPaid": true}'
    messages = [
        {"role": "user", "content": "What of my order?"},
        {"role": "tool", "name": "look_up", "content": result},
        {"role": "assistant", "content": "The address is in Paris, the product of the items is Kettle, and paid."},
    ]
    assert explainer.cite(messages=messages, verify=0).support[0].missing == ()
    named = explainer.cite(
        "When?", {"Report 2023, Müller.pdf": "It rose."}, answer="The 2023 report of Muller.", verify=0
    )
    assert named.support[0].missing == ()


def test_what_a_template_leaves_out_was_said_all_the_same():
    template = tiny.CHAT_TEMPLATE.replace("in messages %}", "in messages if 'keys' not in m.content %}")
    said = chat(("user", "The 42 keys are here."), ("user", "Is it here?"), ("assistant", "Here are 42 and 43."))
    cited = tiny.writer(template=template).cite(messages=said, verify=0)
    assert cited.support[0].missing == ("43",)


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("Les chiens sont admis ?", "Les chiens sont admis."),
        ("Adults pay 6.50 euros and children pay 3.20 euros.", "Adults pay 3.20 euros and children pay 6.50 euros."),
        ("Acme sued Globex in 2019.", "Globex sued Acme in 2019."),
        ("The library opens at 8:00 on weekdays.", "When the library opens at 9 on weekdays."),
    ],
)
def test_the_same_words_may_say_something_else(explainer, source, sentence):
    (facts,) = explainer.cite("Does it open at 9?", [source], answer=sentence, verify=0).facts
    assert facts.doubtful == (0,)
    assert facts.quoted == ()
    (same,) = explainer.cite("Does it open at 9?", [source], answer=source, verify=0).facts
    assert same.doubtful == ()
    assert same.quoted == (0,)


def test_neighbours_may_change_places(explainer):
    for source, sentence in (
        ("On 1 March 2024 they left with Anna.", "They left on March 1st, 2024 with Anna."),
        ("It was 2026-05-09.", "It was on 9 May 2026."),
    ):
        (facts,) = explainer.cite("When?", [source], answer=sentence, verify=0).facts
        assert facts.doubtful == (), sentence


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("At most 4 g in all, of 6.25 kg.", "At most 4000 mg in all, of 6250 grams."),
        ("Add 2½ cups, and 1/2 spoon.", "Add 2.5 cups, and 0.5 spoon."),
        ("成人票价为三十元。", "成人票30元。"),
        ("Sat 10–18h, Feb closed.", "On Saturdays till 6 pm, in February closed."),
        ("It holds 100 GB and takes 5 s at 25°C.", "It holds 100 gigabytes, takes 5 seconds at 25 degrees."),
    ],
)
def test_what_may_stand_there_in_another_form_is_not_missing(explainer, source, sentence):
    missing = said_of(explainer, [source], sentence).missing
    assert not [word for word in missing if word != "成人票"]
