"""What type checkers must accept, and refuse on the lines with `type: ignore`: one that is not needed is an error."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from collections.abc import Iterator
from pathlib import Path

from normxlogit import ALL, Attribution, Explainer
from normxlogit.decompositions.gradient import IntegratedGradients
from normxlogit.grounding import Citations
from normxlogit.model_comparison.result import ModelDifference


def texts() -> Iterator[str]:
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
    differ: ModelDifference = explainer.compare_models("folder", ("a", "b"), verify=2, target=0)
    differences: ModelDifference = explainer.compare_models(explainer, ["a"], ["b"])[0]
    print(differ.changed, differences.changed)
    heard: Attribution = explainer.transcribe(Path("talk.wav"), language="en", verify=3)
    every: Attribution = explainer.transcribe([Path("talk.wav")])[0]
    cited: Citations = explainer.cite("a", ["b"], checker=None)
    print(heard.text, every.text, cited.support)


def refused(explainer: Explainer) -> None:
    """Misspell and mistype."""
    explainer("a", taget="positive")  # type: ignore[call-overload]
    explainer("a", long_text="nope")  # type: ignore[call-overload]
    explainer("a", layers=1.5)  # type: ignore[call-overload]
    explainer("a", method=3)  # type: ignore[call-overload]
    explainer(3)  # type: ignore[call-overload]
    print(explainer(["a"]).tokens)  # type: ignore[attr-defined]
    explainer.explain_completion("a", "b", taget="c")  # type: ignore[call-overload]
    print(explainer.similarity("a", ["b"]).prediction)  # type: ignore[attr-defined]
    explainer.similarity("a", "b", matrx=True)  # type: ignore[call-overload]
    explainer.compare_models(None, "a", taget=1)  # type: ignore[call-overload]
    explainer.transcribe(3)  # type: ignore[call-overload]
    explainer.cite("a", ["b"], cheker=None)  # type: ignore[call-arg]
    IntegratedGradients(steps="20")  # type: ignore[arg-type]
    IntegratedGradients(stepz=20)  # type: ignore[call-arg]
    IntegratedGradients(aggregate="l3")  # type: ignore[arg-type]
