"""Chains of reasoning: what the program writes follows from its facts, and the reader's tokenizer knows all of it."""

import random
import re

import pytest

from benchmarks import chains


@pytest.mark.parametrize("steps", range(2, 7))
def test_the_conclusion_follows_from_the_right_facts_alone(steps):
    rng = random.Random(steps)
    for _ in range(20):
        chain = chains.write_chain(rng, True, steps)
        place = {fact.split()[1]: fact.rstrip(".").split()[-1] for fact in chain.facts}
        thing, used = chain.question.rstrip("?").split()[-1], []
        while thing in place:
            used.append(f"The {thing} is in the {place[thing]}.")
            thing = place[thing]
        assert chain.answer.endswith(f"So the answer is the {thing}.")
        assert {chain.facts[i] for i in chain.right} == set(used)
        chain = chains.write_chain(rng, False, steps)
        facts = {fact.split()[0]: fact for fact in chain.facts}
        person, total, used = chain.question.rstrip("?").split()[-1], 0, []
        while person in facts:
            used.append(facts[person])
            total += int(re.findall(r"\d+", facts[person])[0])
            person = facts[person].rstrip(".").split()[-1] if "than" in facts[person] else ""
        assert chain.answer.endswith(f"So the answer is {total}.")
        assert {chain.facts[i] for i in chain.right} == set(used)
