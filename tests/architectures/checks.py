"""What must hold for a model, whatever its architecture; run on one shrunk model at a time."""

from dataclasses import dataclass
from typing import Any

import torch
import transformers
from tokenizers import processors
from transformers import PreTrainedModel

from normxlogit import Attribution, Explainer
from normxlogit.errors import UnsupportedModelError
from normxlogit.methods.logat import NormXLogit
from normxlogit.modeling.anatomy import EXCLUDED
from normxlogit.modeling.encoding import Batch
from normxlogit.modeling.headpiece import answer_of
from normxlogit.modeling.tasks import at
from normxlogit.targets import resolve
from tests import tiny
from tests.architectures.shrink import shrunk

TOLERANCE = 1e-4
TEXTS = ["the movie is never bad , but the plot was awful and the wit mediocre !", "a great film with charm"]
MASKED = [text.replace("bad", "[MASK]").replace("great", "[MASK]") for text in TEXTS]
PAIRS = [("the cat sat here ?", "the cat never sat on the mat and the key"), ("is it bad ?", "a film with charm")]


@dataclass(frozen=True)
class Mapping:
    """One of transformers' auto mappings.

    Attributes:
        name: Of the table in `transformers.models.auto.modeling_auto`.
        auto: The auto class that builds from it.
        title: For readers.
        options: Set on every configuration.
    """

    name: str
    auto: str
    title: str
    options: dict[str, Any]


