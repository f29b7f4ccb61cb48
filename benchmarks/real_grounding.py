"""How well what is measured of an answer's sentences agrees with labels of others: AttributionBench, WiCE, HaluEval.

AttributionBench (Li et al., 2024, arXiv 2402.15089) labels sentences of answers as attributable to their references or
not, WiCE (Kamoi et al., 2023, arXiv 2303.01432) the words of claims that the evidence does not support, HaluEval (Li et
al., 2023, arXiv 2305.11747) a right and a made-up answer to a question.

What a model makes of the sentences is kept in a file without their texts, so that the tables are printed again without
the model and the data.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest, rankdata

from normxlogit import Explainer
from normxlogit.errors import DataError
from normxlogit.evaluation.datasets import parsed_rows
from normxlogit.evaluation.evidence import auroc
from normxlogit.evaluation.report import markdown_table
from normxlogit.evaluation.runs import OnProgress, with_progress
from normxlogit.evaluation.statistics import Interval, bootstrap_interval, interval_text
from normxlogit.grounding.citations.cited_answer import read_answered
from normxlogit.grounding.citations.given_answer import citation_marks
from normxlogit.grounding.citations.passages import passage_gains
from normxlogit.grounding.citations.reading import AnswerReading
from normxlogit.grounding.evaluation.calibration_quality import calibration_table
from normxlogit.grounding.facts import ComparedText, all_words, facts_of, is_stated
from normxlogit.grounding.measured import Reading, WordReading
from normxlogit.grounding.ranking import missing_names, share_in_one, share_of_words, support
from normxlogit.grounding.verdicts import GOOD, Judgement, deciding_source, judgement_of
from normxlogit.results.storage.files import write_text
from normxlogit.text.boundaries import sentence_spans

from .kept_rows import check_reader, kept_rows
from .marked_phrases import in_phrases

Array = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]

MEASURED = Path(__file__).with_name("real_grounding.jsonl")
"""What SmolLM2-135M makes of the development halves."""

RULES_READ = 323
"""How many of the texts had been read, in the order of the file of readings, when the rules of verdicts were chosen."""

MOST_WORDS = 200
"""Most words of a document that are read; of longer ones the sentences with most of the claim's words."""


class Case(NamedTuple):
    """A sentence with a label, and what it is about."""

    dataset: str
    group: str  # the part of the data set that it is of
    number: int  # its row
    question: str
    documents: tuple[str, ...]
    sentence: str
    is_supported: bool


class MeasuredCase(NamedTuple):
    """A labelled claim or answer, without its text, and what was measured of it."""

    dataset: str
    group: str
    number: int
    is_supported: bool
    shared: float  # the share of its words that stand anywhere in the documents
    shared_in_one: float  # that stand in one sentence of them
    nats: float  # its log-probability with the documents
    nats_without: float  # and without
    tokens: int
    passage_gain: float  # how much likelier it makes a passage, in nats a token
    missing: int  # how many of its numbers and names stand neither in the documents nor in the question


class ReadSentence(NamedTuple):
    """A sentence of a claim or an answer, without its text, and what a model makes of it."""

    start: int  # its first character in the answer, which has no marks of citations
    end: int
    first: int | None  # the source that it rests on most
    words: Sequence[tuple[int, int, float, float]]  # start, end, its nats with the documents, without


class ReadCase(NamedTuple):
    """A labelled claim or answer, without its text, as a model reads it: enough to judge its sentences again."""

    dataset: str
    group: str
    number: int
    is_supported: bool
    sentences: Sequence[ReadSentence]


class JudgedCase(NamedTuple):
    """A labelled claim or answer, without its text, and the verdicts of `cite` on its sentences."""

    dataset: str
    group: str
    number: int
    is_supported: bool
    judgements: Sequence[Judgement]


Measured = TypeVar("Measured", MeasuredCase, ReadCase, JudgedCase)


