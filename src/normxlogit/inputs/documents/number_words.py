"""Cardinal numbers from two to a hundred in words: English, German, French, Spanish and Italian.

One is left out: in most languages its word is the article, too.
"""

from collections.abc import Callable

_ENGLISH = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen",
    "twenty thirty forty fifty sixty seventy eighty ninety",
)
_GERMAN = (
    "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn "
    "achtzehn neunzehn",
    "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
)
_FRENCH = (
    "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept dix-huit "
    "dix-neuf",
    "vingt trente quarante cinquante soixante soixante quatre-vingt quatre-vingt",
)
_SPANISH = (
    "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis diecisiete "
    "dieciocho diecinueve veinte veintiuno veintidós veintitrés veinticuatro veinticinco veintiséis veintisiete "
    "veintiocho veintinueve",
    "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa",
)
_ITALIAN = (
    "zero uno due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici sedici "
    "diciassette diciotto diciannove",
    "venti trenta quaranta cinquanta sessanta settanta ottanta novanta",
)


def _english(ten: str, unit: str) -> str:
    return f"{ten}-{unit}" if unit else ten


def _german(ten: str, unit: str) -> str:
    return f"{unit}und{ten}" if unit else ten


def _french(ten: str, unit: str) -> str:
    if not unit:
        return f"{ten}s" if ten == "quatre-vingt" else ten
    return f"{ten} et {unit}" if unit in ("un", "onze") and ten != "quatre-vingt" else f"{ten}-{unit}"


def _spanish(ten: str, unit: str) -> str:
    return f"{ten} y {unit}" if unit else ten


def _italian(ten: str, unit: str) -> str:
    if not unit:
        return ten
    return (ten[:-1] if unit[0] in "uo" else ten) + ("tré" if unit == "tre" else unit)


def _up_to_a_hundred(words: tuple[str, str], joined: Callable[[str, str], str], hundred: str) -> tuple[str, ...]:
    """Return the words of the numbers from 0 to 100."""
    small, tens = (part.split() for part in words)
    numbers = list(small)
    for number in range(len(small), 100):
        ten = tens[number // 10 - 2]
        beyond = number % 20 if joined is _french and number >= 60 else number % 10  # soixante-dix, quatre-vingt-onze
        numbers.append(joined(ten, small[beyond] if beyond else ""))
    return (*numbers, hundred)


_OTHER_WORDS = frozenset({"elf", "cent", "once", "due", "sei", "otto", "sept"})
"""Number words that are other words in another of the languages; they count as none."""

NUMBERS = {
    word.replace(" ", "-"): number
    for words in (
        _up_to_a_hundred(_ENGLISH, _english, "hundred"),
        _up_to_a_hundred(_GERMAN, _german, "hundert"),
        _up_to_a_hundred(_FRENCH, _french, "cent"),
        _up_to_a_hundred(_SPANISH, _spanish, "cien"),
        _up_to_a_hundred(_ITALIAN, _italian, "cento"),
    )
    for number, word in enumerate(words)
    if number > 1 and word not in _OTHER_WORDS
}
"""The number of each number word, with hyphens in the place of spaces."""
