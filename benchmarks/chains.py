"""Chains of reasoning with known facts: are the facts that a conclusion stands on the first ones?

A program writes facts, among them those of other chains, a question, the reasoning and its conclusion. Each way ranks
the facts for the conclusion alone, the last sentence of the answer, where the model itself draws it: where the last
word is the model's own choice. FlashTrace (arXiv 2602.01914) is among them where its
package is installed.
"""

import random
import re
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch

from normxlogit.evaluation.report import markdown_table
from normxlogit.evaluation.runs import OnProgress, with_progress
from normxlogit.evaluation.statistics import interval_text, mean_interval
from normxlogit.explainer import Explainer
from normxlogit.grounding.result import Citations

from .token_rankings import eager_attention, rollout

LEVELS = (
    ("key", "ring", "coin", "letter", "map", "watch", "pen", "stamp"),
    ("box", "bag", "basket", "jar", "tin", "chest", "envelope", "case"),
    ("drawer", "cupboard", "wardrobe", "trunk", "locker", "cabinet", "crate", "desk"),
    ("kitchen", "cellar", "garage", "attic", "office", "bedroom", "hall", "library"),
    ("farm", "school", "hotel", "museum", "castle", "station", "bank", "church"),
    ("north", "south", "east", "west", "middle", "suburb", "outskirts", "harbour"),
    ("county", "region", "province", "island", "valley", "republic", "kingdom", "district"),
)
"""What is in what, from the smallest to the largest."""

NAMES = ("Anna", "Ben", "Clara", "David", "Emma", "Felix", "Greta", "Hugo", "Ida", "Jonas", "Karla", "Leo", "Mia")
GOODS = ("apples", "books", "coins", "cards", "marbles")

THROUGH = "through the reasoning"

LOOKUP_CHAINS, ARITHMETIC_CHAINS = 3, 2
"""How many chains the facts of a case make, of which one is asked for."""


class Chain(NamedTuple):
    """A question with its facts and the reasoned answer.

    Attributes:
        kind: "look-up" or "arithmetic".
        facts: The facts, shuffled.
        right: The indices of those that the conclusion stands on.
        question: The question.
        answer: The reasoning, a sentence for each step, and the conclusion.
    """

    kind: str
    facts: tuple[str, ...]
    right: tuple[int, ...]
    question: str
    answer: str


def look_up(rng: random.Random, steps: int) -> Chain:
    """Write things that lie in each other, in so many steps."""
    columns = [rng.sample(level, LOOKUP_CHAINS) for level in LEVELS[: steps + 1]]
    facts = {
        (chain, step): f"The {columns[step][chain]} is in the {columns[step + 1][chain]}."
        for chain in range(LOOKUP_CHAINS)
        for step in range(steps)
    }
    order = rng.sample(sorted(facts), len(facts))
    names = [column[0] for column in columns]
    reasoning = [f"That one is in the {name}." for name in names[1:]]
    return Chain(
        "look-up",
        tuple(facts[place] for place in order),
        tuple(order.index((0, step)) for step in range(steps)),
        f"In the end, where is the {names[0]}?",
        " ".join([*reasoning, f"So the answer is the {names[-1]}."]),
    )


def arithmetic(rng: random.Random, steps: int) -> Chain:
    """Write who has how many more than whom, in so many steps."""
    goods, names = rng.choice(GOODS), rng.sample(NAMES, ARITHMETIC_CHAINS * steps)
    facts, reasoning = {}, []
    for chain in range(ARITHMETIC_CHAINS):
        people = names[chain * steps : (chain + 1) * steps]
        total, lines = 0, []
        for step, (person, other) in enumerate(zip(people, [*people[1:], ""], strict=True)):
            number = rng.randint(1, 5)
            amount = f"{number} {goods} more than {other}" if other else f"{number} {goods}"  # the last has no other
            facts[chain, step] = f"{person} has {amount}."
            total += number
            lines.append(f"That one has {amount}, which makes {total}.")
        reasoning.append(" ".join([*lines, f"So the answer is {total}."]))
    order = rng.sample(sorted(facts), len(facts))
    return Chain(
        "arithmetic",
        tuple(facts[place] for place in order),
        tuple(order.index((0, step)) for step in range(steps)),
        f"How many {goods} has {names[0]}?",
        reasoning[0],
    )