class MarkedWords(NamedTuple):
    """A claim's words: how many are not supported by its labels, how many are marked, and how many are both."""

    number: int
    unsupported: int
    others: int  # marked by the baseline: words that are not in the evidence
    others_right: int
    in_phrases: int  # marked as words of phrases
    in_phrases_right: int
    words: int


def load_cases(folder: Path) -> list[Case]:
    """Read the labelled sentences of AttributionBench and HaluEval from their files in a folder."""
    claims = parsed_rows(folder / "attributionbench.jsonl", dict, "not a claim of AttributionBench")
    answers = parsed_rows(folder / "halueval.jsonl", dict, "not a question of HaluEval")
    cases = [_attribution_case(number, row) for number, row in enumerate(claims)]
    return cases + [case for number, row in enumerate(answers) for case in _answer_cases(number, row)]


def _attribution_case(number: int, row: Mapping[str, Any]) -> Case:
    label, references = row["label"] == "attributable", tuple(row["references"])
    return Case("AttributionBench", row["src"], number, row["question"], references, row["claim"], label)


def _answer_cases(number: int, row: Mapping[str, Any]) -> Iterator[Case]:
    """Yield the right and the made-up answer to a question."""
    for key, label in (("right_answer", True), ("hallucinated_answer", False)):
        yield Case("HaluEval", "HaluEval", number, row["question"], (row["knowledge"],), row[key], label)


def measure(
    explainer: Explainer,
    cases: Sequence[Case],
    file: Path,
    measure_case: Callable[[Explainer, Case], Measured],
    on_progress: OnProgress | None = None,
) -> None:
    """Measure labelled sentences, and add each to a file at once; those that the file has are not measured again.

    They are measured in a fixed random order, so that what a stopped run has measured is a sample.

    Args:
        explainer: An explainer of a language model.
        cases: The sentences.
        file: JSON lines, which a stopped run goes on from.
        measure_case: Measures one of them.
        on_progress: Called after each sentence.

    Raises:
        DataError: If another model measured what the file has.
    """
    check_reader(explainer.language_model, file)
    rows: list[dict[str, Any]] = kept_rows(file, dict, "not a measured sentence")
    keys = {(row["dataset"], row["number"], row["is_supported"]) for row in rows}
    order = np.random.default_rng(0).permutation(len(cases)).tolist()
    for _, place in with_progress("labelled sentences", order, on_progress):
        case = cases[place]
        if (case.dataset, case.number, case.is_supported) not in keys:
            measured = measure_case(explainer, case)
            with file.open("a", encoding="utf-8") as lines:
                lines.write(_line(measured))


def _line(measured: Measured) -> str:
    """Return what was measured as a line of the file, in four decimals."""
    return json.dumps(_rounded(measured._asdict())) + "\n"


def _rounded(value: Any) -> Any:
    """Return what was measured with numbers of four decimals."""
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return round(value, 4) if isinstance(value, float) else value


def load_measured(file: Path, kind: type[Measured]) -> list[Measured]:
    """Read what was measured, in the order of the data; nothing of a file that is not there.

    Args:
        file: The file that `measure` wrote.
        kind: What its rows are.
    """
    return sorted(rows_as_read(file, kind), key=lambda row: (row.dataset, row.number, not row.is_supported))


def rows_as_read(file: Path, kind: type[Measured]) -> list[Measured]:
    """Read what was measured, in the order in which it was; nothing of a file that is not there.

    Args:
        file: The file that `measure` wrote.
        kind: What its rows are.
    """
    return kept_rows(file, kind, "not a measured sentence")


def beside(file: Path, name: str) -> Path:
    """Return a file beside a file of measurements: that of the "readings", or of the "verdicts"."""
    return file.with_name(f"{file.stem}_{name}{file.suffix}")


