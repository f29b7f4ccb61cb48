"""Zero-shot classification: every label is a hypothesis, and the pair of the text and one of them is explained."""

from dataclasses import replace
from typing import Any

import torch

from ..errors import InputError
from ..inputs.texts import read_texts
from ..models.zero_shot import ZeroShotModel
from ..results.attribution import Attribution, Prediction, TargetInfo
from ..results.collection import Attributions
from ..surgery.memory import enough_memory
from .explain import explain_batch
from .multiple_choice import chosen_index, read_choices
from .options import Options
from .progress import progress_bar

__all__ = ["explain_hypotheses"]


def explain_hypotheses(model: ZeroShotModel, inputs: Any, options: Options) -> Attribution | Attributions[Attribution]:
    """Explain what a zero-shot pipeline says of texts.

    The text and the hypothesis of the target label are one pair, and what is explained is the model's logit for
    entailment; where each label is right or wrong by itself, less that for contradiction.

    Args:
        model: The model with its labels and hypotheses.
        inputs: A text, or several.
        options: What is wanted.

    Returns:
        One result for one text, otherwise a list.

    Raises:
        InputError: If an input is not a text, or an option is not for labels that are compared.
        TargetError: If there is no such label.
    """
    if options.position is not None:
        raise InputError("position= chooses a token of token classifiers and masked language models")
    texts, single = read_texts(inputs)
    if any(isinstance(text, tuple) for text in texts):
        raise InputError(
            "a zero-shot pipeline reads texts, whose hypotheses are made of its labels, and a pair was given; "
            "Explainer(pipeline.model, pipeline.tokenizer) explains pairs of your own, (text, hypothesis)"
        )
    options.check_count(len(texts))
    model.refresh()
    results = []
    with progress_bar(len(texts), options.progress) as advance:
        for place, text in enumerate(texts):
            results.append(_explain_text(model, str(text), options.only(place)))
            advance(1)
    return results[0] if single else Attributions(results)


@enough_memory("explain this text")
def _explain_text(model: ZeroShotModel, text: str, options: Options) -> Attribution:
    asked = model.hypotheses
    read = read_choices(model, [(text, hypothesis) for hypothesis in asked.texts], options)
    values = asked.values(torch.stack([run.logits[row] for run, row in read]))  # (C,)
    index = chosen_index(asked.labels, values, options.target, options.contrast)
    other = asked.contradiction if asked.independent else None
    run, row = read[index]
    wanted = replace(options, target=asked.entailment, contrast=other, token_predictions=False)
    result = explain_batch(model, run.row(row), wanted)[0]
    best = int(values.argmax())
    chance = float(asked.probabilities(values)[best])
    return replace(
        result,
        prediction=Prediction(asked.labels[best], best, float(values[best]), chance),
        target=TargetInfo("label", (asked.labels[index],), (index,), result.target.contrast, result.target.contrast_id),
    )