def write_chain(rng: random.Random, is_lookup: bool, steps: int) -> Chain:
    """Write a chain of so many steps."""
    return (look_up if is_lookup else arithmetic)(rng, steps)


def write_chains(count: int, seed: int, most_steps: int = 6) -> list[Chain]:
    """Write chains of both kinds in turn, of 2 steps to `most_steps`."""
    rng = random.Random(seed)  # noqa: S311
    return [write_chain(rng, i % 2 == 0, 2 + i // 2 % (most_steps - 1)) for i in range(count)]


def as_prompt(chain: Chain) -> str:
    """Return the prompt that `cite` writes for a model without a chat template."""
    return f"{' '.join(chain.facts)}\n\nQuestion: {chain.question}\nAnswer:"


class Ranked(NamedTuple):
    """How one way ranked the facts of one chain for its conclusion.

    Attributes:
        way: What gave the scores.
        kind: The chain's.
        steps: How many facts it has.
        first: Whether the first fact is of the chain.
        precision: The average precision of the chain's facts.
    """

    way: str
    kind: str
    steps: int
    first: bool
    precision: float


def ranked(way: str, chain: Chain, scores: Sequence[float]) -> Ranked:
    """Return how scores rank the facts; of equal ones the earlier is first."""
    order = np.argsort(-np.asarray(scores), kind="stable").tolist()
    hits = [place for place, fact in enumerate(order) if fact in chain.right]
    precision = float(np.mean([(i + 1) / (place + 1) for i, place in enumerate(hits)]))
    return Ranked(way, chain.kind, len(chain.right), order[0] in chain.right, precision)


def read(explainer: Explainer, chains: Sequence[Chain], on_progress: OnProgress | None = None) -> list[Ranked]:
    """Rank the facts by every way, of the chains whose conclusion ends with the word that the model would write."""
    rng, results = np.random.default_rng(0), []
    for _, chain in with_progress("chains", chains, on_progress):
        if not draws_conclusion(explainer, chain):
            continue
        start = chain.answer.index("So the")
        facts, reasoning = {"facts": " ".join(chain.facts)}, [(0, start - 1)]
        cited = explainer.cite(chain.question, facts, answer=chain.answer, reasoning=reasoning, verify=None)
        sources, conclusion = cited.sources, chain.answer[start:]
        words, last_words = set(_words(chain.answer)), set(_words(conclusion + chain.question))
        ways: dict[str, Any] = {
            THROUGH: cited.evidence.scores[-1, sources],
            "through all of the answer": cited.through().scores[-1, sources],
            "through all, words alike": cited.attribution.through().scores[-1, sources],
            "direct": cited.attribution.scores[-1, sources],
            "direct, words by gain": cited.direct_evidence.scores[-1, sources],
            **_left_out(explainer, cited, chain.facts, conclusion),
            **_rollout_and_hops(explainer, cited, conclusion),
            "words shared with the answer": [len(set(_words(fact)) & words) for fact in chain.facts],
            "words shared with question and conclusion": [len(set(_words(f)) & last_words) for f in chain.facts],
            "random": rng.normal(size=len(chain.facts)),
        }
        results += [ranked(way, chain, scores) for way, scores in ways.items()]
    return results


def draws_conclusion(explainer: Explainer, chain: Chain) -> bool:
    """Return whether the last word of the conclusion is the model's own choice, after the reasoning."""
    word = chain.answer.rsplit(" ", 1)[1]
    ids, logs = distributions(explainer, f"{as_prompt(chain)} {chain.answer}", word)
    return bool((logs.argmax(-1) == ids)[:-1].all())  # without the full stop


def _words(text: str) -> list[str]:
    """Return the words of a text in small letters."""
    return re.findall(r"\w+", text.lower())


def _left_out(explainer: Explainer, cited: Citations, facts: Sequence[str], conclusion: str) -> dict[str, list[float]]:
    """Return what the conclusion loses without each fact, and how far its distributions move (ARC-JSD)."""
    texts = [cited.text, *(cited.text.replace(fact, "", 1) for fact in facts)]
    (_, with_all), *without = [distributions(explainer, text, conclusion) for text in texts]  # (G, V)
    losses, divergences = [], []
    for ids, logs in without:
        losses.append(float((with_all - logs).gather(-1, ids[:, None]).sum()))
        mean = ((with_all.exp() + logs.exp()) / 2).log()  # (G, V)
        divergences_from_mean = [(part.exp() * (part - mean)).sum() for part in (with_all, logs)]  # Kullback-Leibler
        divergences.append(float(sum(divergences_from_mean)) / 2)
    return {"left out: the loss": losses, "left out: ARC-JSD": divergences}


@torch.inference_mode()
def distributions(explainer: Explainer, text: str, conclusion: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the tokens of the conclusion at the end of a text, (G,), and the log-probabilities before each, (G, V)."""
    encoded = explainer.tokenizer(text, return_tensors="pt", return_offsets_mapping=True, add_special_tokens=False)
    offsets = encoded["offset_mapping"][0]  # (T, 2)
    count = int((offsets[:, 1] > text.rindex(conclusion)).sum())
    logits = explainer.model(encoded["input_ids"]).logits[0].float()  # (T, V)
    return encoded["input_ids"][0, -count:], logits[-count - 1 : -1].log_softmax(-1)


def _rollout_and_hops(explainer: Explainer, cited: Citations, conclusion: str) -> dict[str, list[float]]:
    """Return attention rollout from the conclusion's tokens, and what FlashTrace's hops say where it is installed."""
    prompt, answer = cited.text[: -len(cited.answer)], cited.answer
    encoded = explainer.tokenizer(
        cited.text, return_tensors="pt", return_offsets_mapping=True, add_special_tokens=False
    )
    ends, first = encoded["offset_mapping"][0, :, 1], cited.text.rindex(conclusion)  # (T,)
    model: Any = explainer.model
    with eager_attention(model):
        with torch.inference_mode():
            attentions = model(encoded["input_ids"], output_attentions=True).attentions
        read_at = (ends > first).nonzero()[:, 0] - 1  # a token is predicted at the one before it
        flow = rollout([heads[0] for heads in attentions], read_at.tolist())
        ways = {"attention rollout": torch.from_numpy(flow)}  # (T,)
        if find_spec("flashtrace"):
            ways["FlashTrace, one hop"] = _hops(model, explainer.tokenizer, prompt, answer, answer.rindex(conclusion))
    spans = torch.tensor(cited.spans)  # (S, 2)
    return {
        way: [float(scores[: len(ends)][(ends > start) & (ends <= end)].sum()) for start, end in spans]
        for way, scores in ways.items()
    }


def _hops(model: Any, tokenizer: Any, prompt: str, answer: str, conclusion: int) -> torch.Tensor:
    """Return FlashTrace's scores of the tokens of prompt and answer, (T,); those of the answer are 0."""
    from flashtrace import FlashTrace  # type: ignore[import-not-found]

    offsets = tokenizer(answer, return_offsets_mapping=True, add_special_tokens=False)["offset_mapping"]
    first = next(i for i, (_, end) in enumerate(offsets) if end > conclusion)
    spans = {"reasoning_span": (0, first - 1), "output_span": (first, len(offsets) - 1)}
    scores = FlashTrace(model, tokenizer).trace(prompt=prompt, target=answer, **spans).scores
    return torch.tensor([*scores, *[0.0] * len(offsets)])


def table(results: Sequence[Ranked]) -> str:
    """Return how often each way puts a fact of the chain first, and its average precision, with intervals."""
    kinds = ("look-up", "arithmetic", "all")
    rows = []
    for way in dict.fromkeys(result.way for result in results):
        cells = []
        for kind in kinds:
            of_kind = [result for result in results if result.way == way and kind in (result.kind, "all")]
            first = [float(result.first) for result in of_kind]
            precision = [result.precision for result in of_kind]
            cells += [f"{np.mean(first):.2f}", f"{np.mean(precision):.2f}"]
            if kind == "all":
                cells[-2] = interval_text(mean_interval(first))
        rows.append([way, *cells])
    count = sum(result.way == THROUGH for result in results)
    heads = [f"{kind}: {measure}" for kind in kinds for measure in ("first \u2191", "precision \u2191")]
    return f"{count} conclusions are the model's own.\n\n{markdown_table(['ranked by', *heads], rows)}"