def read_case(explainer: Explainer, case: Case) -> ReadCase:
    """Return what a model makes of a claim or an answer, as an answer to its question from its documents."""
    documents = [shortened(document, case.sentence) for document in case.documents]
    cited = explainer.cite(case.question, documents, answer=case.sentence, verify=0)
    shift = len(cited.text) - len(cited.answer.lstrip())
    sentences = []
    for span, shares, reading in zip(cited.sentence_spans, cited.sentence_shares, cited.readings, strict=True):
        words = [(word.start - shift, word.end - shift, word.nats, word.nats_without) for word in reading.words]
        start = min([span[0] - shift, *(word[0] for word in words[:1])])
        sentences.append(ReadSentence(start, span[1] - shift, int(shares.argmax()), words))
    return ReadCase(case.dataset, case.group, case.number, case.is_supported, sentences)


def judge_again(readings: Path, cases: Sequence[Case]) -> None:
    """Judge by the present rules what a model read, if it did, and keep the verdicts beside it.

    Args:
        readings: The file of the readings.
        cases: The sentences with their labels and documents.
    """
    by_number = {(case.dataset, case.number, case.is_supported): case for case in cases}
    read = rows_as_read(readings, ReadCase)
    judged = [judged_case(by_number[each.dataset, each.number, each.is_supported], each) for each in read]
    if judged:
        write_text("".join(map(_line, judged)), readings.with_name(readings.name.replace("readings", "verdicts")))


def judged_case(case: Case, read: ReadCase) -> JudgedCase:
    """Return the verdicts on a claim or an answer by the present rules.

    Args:
        case: The claim or the answer, with its documents.
        read: What a model makes of it.
    """
    documents = [shortened(document, case.sentence).lstrip() for document in case.documents]
    sources = [ComparedText(text[start:end]) for text in documents for start, end in sentence_spans(text)]
    answer, question = _without_marks(case.sentence), ComparedText(case.question)
    judgements = []
    for start, end, first, words in read.sentences:
        facts = facts_of(answer, (start, end), sources, question)
        reading = Reading(tuple(WordReading(a, b, answer[a:b], *nats) for a, b, *nats in words))
        judgements.append(judgement_of(facts, reading, deciding_source(facts, first)))
    return JudgedCase(case.dataset, case.group, case.number, case.is_supported, judgements)


def compare_again(file: Path, cases: Sequence[Case]) -> None:
    """Compare the words of measured sentences by the present rules; what the model made of them stays.

    Args:
        file: The file of what was measured.
        cases: The sentences with their labels and documents.
    """
    by_number = {(case.dataset, case.number, case.is_supported): case for case in cases}
    measured = load_measured(file, MeasuredCase)
    keys = [(each.dataset, each.number, each.is_supported) for each in measured]
    compared = [each._replace(**_words_of(by_number[key])) for each, key in zip(measured, keys, strict=True)]
    if compared:
        write_text("".join(map(_line, compared)), file)


def _words_of(case: Case) -> dict[str, Any]:
    """Return what a claim or an answer has in common with its documents, without a model."""
    documents = [shortened(document, case.sentence) for document in case.documents]
    sentences = [ComparedText(text[start:end]) for text in documents for start, end in sentence_spans(text)]
    return {
        "shared": share_of_words(case.sentence, ComparedText("\n".join(documents))),
        "shared_in_one": share_in_one(case.sentence, sentences),
        "missing": missing_names(case.sentence, ComparedText("\n".join([*documents, case.question]))),
    }


def _without_marks(answer: str) -> str:
    """Return an answer without the marks of its citations, as `cite` reads it."""
    for start, end in reversed(citation_marks(answer)):
        answer = answer[:start] + answer[end:]
    return answer.strip()


