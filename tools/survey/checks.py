"""What must hold for a model, whatever its architecture; run on one shrunk model at a time."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from transformers import PreTrainedModel

from normxlogit import ALL, Attribution, Explainer
from normxlogit.copies.arithmetic import EXCLUDED
from normxlogit.inputs.batches import Batch
from normxlogit.methods import NormXLogit, Request
from normxlogit.parts.headpiece import answer_of
from normxlogit.tasks.targets import resolve
from normxlogit.tasks.task_outputs import logits_at
from tools.survey.base import SIGNALS, TOLERANCE, CheckError, build, near, stir, tokenizer_for, tokens_read
from tools.survey.known import ALIKE
from tools.survey.signals import check_signal

TEXTS = ["the movie is never bad , but the plot was awful and the wit mediocre !", "a great film with charm"]
MASKED = [text.replace("bad", "[MASK]").replace("great", "[MASK]") for text in TEXTS]
STRENGTHS = (2.0, 8.0, 32.0)
"""Of the weights, tried in turn until the model tells texts apart."""
APART = 50
"""Times the tolerance by which answers must differ, or a head that says the same of everything would pass."""
PAIRS = [("the cat sat here ?", "the cat never sat on the mat and the key"), ("is it bad ?", "a film with charm")]
INPUTS: dict[str, list[Any]] = {"masked-lm": MASKED, "question-answering": PAIRS, "multiple-choice": PAIRS}


def check(task: str, family: str) -> dict[str, Any]:
    """Build a model of a family and run every check on it.

    Returns:
        The class, where its trunk is, what its head reads, whether padding tells, how many layers can be read, and
        whether the later ones must rest for it.

    Raises:
        CheckError: If a check fails.
    """
    if task in SIGNALS:
        return check_signal(task, family)
    tokenizer = tokenizer_for(task, family)
    for strength in STRENGTHS:
        model = build(task, family)
        stir(model, strength)
        explainer = Explainer(model, tokenizer)
        name = explainer.task_model.task.name  # XLM's language model stands in two mappings
        texts = INPUTS.get(name, TEXTS)
        with torch.no_grad():
            if family in ALIKE or _told_apart(explainer, model, texts):
                break
    else:
        raise CheckError("the model answers all texts alike: this proves nothing")
    facts: dict[str, Any] = {"class": type(model).__name__, "strength": strength}
    with torch.no_grad():
        _whole(explainer, model, texts)
        facts["trunk"] = explainer.task_model.parts.trunk
        facts["reads"] = _read(explainer, texts)
        _loop(explainer, model, texts)
        facts["padding"] = "tells" if explainer.task_model.copy.padding.refuted else "same"
    facts["layers"] = _layers(explainer, texts[0])
    facts["resting"] = explainer.task_model.parts.early_exit is not None
    return facts


def _batch(explainer: Explainer, texts: list[Any]) -> Batch:
    return explainer.task_model.batch(explainer.task_model.encoder(texts), list(range(len(texts))))


def _own(explainer: Explainer, model: PreTrainedModel, batch: Batch, **options: Any) -> tuple[torch.Tensor, Any]:
    """Return the plain model's logits and outputs; every row of a multiple-choice batch as a question of one choice."""
    inputs = batch.inputs
    if explainer.task_model.task.name == "multiple-choice":
        inputs = {name: value[:, None] for name, value in inputs.items()}
    outputs = model(**inputs, **options)
    logits = answer_of(outputs)
    if logits is None:
        raise CheckError("the model gives no logits")
    return logits, outputs


def _told_apart(explainer: Explainer, model: PreTrainedModel, texts: list[Any]) -> bool:
    """Whether the model's answers to different texts (to different tokens) differ by far more than the tolerance."""
    batch = _batch(explainer, texts)
    explainer.task_model.run(batch)
    assert explainer.task_model.head, "refused, or proved"
    own, _ = _own(explainer, model, batch)
    rows = own[0][batch.mask[0]] if not explainer.task_model.task.position.pooled else own  # (N, C)
    rows = rows.masked_fill(rows.abs() > EXCLUDED, 0.0)
    apart = (rows.max(0).values - rows.min(0).values).max().item()
    return apart > APART * TOLERANCE * max(1.0, rows.abs().max().item())


def _whole(explainer: Explainer, model: PreTrainedModel, texts: list[Any]) -> None:
    """Check the head on the trunk's output: the model's logits, padding and all, and each token's on that token."""
    batch = _batch(explainer, texts)
    own, _ = _own(explainer, model, batch)
    run = explainer.task_model.run(batch)
    near(explainer.task_model.head.texts(run.hidden, batch.inputs), own, "whole-sequence logits")
    if run.positions is None:
        near(run.logits, own, "logits")
    else:
        near(run.logits, logits_at(own, run.positions), "logits at the position explained")
        found, wanted = explainer.task_model.head_logits(run.hidden, batch), own[batch.mask]  # (N, C)
        kept = wanted.abs() < EXCLUDED  # BigBird's reader pushes the question's tokens out of the choice
        near(found[kept], wanted[kept], "head on each token")


def _read(explainer: Explainer, texts: list[Any]) -> str:
    """Which positions the head reads, by the gradient; where it is one, the head on it alone gives the output."""
    if not explainer.task_model.task.position.pooled:
        return "each token" if explainer.task_model.parts.tokenwise else "each token among the others"
    batch = _batch(explainer, texts[:1])
    run = explainer.task_model.run(batch)
    return tokens_read(explainer.task_model.head, run.hidden, batch.inputs, run.logits)


