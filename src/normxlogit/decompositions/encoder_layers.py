"""The parts of post-LayerNorm encoders by family, for the decomposition methods only."""

from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple, TypeGuard

import torch
from torch import Tensor, nn
from transformers.activations import ACT2FN

from ..compat import request_for_probabilities
from ..copies.checkpointing import without_cache
from ..copies.clone import clone
from ..copies.run import Site, run
from ..errors import UnsupportedModelError
from ..inputs.batches import Batch
from ..model.task_model import TaskModel
from ..parts.proofs import is_full, proof
from .layer_calls import LayerCall, record_layers

ENCODERS = "a post-LayerNorm encoder (BERT, RoBERTa, XLM-R, CamemBERT, ELECTRA or DistilBERT)"

EXACT_TOLERANCE = 1e-4
"""Relative tolerance of a layer's states in full precision."""

COARSE_TOLERANCE = 0.1
"""Relative tolerance of a layer's states in half precision or with quantised weights."""

TINY = 1e-12


@dataclass(frozen=True)
class LayerPaths:
    """The paths of a layer's parts inside it; `layers` is the path of the list of layers in the base model."""

    layers: str
    attention: str
    value: str
    output: str
    norm1: str
    up: str
    down: str
    norm2: str


@dataclass(frozen=True)
class HeadPaths:
    """The paths of a head's parts in the model, in reverse order of their use.

    Attributes:
        out: The last linear map, which returns the logits.
        dense: The linear map before it; `{base}` stands for the name of the trunk. None without one.
        activation: The activation behind `dense`: a name in transformers' `ACT2FN`, or a path.
        norm: The LayerNorm behind the activation; None without one.
    """

    out: str
    dense: str | None = None
    activation: str = "linear"
    norm: str | None = None


_BERT = LayerPaths(
    layers="encoder.layer",
    attention="attention.self",
    value="attention.self.value",
    output="attention.output.dense",
    norm1="attention.output.LayerNorm",
    up="intermediate.dense",
    down="output.dense",
    norm2="output.LayerNorm",
)
_DISTILBERT = LayerPaths(
    layers="transformer.layer",
    attention="attention",
    value="attention.v_lin",
    output="attention.out_lin",
    norm1="sa_layer_norm",
    up="ffn.lin1",
    down="ffn.lin2",
    norm2="output_layer_norm",
)
_TOKEN_HEADS = {"token-classification": HeadPaths("classifier"), "question-answering": HeadPaths("qa_outputs")}
_POOLED = HeadPaths("classifier", "{base}.pooler.dense", "tanh")
_DISTILLED = HeadPaths("classifier", "pre_classifier", "relu")
_TRANSFORM = "cls.predictions.transform"
_BERT_LM = HeadPaths(
    "cls.predictions.decoder", f"{_TRANSFORM}.dense", f"{_TRANSFORM}.transform_act_fn", f"{_TRANSFORM}.LayerNorm"
)
_ROBERTA_LM = HeadPaths("lm_head.decoder", "lm_head.dense", "gelu", "lm_head.layer_norm")
_GENERATOR = "generator_predictions"
_ELECTRA_LM = HeadPaths(
    "generator_lm_head", f"{_GENERATOR}.dense", f"{_GENERATOR}.activation", f"{_GENERATOR}.LayerNorm"
)
_CHOICES, _MODELS = ("sequence-classification", "multiple-choice"), ("masked-lm", "causal-lm")
_ROBERTA = {
    **_TOKEN_HEADS,
    **dict.fromkeys(_MODELS, _ROBERTA_LM),
    "sequence-classification": HeadPaths("classifier.out_proj", "classifier.dense", "tanh"),
    "multiple-choice": _POOLED,
}
_ELECTRA = _TOKEN_HEADS | {
    "sequence-classification": HeadPaths("classifier.out_proj", "classifier.dense", "classifier.activation"),
    "masked-lm": _ELECTRA_LM,
}
_DISTILBERT_LM = HeadPaths("vocab_projector", "vocab_transform", "activation", "vocab_layer_norm")

