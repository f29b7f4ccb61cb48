"""What type checkers must accept, and, on the lines marked `wrong`, refuse. Never imported."""

from collections.abc import Iterator

from normxlogit import ALL, Attribution, Explainer
from normxlogit.methods import IntegratedGradients


def texts() -> Iterator[str]:
    """Yield texts."""
    yield "a fine film"


def accepted(explainer: Explainer) -> None:
    """Use everything as it is meant."""
    one: Attribution = explainer("a fine film")
    pair: Attribution = explainer(("a", "b"), target="positive", contrast=0)
    print(one.tokens, pair.scores)
    first: Attribution = explainer(["a", "b"], target=ALL, layers=[1, 2])[0]
    explainer(texts(), targets=["positive"], long_text="window")
    explainer([("a", "b")], method=IntegratedGradients(steps=20))
    explainer("a", method="integrated-gradients:steps=20", token_predictions=True, position=3)
    print(first.words(), first.top(3))
    written: Attribution = explainer.generate("a", max_new_tokens=3, do_sample=True)
    chat: Attribution = explainer.explain_completion([{"role": "user", "content": "a"}], [1, 2], target="b")
    many: Attribution = explainer.explain_completion(["a", "b"], ["c", "d"], targets=[["a"], ["b"]])[1]
    print(written.scores, chat.scores, many.scores)
    near: Attribution = explainer.similarity("a", "b", matrix=True)
    other: Attribution = explainer.similarity("a", texts())[0]
    print(near.prediction.value, other[0].layers)


def refused(explainer: Explainer) -> None:
    """Misspell and mistype."""
    explainer("a", taget="positive")  # wrong
    explainer("a", long_text="nope")  # wrong
    explainer("a", layers=1.5)  # wrong
    explainer("a", method=3)  # wrong
    explainer(3)  # wrong
    print(explainer(["a"]).tokens)  # wrong
    explainer.explain_completion("a", "b", taget="c")  # wrong
    print(explainer.similarity("a", ["b"]).prediction)  # wrong
    explainer.similarity("a", "b", matrx=True)  # wrong
    IntegratedGradients(steps="20")  # wrong
    IntegratedGradients(stepz=20)  # wrong
    IntegratedGradients(aggregate="l3")  # wrong
