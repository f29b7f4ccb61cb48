"""Whether one of two texts says "not" and the other does not: then neither supports the other.

A word that takes something out, such as "except", counts as "not".
"""

import regex

from ..text.characters import UNSPACED
from ..text.same import comparable

LANGUAGES = """
no not never none nobody nothing nowhere neither nor without cannot n't except unless excluding
nicht kein keine keinen keinem keiner keines nie niemals ohne weder außer ausgenommen
pas jamais aucun aucune sans rien sauf excepté hormis
no nunca jamás sin ningún ninguno ninguna nada nadie salvo excepto
no non senza nessun nessuno nessuna tranne eccetto salvo
não nunca sem nem nenhum nenhuma salvo exceto
niet geen nooit zonder behalve tenzij
inte ingen inget inga aldrig utan utom förutom
ikke ingen intet aldri aldrig uten uden unntatt undtagen
nie bez nigdy żaden żadna oprócz
не нет ни без никогда ні кроме
δεν δε μην μη χωρίς κανείς καμία κανένας ποτέ τίποτα ούτε εκτός
değil yok hariç
لا ليس لم لن غير بدون إلا عدا
לא אין בלי מלבד
नहीं मत बिना सिवाय
不 没 沒 無 无 未 除
ない ません
않 없 아니 제외
"""
"""Words by which sentences are negated, a language on each line.

Left out are words that are ordinary in another of these languages, where their own has a "not" beside them: Italian
"mai" (German May) and "né" (French born), French "ne" (Italian of it), Dutch "noch" (German still).
"""

_WORD = regex.compile(r"[\p{L}\p{M}]+")
_FOREIGN = regex.compile(
    r"[\p{L}--[\p{Latin}\p{Greek}\p{Cyrillic}\p{Arabic}\p{Hebrew}\p{Devanagari}\p{Han}\p{Hiragana}\p{Katakana}"
    r"\p{Hangul}\p{Common}]]|(?<![\w)])-(?=\d)",
    regex.V1,
)
"""A letter of a script of which no negation is listed: a text with another such letter may say "not". And a minus."""
_PART = regex.compile(rf"[{UNSPACED}\p{{Hangul}}']")
"""What tells a part of a word, or of a text without spaces, from a whole word."""

_LANGUAGES = [frozenset(comparable(word).text for word in line.split()) for line in LANGUAGES.strip().splitlines()]
_NEGATIONS = frozenset[str]().union(*_LANGUAGES)
_PARTS = frozenset(filter(_PART.search, _NEGATIONS))


def negations_in(form: str) -> frozenset[str]:
    """Return the words, and parts of words, by which a text is negated.

    Args:
        form: A text in the form in which texts are compared.
    """
    # Parts are looked for inside words, whole negations only as words: "no" is not in "north".
    parts = {part for part in _PARTS if part in form}
    return _NEGATIONS.intersection(_WORD.findall(form)) | parts | {*_FOREIGN.findall(form)}


def are_opposed(negations: frozenset[str], other_negations: frozenset[str]) -> bool:
    """Return whether one of two texts says "not" where the other does not.

    Words that both have do not count. Of the others, two say the same if they are of one language: "never" and "not".

    Args:
        negations: The negations in one text, see `negations_in`.
        other_negations: Those in the other one.
    """
    own, others = negations - other_negations, other_negations - negations
    say_the_same = any(own & language and others & language for language in _LANGUAGES)
    return bool(own or others) and not say_the_same