FAMILIES: dict[str, tuple[LayerPaths, dict[str, HeadPaths]]] = {
    "bert": (_BERT, _TOKEN_HEADS | dict.fromkeys(_CHOICES, _POOLED) | dict.fromkeys(_MODELS, _BERT_LM)),
    **dict.fromkeys(("roberta", "xlm-roberta", "camembert"), (_BERT, _ROBERTA)),
    "electra": (_BERT, _ELECTRA),
    "distilbert": (_DISTILBERT, _TOKEN_HEADS | dict.fromkeys(_CHOICES, _DISTILLED) | {"masked-lm": _DISTILBERT_LM}),
}


@dataclass(frozen=True)
class EncoderLayer:
    """One layer's internal states for B texts of T tokens, in float32, and its parts."""

    number: int
    states: Tensor  # its input h, (B, T, H)
    attention: Tensor  # attention probabilities, (B, heads, T, T)
    value: Tensor  # value vectors with their bias, (B, T, heads, D)
    pre_norm1: Tensor  # the input of the first LayerNorm, (B, T, H)
    normed1: Tensor  # what it gave back, (B, T, H)
    slope: Tensor  # activation over pre-activation of the feed-forward part, (B, T, F)
    pre_norm2: Tensor  # the input of the second LayerNorm, (B, T, H)
    returned: Tensor  # its output, (B, T, H)
    parts: dict[str, nn.Module]  # its modules, by their names in `LayerPaths`
    dtype: torch.dtype  # the precision in which it worked

    @proof(
        compares="what each part of a layer returned, and what it would return if it were only that of its family",
        tolerance=f"{EXACT_TOLERANCE:g} of the largest, {COARSE_TOLERANCE:g} in half precision or quantised",
        why="decompositions are formulas of the family's layers; a hook or an adapter is not in them",
        when="each call of alti, decompx, globenc and rollout; arithmetic on one layer",
    )
    def prove_layer_of_family(self, mask: Tensor, *, feed_forward: bool) -> None:
        """Refuse a layer whose computation differs from its family's.

        Args:
            mask: The real tokens, (B, T).
            feed_forward: Whether the part between the two norms is compared as well.

        Raises:
            UnsupportedModelError: If a part of it returns something else.
        """
        maps = {name: linear_weights(self.parts[name]) for name in ("output", "up", "down")}
        carried = (self.attention @ self.value.transpose(1, 2)).transpose(1, 2).flatten(2)  # (B, T, heads * D)
        comparisons = [
            ("attention", self.pre_norm1, _apply_linear(maps["output"], carried) + self.states),
            ("first norm", self.normed1, self._apply_norm("norm1", self.pre_norm1)),
            ("second norm", self.returned, self._apply_norm("norm2", self.pre_norm2)),
        ]
        if feed_forward:
            inner = _apply_linear(maps["up"], self.normed1) * self.slope  # (B, T, F)
            comparisons.append(("feed-forward part", self.pre_norm2, _apply_linear(maps["down"], inner) + self.normed1))
        tolerance = EXACT_TOLERANCE if self.exact else COARSE_TOLERANCE
        for quantity, actual, expected in comparisons:
            difference = (expected - actual)[mask].abs().max().item()
            largest = max(actual[mask].abs().max().item(), TINY)
            if not difference <= tolerance * largest:  # written so that NaN is refused
                raise UnsupportedModelError(
                    f"needs layers that are their family's and nothing more, and the {quantity} of layer {self.number} "
                    f"gives something else, by {difference:.2g}: a hook, an adapter or another module is there"
                )

    @property
    def exact(self) -> bool:
        """Whether the layer works in full precision, where rounding explains only small differences."""
        maps = (part for name, part in self.parts.items() if name != "attention")
        return is_full(self.dtype) and all(map(is_floating, maps))

    def _apply_norm(self, name: str, states: Tensor) -> Tensor:
        """Apply a LayerNorm of the layer to states, (B, T, H)."""
        weight, bias, deviation = self.norm(name)
        return weight * (states - states.mean(-1, keepdim=True)) / deviation[..., None] + bias  # (B, T, H)

    def norm(self, name: str) -> tuple[Tensor, Tensor, Tensor]:
        """Return LayerNorm `name`'s weight (H,), bias (H,) and the standard deviation that it divided by, (B, T)."""
        states = self.pre_norm1 if name == "norm1" else self.pre_norm2  # (B, T, H)
        return norm_parts(self.parts[name], states)


