"""Numbers, dates and names that are written in another way stand in a source; others do not."""

import pytest

from normxlogit.grounding.facts import ComparedText, all_words, is_stated


def missing(source, sentence):
    text = ComparedText(source)
    stated = [word for word in all_words(sentence) if is_stated(word)]
    return [word.text for word in stated if word.kind != "numeral" and not text.has(word.text, word.kind)]


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("It cost 1,000.", "It cost 1000, 1.000, 1 000 or 1'000."),
        ("It cost 1,00,000 rupees.", "It cost 100000 rupees, or 1,00,000."),
        ("With 250 dogs and 3,000,000 cats.", "With two hundred and fifty dogs and three million cats."),
        ("Two hundred and fifty dogs, three million cats.", "There, 250 dogs and 3,000,000 cats."),
        ("Vingt et un chats.", "Les 21 chats."),
        ("Zwölf Katzen, zweihundert Hunde.", "Die 12 Katzen, die 200 Hunde."),
        ("For 3,5 Millionen Euro.", "For 3.500.000 Euro."),
        ("Kosten: 3,5 Mio. €.", "Kosten 3.500.000 Euro."),
        ("From 17:30 to 12h45.", "It is 5:30 p.m., or 12:45, till 17:30."),
        ("At 5 p.m.", "It is 17:00."),
        ("They won 3:1, 5’4 and 2-0-1.", "It was 3:1, 5’4, 2-0-1."),
        ("From 2019–21.", "It was 2021."),
        ("May 9, 2026.", "On 9/5/26, 05/09/2026 and 2026-05-09."),
        ("Музей открыт с 12 июля 1998 года.", "Музей 12.07.1998."),
        ("Le 12 juillet 1998.", "Le 1998-07-12."),
        ("½ of them, 5km away, 10-12 days.", "There 1/2, 5 km, 10 to 12."),
        ("المتحف في الساعة ٩ و٣٫٥", "المتحف 9 في 3.5"),
        ("Co\u00adopera\u00adtion in the ofﬁce | 3,500 |", "There, cooperation, 3500, office."),
        ("It cost 10 000,50.", "It cost 10,000.50 or 10000.5."),
        ("It opens at 12.30.", "It opens at 12:30."),
        ("From 09:30:00 on.", "It is 9:30."),
        ("It is 9 a.m. in the U.S.A.", "At 9 AM in the USA."),
        ("It rose by 12.5% to $3.5M.", "It rose by 12,5 percent to 3.5 million dollars."),
        ("Some 3,500,000 people.", "Some 3.5 million people."),
        ("Some 3.5 million people.", "Some 3,500,000 people."),
        ("The 3rd of twelve, twenty-four in all.", "On 3 of 12 and 24, the third."),
        ("Henry the Eighth.", "By Henry the 8th."),
        ("On 5 March 2024.", "On 2024-03-05, 5.3.2024 and 5/3/2024."),
        ("On 05/03/2024, a Tue.", "On 5 March 2024, a Tuesday."),
        ("Only .5 there.", "There 0.5 only."),
        ("Dvořák and ΑΘΗΝΑ.", "By Dvorak, Αθήνα."),
        ('"orderStatus": "confirmed"', "The status, order, confirmed."),
    ],
)
def test_another_way_to_write_it_stands_there(source, sentence):
    assert not [word for word in missing(source, sentence) if word not in ("There", "Some")]


@pytest.mark.parametrize(
    ("source", "sentence", "expected"),
    [
        ("It cost 1,000.", "It cost 100 or 10,000 or 1,001.", ["100", "10,000", "1,001"]),
        ("One of them came, the first of 1.", "It cost 1,000 or 1 000.", ["1,000", "1 000"]),
        ("Two of them came, for €17.30.", "It cost 3, or 5.30.", ["3", "5.30"]),
        ("On 9 May 2026.", "On 2025-05-09, 19.5.2026 and 9/5/24.", ["2025-05-09", "19.5.2026", "9/5/24"]),
        ("None of them, once.", "Only 13 came.", ["13"]),
        ("It opens at 9:00 and closes at 17:30.", "It opens 9:30.", ["9:30"]),
        ("It has rooms, and is open at 9:00.", "It has 21 rooms.", ["21"]),
        ("You may pay 12 euros.", "On 5 May.", ["5"]),
        ("I pay 12 euros.", "With 1 euro.", ["1"]),
        ("Some 3.5 million.", "Some 35 million, 3.6.", ["35 million", "3.6"]),
        ("Twenty-one cats.", "With 22 cats.", ["22"]),
        ("By Susanna.", "By Anna.", ["Anna"]),
    ],
)
def test_another_number_or_name_does_not(source, sentence, expected):
    assert [word for word in missing(source, sentence) if word not in ("opens", "million")] == expected


@pytest.mark.parametrize(
    "text",
    [
        "المتحف يُفتح في الساعة التاسعة صباحًا، وثمن التذكرة ١٢ دينارًا.",
        "博物馆于1998年开放，门票12元，第三十五号。",
        "संग्रहालय सुबह ९ बजे खुलता है; टिकट ₹१,२०० का है।",
        "Музей открывается в 9 часов; билет стоит 1 200 рублей.",
        "L’été, l’hôtel n’ouvre qu’à 9h30 ; ça coûte 1 200,50 € (½ tarif).",
        "O’Brien’s co‑operation; U.S.A. and Ph.D. students' e-mail, the co\u00adopera\u00adtion of ﬁrst oﬃces.",
        "| Berlin | 3,500 | 12 % |\n|---|---|---|\n| **Köln** | `x_1` | [A](http://b.c/d?e=1) |",
        "Twenty-one-year-old, forty‑two, F-16, B2B, COVID-19, v2.0.1-rc1, 127.0.0.1, 12/25, won 3:1, 5’4, AT&T.",
        "On 2026-05-09T09:30:00Z or 9.5.26, 10–12 km, −5 °C, 5′ 6″, 1e6, 10^3, x², Ⅻ, 99999999999999999999 million.",
    ],
)
def test_each_word_of_a_text_stands_in_it(text):
    compared = ComparedText(text)
    assert [word.text for word in all_words(text) if not compared.has(word.text, word.kind)] == []
