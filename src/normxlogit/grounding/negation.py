"""Whether a text says "not": a sentence that says it is not supported by a source that does not, nor the other way."""

import regex

from ..text.same import comparable

WORDS = """
no not never none nobody nothing nowhere neither nor without cannot
nicht kein keine keinen keinem keiner keines nie niemals ohne weder
ne pas jamais aucun aucune sans ni
nunca jamás sin ningún ninguno ninguna nada nadie
non mai senza nessun nessuno nessuna né
não sem nenhum nenhuma nem
niet geen nooit zonder noch
inte ingen inget inga aldrig utan ikke aldri
nie bez nigdy żaden żadna
не нет ни без никогда ні
değil yok
لا ليس لم لن غير بدون
לא אין בלי
नहीं मत बिना
"""
"""Words by which sentences are negated, in some languages that are written with spaces."""

PARTS = ("n't", "n'", "不", "没", "沒", "無", "无", "未", "ない", "ません", "않", "없", "아니")
"""The same where they are a part of a word, or of a text without spaces."""

_WORD = regex.compile(r"[\p{L}\p{M}]+")
_NEGATIONS = frozenset(comparable(WORDS).text.split())


def is_negated(form: str) -> bool:
    """Return whether a text has a word or a part of one that negates.

    Args:
        form: A sentence in the form in which texts are compared.
    """
    has_part = any(part in form for part in PARTS)
    return has_part or not _NEGATIONS.isdisjoint(_WORD.findall(form))