def measure_case(explainer: Explainer, case: Case) -> MeasuredCase:
    """Return what orders a claim or an answer among others, as an answer to its question from its documents."""
    documents = [shortened(document, case.sentence) for document in case.documents]
    model = explainer.language_model
    answered = read_answered(model, case.question, documents, answer=case.sentence)
    reading = AnswerReading(model, answered.completed)
    (passage_gain,) = passage_gains(model, [case.sentence], documents)
    return MeasuredCase(
        dataset=case.dataset,
        group=case.group,
        number=case.number,
        is_supported=case.is_supported,
        nats=float(reading.nats.sum()),
        nats_without=float(reading.nats_without.sum()),
        tokens=len(reading.nats),
        passage_gain=passage_gain,
        **_words_of(case),
    )


def shortened(document: str, claim: str) -> str:
    """Return a document of at most `MOST_WORDS` words: its sentences with most of a claim's words, in their order."""
    if len(document.split()) <= MOST_WORDS:
        return document
    sentences = [document[start:end] for start, end in sentence_spans(document)]
    shares = [share_of_words(claim, ComparedText(sentence)) for sentence in sentences]
    ranked = sorted(range(len(sentences)), key=lambda place: -shares[place])
    kept, room = list[int](), MOST_WORDS
    for place in ranked:
        room -= len(sentences[place].split())
        if room < 0:
            break
        kept.append(place)
    return " ".join(sentences[place] for place in sorted(kept))


MEASUREMENTS: Mapping[str, Callable[[MeasuredCase], float]] = {
    "words that stand in the documents": lambda case: case.shared,
    "likelier with the documents, nats a token": lambda case: (case.nats - case.nats_without) / case.tokens,
    "uncertainty coefficient 1 - D / N": lambda case: 1 - case.nats / case.nats_without,
    "words in one sentence": lambda case: case.shared_in_one,
    "how much likelier it makes a passage": lambda case: case.passage_gain,
    "no number and no name that stands nowhere": lambda case: -float(case.missing > 0),
}
"""What sentences can be ordered by; the first three are the baselines."""

SUPPORT = "**support**: the words, half of the passage, less a half for missing numbers and names"


def ranking_table(measured: Sequence[MeasuredCase], seed: int = 0) -> str:
    """Return a Markdown table of how well each measurement orders supported sentences before others.

    Args:
        measured: Labelled sentences with what was measured.
        seed: Of the bootstrap over sentences, of each label by itself.
    """
    groups: dict[str, list[int]] = {}
    for place, case in enumerate(measured):
        for name in dict.fromkeys((case.dataset, case.group)):
            groups.setdefault(name, []).append(place)
    labels = np.array([case.is_supported for case in measured])  # (n,)
    groups = {name: places for name, places in groups.items() if len(set(labels[places])) == 2}
    values = {name: np.array([value(case) for case in measured]) for name, value in MEASUREMENTS.items()}
    values[SUPPORT] = np.array([support(case.shared_in_one, case.passage_gain, case.missing) for case in measured])
    rows = [
        [name, *(interval_text(_auroc_interval(scores[places], labels[places], seed)) for places in groups.values())]
        for name, scores in values.items()
    ]
    return markdown_table(["AUROC ↑", *(f"{name} (n = {len(places)})" for name, places in groups.items())], rows)


def chosen_elsewhere(measured: Sequence[MeasuredCase], seed: int = 0) -> str:
    """Return the AUROC of measurements that are chosen on the other parts of a data set, as text.

    For each part, the measurements whose sum, each in standard deviations, orders the sentences of all other parts
    best order those of the part.

    Args:
        measured: The labelled sentences of a data set with several parts.
        seed: Of the bootstrap over sentences.
    """
    labels, parts = (np.array([getattr(case, name) for case in measured]) for name in ("is_supported", "group"))
    values = np.array([[value(case) for value in MEASUREMENTS.values()] for case in measured])  # (n, F)
    scores, lines = np.zeros(len(measured)), list[str]()
    for part in sorted(set(parts)):
        training = parts != part
        standardised = (values - values[training].mean(0)) / values[training].std(0)  # (n, F)
        columns = max(
            _subsets(len(MEASUREMENTS)), key=partial(_training_auroc, standardised[training], labels[training])
        )
        scores[~training] = standardised[~training][:, columns].sum(1)
        lines.append(f"{part}: {' + '.join(np.array(list(MEASUREMENTS))[columns])}")
    area = interval_text(_auroc_interval(scores, labels, seed))
    return f"Measurements chosen on the other parts: AUROC {area}\n\n" + "\n".join(f"- {line}" for line in lines)