def _explained(explainer: Explainer, texts: list[Any]) -> list[tuple[Any, Attribution]]:
    """Texts with their explanations; of a multiple-choice question, the text with the predicted choice."""
    if explainer.task_model.task.name != "multiple-choice":
        return list(zip(texts, explainer(texts, method="normxlogit"), strict=True))
    prompt, choices = texts[0][0], [choice for _, choice in texts]
    result = explainer((prompt, choices), method="normxlogit")
    best = result.target.id
    assert best is not None
    return [((prompt, choices[best]), result)]


def _loop(explainer: Explainer, model: PreTrainedModel, texts: list[Any]) -> None:
    """NormXLogit, alone and among others, equals one text, one token at a time, through the plain model's outputs."""
    for text, together in _explained(explainer, texts):
        batch = _batch(explainer, [text])
        logits, outputs = _own(explainer, model, batch, output_hidden_states=True)
        states = outputs.get("encoder_hidden_states") or outputs["hidden_states"]
        embedded = states[0]  # (1, T, H)
        if embedded.ndim != 3 or explainer.task_model.parts.states_lack_embeddings:  # several streams, or a layer late
            embedded = model.get_input_embeddings()(batch.inputs["input_ids"])
        hidden = explainer.task_model.run(batch).hidden  # (1, T, H)
        label = 0 if explainer.task_model.task.name == "multiple-choice" else together.target.id
        alone_logits = (
            None if not explainer.task_model.task.position.pooled else _each_alone(explainer, model, batch, hidden)
        )  # (T, C)
        wanted = []
        for place in range(len(together.tokens)):
            logit = logits[0, place, label] if alone_logits is None else alone_logits[place, label]
            if logit.abs() > EXCLUDED:
                logit = explainer.task_model.head.tokens(hidden[:, place])[0, label]
            wanted.append(embedded[0, place].norm() * logit)
        loop = torch.stack(wanted)  # (T,)
        run = explainer.task_model.run(batch)
        target = resolve(explainer.task_model.task, run, label)
        alone = NormXLogit().score(Request(explainer.task_model, run, target)).values[0, 0, 0]  # (T,)
        near(alone, loop, "NormXLogit against a plain loop")
        near(torch.tensor(together.scores), loop, "NormXLogit among others")


def _each_alone(explainer: Explainer, model: PreTrainedModel, batch: Batch, hidden: torch.Tensor) -> torch.Tensor:
    """Return what the caller's whole model answers where the state at every position is one token's, (T, C).

    The head stays where it is, in the model: the states are written over where the first of its modules gives what
    reaches the head. Nothing of the library's own head is used.
    """
    states = hidden[0]  # (T, H)
    made: list[tuple[torch.nn.Module, tuple[int, int]]] = []

    def watch(module: torch.nn.Module, args: Any, output: Any) -> None:
        found = _first_tensor(output)
        for texts, width in ((0, 2), (1, 2), (0, 1)):  # (1, S, H), (S, 1, H), (1, H, S)
            fits = found is not None and found.ndim == 3 and found.shape[texts] == 1
            if not fits or found.shape[width] != states.shape[-1]:
                continue
            rows = found.movedim(width, -1).reshape(-1, states.shape[-1])  # (S, H)
            same = torch.cdist(rows, states, compute_mode="donot_use_mm_for_euclid_dist") < 1e-4  # (S, T)
            if same.any(0).all() or same.any(1).all():  # padded to a window, or pooled to fewer states
                made.append((module, (texts, width)))

    with _hooked(model.modules(), watch):
        _own(explainer, model, batch)
    if not made:
        raise CheckError("no module gives the states that reach the head")
    module, (texts, width) = made[0]

    def overwrite(module: torch.nn.Module, args: Any, output: Any) -> Any:
        found = _first_tensor(output)
        along = 3 - texts - width  # positions
        shape = [found.shape[axis] if axis == along else 1 for axis in range(3)]
        shape[texts], shape[width] = states.shape
        wide = (states if texts < width else states.T).reshape([1 if a == along else n for a, n in enumerate(shape)])
        wide = wide.expand(shape).clone()
        return wide if isinstance(output, torch.Tensor) else (wide, *output[1:])

    rows = {name: torch.cat([value] * len(states)) for name, value in batch.inputs.items()}
    with _hooked([module], overwrite):
        return _own(explainer, model, replace(batch, inputs=rows))[0]


def _first_tensor(output: Any) -> Any:
    found = output[0] if isinstance(output, tuple) and output else output
    return found if isinstance(found, torch.Tensor) else None


@contextmanager
def _hooked(modules: Iterable[torch.nn.Module], hook: Any) -> Iterator[None]:
    handles = [module.register_forward_hook(hook) for module in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _layers(explainer: Explainer, text: Any) -> int:
    """Every layer's scores are finite, and the last layer's are the default ones."""
    if explainer.task_model.task.name == "multiple-choice":
        text = (text[0], [text[1], "a film"])
    layered = torch.tensor(explainer(text, method="normxlogit", layers=ALL).scores)  # (L, T)
    if not layered.isfinite().all():
        raise CheckError("scores of a layer are not finite")
    near(layered[-1], torch.tensor(explainer(text, method="normxlogit").scores), "last layer against the default")
    return len(layered)