MAPPINGS = {
    "sequence-classification": Mapping(
        "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
        "AutoModelForSequenceClassification",
        "Sequence classification",
        {"num_labels": 3},
    ),
    "masked-lm": Mapping("MODEL_FOR_MASKED_LM_MAPPING_NAMES", "AutoModelForMaskedLM", "Masked language models", {}),
    "causal-lm": Mapping("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "AutoModelForCausalLM", "Causal language models", {}),
    "token-classification": Mapping(
        "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES",
        "AutoModelForTokenClassification",
        "Token classification",
        {"num_labels": 3},
    ),
    "question-answering": Mapping(
        "MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES", "AutoModelForQuestionAnswering", "Question answering", {}
    ),
    "multiple-choice": Mapping(
        "MODEL_FOR_MULTIPLE_CHOICE_MAPPING_NAMES", "AutoModelForMultipleChoice", "Multiple choice", {}
    ),
}


class Broken(Exception):
    """A check that failed, and how."""


def build(task: str, family: str) -> PreTrainedModel:
    """A shrunk model of a family with random weights, in evaluation mode."""
    mapping = MAPPINGS[task]
    options = dict(mapping.options)
    if task == "causal-lm":
        options["is_decoder"] = True
    torch.manual_seed(0)
    config = shrunk(family, **options)
    auto = getattr(transformers, mapping.auto)
    try:
        model = auto.from_config(config)
    except AttributeError:  # a composite whose language model is loaded with the inner configuration
        inner = config.get_text_config(decoder=True)
        if inner is config:
            raise
        model = auto._model_mapping[type(config)](inner)
    text = model.config.get_text_config()
    if getattr(text, "pad_token_id", None) is None:
        text.pad_token_id = 0
    if hasattr(model, "set_default_language"):
        model.set_default_language(next(iter(model.config.languages)))
    return model.float().eval()


def stir(model: PreTrainedModel, factor: float) -> None:
    """Larger weights, biases off zero and norms off one: a layer left out, or a norm, must show in the logits."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim == 2 and "norm" not in name.lower():
                parameter.mul_(factor)
            elif parameter.ndim == 1:
                parameter.add_(noise * 0.1)


def check(task: str, family: str) -> dict[str, Any]:
    """Build a model of a family and run every check on it.

    Returns:
        The class, where its trunk is, what its head reads, whether padding tells, how many layers can be read.

    Raises:
        Broken: If a check fails.
    """
    model = build(task, family)
    stir(model, 8.0 if task == "multiple-choice" else 2.0)
    tokenizer = tiny.tokenizer(specials=task != "causal-lm")
    if family == "longformer":  # looks for three separators in a pair, as RoBERTa's tokenizer puts them
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
    explainer = Explainer(model, tokenizer)
    name = explainer.model.task.name  # XLM's language model stands in two mappings
    texts: list[Any] = {"masked-lm": MASKED, "question-answering": PAIRS, "multiple-choice": PAIRS}.get(name, TEXTS)
    facts: dict[str, Any] = {"class": type(model).__name__}
    with torch.no_grad():
        _whole(explainer, model, texts)
        facts["trunk"] = explainer.model.anatomy.trunk
        facts["reads"] = _read(explainer, texts)
        facts["padding"] = _loop(explainer, model, texts)
    facts["layers"] = _layers(explainer, texts[0])
    return facts


def _batch(explainer: Explainer, texts: list[Any]) -> Batch:
    return explainer.model.batch(explainer.model.encoder(texts), list(range(len(texts))))


def _own(explainer: Explainer, model: PreTrainedModel, batch: Batch, **options: Any) -> tuple[torch.Tensor, Any]:
    """The plain model's logits and outputs; every row of a multiple-choice batch as a question of one choice."""
    inputs = batch.inputs
    if explainer.model.task.name == "multiple-choice":
        inputs = {name: value[:, None] for name, value in inputs.items()}
    outputs = model(**inputs, **options)
    logits = answer_of(outputs)
    if logits is None:
        raise Broken("the model gives no logits")
    return logits, outputs


def _near(found: torch.Tensor, wanted: torch.Tensor, what: str) -> None:
    if found.shape != wanted.shape:
        raise Broken(f"{what}: shape {tuple(found.shape)}, not {tuple(wanted.shape)}")
    if not wanted.isfinite().all():
        raise Broken(f"{what}: the model's own values are not finite")
    difference = (found - wanted).abs().max().item()
    if not difference <= TOLERANCE * max(1.0, wanted.abs().max().item()):
        raise Broken(f"{what}: off by {difference:.2g} at a size of {wanted.abs().max().item():.2g}")


def _whole(explainer: Explainer, model: PreTrainedModel, texts: list[Any]) -> None:
    """The head on the trunk's output gives the model's logits, padding and all; and on each token the token's."""
    batch, name = _batch(explainer, texts), explainer.model.task.name
    own, _ = _own(explainer, model, batch)
    if own.std() < 1e-3 and (name != "multiple-choice" or own.abs().max() < 1e-3):
        raise Broken("the model's logits are all alike: this proves nothing")
    run = explainer.model.run(batch)
    if explainer.model.anatomy.coverage is None:
        _near(explainer.model.anatomy.head.whole(run.hidden, batch.inputs), own, "whole-sequence logits")
    if run.positions is None:
        _near(run.logits, own, "logits")
    else:
        _near(run.logits, at(own, run.positions), "logits at the position explained")
        found, wanted = explainer.model.read(run.hidden, batch), own[batch.mask]  # (N, C)
        kept = wanted.abs() < EXCLUDED  # BigBird's reader pushes the question's tokens out of the choice
        _near(found[kept], wanted[kept], "head on each token")


def _read(explainer: Explainer, texts: list[Any]) -> str:
    """Which positions the head reads, by the gradient; where it is one, the head on it alone gives the output."""
    if explainer.model.task.per_token:
        return "each token" if explainer.model.anatomy.tokenwise else "each token among the others"
    batch = _batch(explainer, texts[:1])
    run = explainer.model.run(batch)
    hidden = run.hidden.detach().clone()  # (1, T, H)
    head = explainer.model.anatomy.head
    with torch.enable_grad():
        hidden.requires_grad_()
        (slope,) = torch.autograd.grad(head.whole(hidden, batch.inputs).sum(), hidden)  # (1, T, H)
    read = (slope[0].abs().sum(-1) > 0).nonzero().flatten().tolist()
    count = hidden.shape[1]
    if len(read) != 1:
        return "the mean" if len(read) == count else f"{len(read)} of {count} tokens"
    place = read[0]
    _near(head.tokens(hidden[0, place : place + 1].detach()), run.logits, "head at the pooled position")
    return {0: "the first token", count - 1: "the last token"}.get(place, f"token {place + 1} of {count}")


def _explained(explainer: Explainer, texts: list[Any]) -> list[tuple[Any, Attribution]]:
    """Texts with their explanations; of a multiple-choice question, the text with the predicted choice."""
    if explainer.model.task.name != "multiple-choice":
        return list(zip(texts, explainer(texts), strict=True))
    prompt, choices = texts[0][0], [choice for _, choice in texts]
    result = explainer((prompt, choices))
    return [((prompt, choices[result.target.ids[0]]), result)]


def _loop(explainer: Explainer, model: PreTrainedModel, texts: list[Any]) -> str:
    """NormXLogit equals one text, one token at a time, through the plain model's outputs."""
    padding = "same"
    for text, together in _explained(explainer, texts):
        batch = _batch(explainer, [text])
        logits, outputs = _own(explainer, model, batch, output_hidden_states=True)
        states = outputs.get("encoder_hidden_states") or outputs["hidden_states"]
        embedded = states[0]  # (1, T, H)
        if embedded.ndim != 3 or explainer.model.anatomy.states_late:  # several streams, or a layer late
            embedded = model.get_input_embeddings()(batch.inputs["input_ids"])
        hidden = explainer.model.run(batch).hidden  # (1, T, H)
        label = 0 if explainer.model.task.name == "multiple-choice" else together.target.ids[0]
        wanted = []
        for place in range(len(together.tokens)):
            if explainer.model.task.per_token:
                logit = logits[0, place, label]
                if logit.abs() > EXCLUDED:
                    logit = explainer.model.anatomy.head.tokens(hidden[:, place])[0, label]
            else:
                logit = explainer.model.anatomy.head.tokens(hidden[:, place])[0, label]
            wanted.append(embedded[0, place].norm() * logit)
        loop = torch.stack(wanted)  # (T,)
        run = explainer.model.run(batch)
        target = resolve(explainer.model, run, label)
        alone = NormXLogit()(explainer.model, run, target, ())[0, 0, 0]  # (T,)
        _near(alone, loop, "NormXLogit against a plain loop")
        try:
            _near(torch.tensor(together.scores), loop, "NormXLogit in a padded batch")
        except Broken:
            padding = "tells"
    return padding


def _layers(explainer: Explainer, text: Any) -> int:
    """Every layer's scores are finite, and the last layer's are the default ones; 0 if layers are refused."""
    if explainer.model.task.name == "multiple-choice":
        text = (text[0], [text[1], "a film"])
    try:
        layered = torch.tensor(explainer(text, layers="all").scores)  # (L, T)
    except UnsupportedModelError:
        return 0
    if not layered.isfinite().all():
        raise Broken("scores of a layer are not finite")
    _near(layered[-1], torch.tensor(explainer(text).scores), "last layer against the default")
    return len(layered)