def norm_parts(norm: nn.Module, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return a LayerNorm's weight (H,), bias (H,) and standard deviation over `states`, (..., H), of shape (...).

    Args:
        norm: The LayerNorm.
        states: Its input, (..., H).

    Raises:
        UnsupportedModelError: If it has no weight or bias, or they are not in memory.
    """
    weight, bias, epsilon = (getattr(norm, name, None) for name in ("weight", "bias", "eps"))
    if not isinstance(weight, Tensor) or not isinstance(bias, Tensor) or not isinstance(epsilon, float):
        raise UnsupportedModelError(f"needs LayerNorm with weight and bias where the model has a {type(norm).__name__}")
    if weight.is_meta:
        raise UnsupportedModelError("needs norms whose weights are in memory, and the model's are offloaded")
    deviation = (states.var(-1, correction=0) + epsilon).sqrt()  # (...)
    return weight.float(), bias.float(), deviation


def _apply_linear(maps: tuple[Tensor, Tensor], states: Tensor) -> Tensor:
    """Apply a linear map, (weight, bias), to states."""
    weight, bias = maps
    return states @ weight.T + bias  # (..., out)


def is_floating(module: nn.Module) -> bool:
    """Return whether a module's weights are not quantised."""
    base = getattr(module, "base_layer", module)  # PEFT's name for the module that an adapter wraps
    weight = getattr(base, "weight", None)
    return _is_plain(weight) and weight.is_floating_point()


def _is_plain(weight: Any) -> TypeGuard[Tensor]:
    """Return whether a weight is a plain tensor, not a subclass for quantised values."""
    return type(weight) in (Tensor, nn.Parameter)


def linear_weights(module: nn.Module) -> tuple[Tensor, Tensor]:
    """Return the weight (out, in) and bias (out,) that a linear module applies, adapters and quantisation included.

    Those of a plain `nn.Linear` are its parameters. Any other module is called on the origin, which gives the bias, and
    on the unit vectors, each of which gives a column of the weight plus the bias.

    Args:
        module: The module.

    Raises:
        UnsupportedModelError: If it has no fixed number of inputs, as a linear map has.
    """
    weight: Any = getattr(module, "weight", None)
    if type(module) is nn.Linear and _is_plain(weight) and not weight.is_meta:
        bias = module.bias if module.bias is not None else weight.new_zeros(len(weight))
        return weight.float(), bias.float()
    count = getattr(module, "in_features", None)
    if not isinstance(count, int):
        raise UnsupportedModelError(f"needs a linear map where the model has a {type(module).__name__}")
    device, dtype = torch.device("cpu"), torch.float32
    if isinstance(weight, Tensor):  # and not a method, as in torch's quantised modules
        device = device if weight.is_meta else weight.device  # offloaded weights are moved when the module is called
        dtype = weight.dtype if weight.is_floating_point() else dtype
    origin = torch.zeros(1, count, device=device, dtype=dtype)
    unit_vectors = torch.eye(count, device=device, dtype=dtype)  # (in, in)
    bias = module(origin).float()  # (1, out)
    columns = module(unit_vectors).float()  # (in, out)
    return (columns - bias).T, bias[0]


def activation_function(model: nn.Module, name: str) -> Any:
    """Return an activation function.

    Args:
        model: The model.
        name: Its name in transformers, or its path in the model.
    """
    return ACT2FN[name] if name in ACT2FN else attrgetter(name)(model)


def _family_paths(model: TaskModel) -> tuple[LayerPaths, dict[str, HeadPaths]]:
    """Return the paths of the parts of a model's layers, and of its heads by task."""
    family = FAMILIES.get(model.config.model_type)
    if family is None or getattr(model.config, "add_cross_attention", False):
        raise UnsupportedModelError(f"needs {ENCODERS}, and this is a {model.class_name}")
    return family


def head_paths(model: TaskModel) -> HeadPaths:
    """Return the paths of the parts of the model's head."""
    paths = _family_paths(model)[1].get(model.task.name)
    if paths is None:
        raise UnsupportedModelError(f"does not know the {model.task.name} head of {model.class_name}")
    return replace(paths, dense=paths.dense and paths.dense.format(base=model.module.base_model_prefix))


def encoder_layers(model: TaskModel, batch: Batch, numbers: Container[int]) -> Iterator[EncoderLayer]:
    """Run the encoder once, then each layer again, recording its internal states, one layer at a time.

    Attention probabilities come from the eager kernel, set on a clone: the others return none.

    Args:
        model: The model, an encoder of a known family.
        batch: B texts.
        numbers: The layers that are yielded, counted from 1.

    Raises:
        UnsupportedModelError: If its layers are not those of a known family.
    """
    paths = _family_paths(model)[0]
    path_of_part = {name: path for name, path in vars(paths).items() if name != "layers"}
    for number, call in enumerate(_calls_of_layers(model, batch, paths), 1):
        if number not in numbers:
            continue
        parts = {name: call.layer.get_submodule(path) for name, path in path_of_part.items()}
        recorded = _record_parts(call, path_of_part)
        attention = _probabilities(recorded["attention"].output, model.class_name)  # (B, heads, T, T)
        value = recorded["value"].output.float()  # (B, T, H)
        pre_activation = recorded["up"].output.float()  # (B, T, F)
        activated = recorded["down"].input.float()  # (B, T, F)
        yield EncoderLayer(
            number=number,
            states=call.states.float(),
            attention=attention,
            value=value.unflatten(-1, (attention.shape[1], -1)),
            pre_norm1=recorded["norm1"].input.float(),
            normed1=recorded["norm1"].output.float(),
            slope=activated / (pre_activation + TINY),
            pre_norm2=recorded["norm2"].input.float(),
            returned=call.returned.float(),
            parts=parts,
            dtype=call.returned.dtype,
        )


def _calls_of_layers(model: TaskModel, batch: Batch, paths: LayerPaths) -> list[LayerCall]:
    """Run an encoder once, with attention that returns its probabilities; return the call of each layer."""
    copy: Any = without_cache(clone(model.module))
    copy.config._attn_implementation = "eager"
    for module in copy.modules():
        if hasattr(module, "chunk_size_feed_forward"):
            module.chunk_size_feed_forward = 0  # one call, one recording
    layers = list(copy.base_model.get_submodule(paths.layers).children())
    layer_paths = [path for path, module in copy.named_modules() if module in layers]
    # The whole model is given the request: it prepares the mask for the kernel that will run.
    request: dict[str, Any] = request_for_probabilities(layers[0].get_submodule(paths.attention))
    calls = record_layers(model, copy, layer_paths, replace(batch, inputs={**batch.inputs, **request}))
    if len(calls) != len(layers):
        raise UnsupportedModelError(
            f"needs layers that each return one hidden state, and of the {len(layers)} layers of "
            f"{model.class_name} {len(calls)} do"
        )
    return calls


class _PartCall(NamedTuple):
    """What a part of a layer was given and what it returned."""

    input: Any  # its main input; None where it had none
    output: Any


def _record_parts(call: LayerCall, paths: dict[str, str]) -> dict[str, _PartCall]:
    """Call a layer again, and return the main input and the output of each of its parts, by the names of `paths`."""
    inputs = {name: Site(path, is_input=True) for name, path in paths.items()}
    outputs = {name: Site(path) for name, path in paths.items()}
    sites = [*inputs.values(), *outputs.values()]
    recorded = run(call.layer, {}, record=sites, call=call.call_again).recorded
    return {name: _PartCall(recorded.get(inputs[name]), recorded[outputs[name]]) for name in paths}


def _probabilities(returned: Any, name: str) -> Tensor:
    """Return the probabilities that an attention returned."""
    if len(returned) < 2 or returned[1] is None:
        raise UnsupportedModelError(f"needs attention that returns probabilities, and that of {name} returns none")
    probabilities: Tensor = returned[1]
    return probabilities.float()
