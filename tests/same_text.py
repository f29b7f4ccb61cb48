"""Texts that agree but for the rounding of their numbers."""

import re

NUMBER = re.compile(r"[+−-]?\d+(?:\.\d+)?(?:e[+-]\d+)?%?")


def same(one: str, other: str) -> bool:
    if NUMBER.sub("0", one) != NUMBER.sub("0", other):
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    return all(abs(number(a) - number(b)) <= 0.02 * max(1.0, abs(number(a))) for a, b in pairs)


def number(text: str) -> float:
    return float(text.rstrip("%").replace("−", "-"))