def verdict_table(judged: Sequence[JudgedCase]) -> str:
    """Return a Markdown table of the verdicts on the sentences of claims and answers, by data set and label.

    Args:
        judged: Labelled claims and answers with their verdicts.
    """
    rows = []
    for dataset, label in product(sorted({case.dataset for case in judged}), (True, False)):
        cases = [case for case in judged if (case.dataset, case.is_supported) == (dataset, label)]
        counts = Counter(judgement for case in cases for judgement in case.judgements)
        supported = sum(counts[judgement] for judgement in GOOD)
        accused = sum(counts[judgement] for judgement in ACCUSING)
        numbers = [len(cases), counts.total(), supported, accused, counts["cannot tell"]]
        rows.append([dataset, "supported" if label else "not supported", *map(str, numbers)])
    columns = ["texts", "sentences", "called supported or quoted", "accused", "cannot tell"]
    return markdown_table(["data", "label", *columns], rows)


def _accused_line(judged: Sequence[JudgedCase]) -> str:
    """Return how many supported sentences are accused, with the upper end of the exact 95% interval of their rate."""
    of_supported = [judgement for case in judged if case.is_supported for judgement in case.judgements]
    accused = sum(judgement in ACCUSING for judgement in of_supported)
    count = len(of_supported)
    limit = binomtest(accused, count, alternative="less").proportion_ci(0.95).high
    return f"Of {count} supported sentences {accused} are accused: at most {limit:.1%} with 95% confidence.\n"


ACCUSING: tuple[Judgement, ...] = ("missing", "not in the sources", "contradicts")
"""The verdicts against a sentence."""


def _subsets(count: int) -> list[list[int]]:
    """Return the subsets of so many measurements but the empty one."""
    return [list(subset) for size in range(1, count + 1) for subset in combinations(range(count), size)]


def _training_auroc(values: Array, labels: Booleans, columns: list[int]) -> float:
    return auroc(values[:, columns].sum(1), labels)


def _auroc_interval(scores: Array, labels: Booleans, seed: int) -> Interval:
    """Return the AUROC of scores, (n,), with its interval."""
    return bootstrap_interval(_areas, (scores[labels], scores[~labels]), seed)


def _areas(supported: Array, others: Array, axis: int = -1) -> Array:
    """Return the AUROC of scores of supported sentences, (..., S), against those of others, (..., U)."""
    ranks = rankdata(np.concatenate([supported, others], axis), axis=axis)  # (..., S + U)
    count, other_count = supported.shape[axis], others.shape[axis]
    rank_sums = ranks[..., :count].sum(axis)
    areas: Array = (rank_sums - count * (count + 1) / 2) / (count * other_count)
    return areas


def load_marked(path: Path) -> list[MarkedWords]:
    """Count the words of WiCE's claims that are marked as not supported, with a baseline; no model reads them.

    Args:
        path: WiCE's claims, with `claim_tokens`, `non_supported_spans` and `evidence`.
    """
    rows = parsed_rows(path, dict, "not a claim of WiCE")
    return [_marked(number, row) for number, row in enumerate(rows) if any(row["non_supported_spans"])]


