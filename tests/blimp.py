"""A small data set in BLiMP's form, of words that the tiny tokenizer knows."""

import json
from pathlib import Path

SUBJECTS = {False: ["The actor", "This actor", "A cat", "The cat"], True: ["The actors", "These actors", "Those cats"]}
VERBS = [(("is", "are"), "here"), (("was", "were"), "good"), (("has", "have"), "sat"), (("isn't", "aren't"), "bad")]


def row(good: str, bad: str) -> str:
    return json.dumps({"sentence_good": good, "sentence_bad": bad}) + "\n"


def _subject_verb(tail: str) -> list[str]:
    rows = []
    for plural, subjects in SUBJECTS.items():
        for subject in subjects:
            for verbs, rest in VERBS:
                rows.append(
                    row(f"{subject}{tail} {verbs[plural]} {rest}.", f"{subject}{tail} {verbs[not plural]} {rest}.")
                )
    return rows


def _determiner(adjective: str) -> list[str]:
    rows = []
    for near, far in (("this", "these"), ("that", "those")):
        for start in ("The cat saw", "Those actors saw", "A cat never saw"):
            for noun in ("movie", "plot", "cabinet"):
                rows.append(row(f"{start} {near}{adjective} {noun}.", f"{start} {far}{adjective} {noun}."))
                rows.append(row(f"{start} {far}{adjective} {noun}s.", f"{start} {near}{adjective} {noun}s."))
    return rows


def write(folder: Path) -> Path:
    anaphors = []
    for plural, subjects in SUBJECTS.items():
        target, foil = ("themselves", "himself") if plural else ("himself", "themselves")
        for subject in subjects:
            anaphors += [
                row(f"{subject} {verb} {target}.", f"{subject} {verb} {foil}.") for verb in ("saw", "never saw")
            ]
    folder.mkdir(exist_ok=True)
    for name, rows in {
        "anaphor_number_agreement": anaphors,
        "determiner_noun_agreement_2": _determiner(""),
        "determiner_noun_agreement_with_adj_2": _determiner(" bad"),
        "distractor_agreement_relational_noun": _subject_verb(" with the keys"),
        "regular_plural_subject_verb_agreement_1": _subject_verb(""),
    }.items():
        (folder / f"{name}.jsonl").write_text("".join(rows), encoding="utf-8")
    return folder