def _marked(number: int, row: Mapping[str, Any]) -> MarkedWords:
    words, labels = row["claim_tokens"], np.array(row["non_supported_spans"], bool)  # (W,)
    evidence = ComparedText("\n".join(row["evidence"]))
    other = np.array([bool(all_words(word)) and share_of_words(word, evidence) < 1 for word in words])  # (W,)
    phrases = np.array(in_phrases(words, missing_words(words, evidence)))  # (W,)
    of_other = int(other.sum()), int((labels & other).sum())
    of_phrases = int(phrases.sum()), int((labels & phrases).sum())
    return MarkedWords(number, int(labels.sum()), *of_other, *of_phrases, len(words))


def missing_words(words: Sequence[str], evidence: ComparedText) -> list[bool]:
    """Return whether each word of a claim is of a number, a name or a long word that stands nowhere in the evidence."""
    ends = np.cumsum([len(word) + 1 for word in words])  # (W,)
    claim = " ".join(words)
    stated = [word for word in all_words(claim) if is_stated(word)]
    missing = [word for word in stated if word.kind != "numeral" and not evidence.has(word.text, word.kind)]
    starts = ends - [len(word) + 1 for word in words]  # (W,)
    spans = zip(starts, ends, strict=True)
    return [any(word.start < end - 1 and start < word.end for word in missing) for start, end in spans]


def marked_table(marked: Sequence[MarkedWords], seed: int = 0) -> str:
    """Return a Markdown table of how well the marked words agree with the labelled ones.

    Args:
        marked: The counts of each claim.
        seed: Of the bootstrap over claims.
    """
    counts = np.array(marked).T  # (7, n)
    unsupported, words = counts[1], counts[-1]
    methods = {
        "all words": (words, unsupported),
        "words that are not in the evidence (shared words)": (counts[2], counts[3]),
        "phrases with a number, a name or a long word that is not there": (counts[4], counts[5]),
    }
    rows = [
        [
            name,
            interval_text(bootstrap_interval(_f1, (number, right, unsupported), seed, paired=True)),
            f"{right.sum() / number.sum():.2f}",
            f"{right.sum() / unsupported.sum():.2f}",
        ]
        for name, (number, right) in methods.items()
    ]
    return markdown_table(["marked", f"F1 ↑ (n = {len(marked)} claims)", "precision ↑", "recall ↑"], rows)


def _f1(marked: Array, right: Array, labelled: Array, axis: int = -1) -> Array:
    """Return F1 of counts of marked, rightly marked and labelled words of claims, (..., n) each."""
    f1: Array = 2 * right.sum(axis) / (marked.sum(axis) + labelled.sum(axis))
    return f1


def report(file: Path, data: Path | None) -> str:
    """Return the tables of what was measured, and of WiCE where its claims are at hand."""
    measured, judged = load_measured(file, MeasuredCase), rows_as_read(beside(file, "verdicts"), JudgedCase)
    if not measured:
        raise DataError(f"{file}: nothing was measured; name a model with --model, and its data with --data")
    of_attribution = [case for case in measured if case.dataset == "AttributionBench"]
    sections = ["Verdicts\n", verdict_table(judged), _accused_line(judged)] if judged else []
    if judged[RULES_READ:]:
        later = judged[RULES_READ:]
        sections += ["Texts that were read later\n", verdict_table(later), _accused_line(later)]
    sections += ["Ranking\n", ranking_table(measured)]
    if len({case.group for case in of_attribution}) > 1:
        sections += [chosen_elsewhere(of_attribution) + "\n", "Calibration\n", _calibration_table(of_attribution)]
    if data is not None:
        sections += ["Words that are not supported\n", marked_table(load_marked(data / "wice.jsonl"))]
    return "\n".join(sections)


def _calibration_table(cases: Sequence[MeasuredCase]) -> str:
    """Return how well probabilities agree with labels, each part's by a curve that was fitted to the others."""
    supports = np.array([support(case.shared_in_one, case.passage_gain, case.missing) for case in cases])  # (n,)
    labels = np.array([case.is_supported for case in cases])  # (n,)
    return calibration_table(supports, labels, [case.group for case in cases])
