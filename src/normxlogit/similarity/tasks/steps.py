"""The steps of an embedding model around its trunk, as sentence-transformers has them in files and in modules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from safetensors.torch import load_file
from torch import nn

from ...errors import InputError, UnsupportedModelError
from ...loading.model_files import find_file, read_model_json

Settings = Mapping[str, Any]
"""Settings of a model or of a module of sentence-transformers, by name."""

MODES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""Pooling modes by their names in sentence-transformers, in the order in which several are concatenated."""

COSINE, DOT = "cosine", "dot"
"""How sentence-transformers compares vectors; there are distances too."""

QUERY = "query"
DOCUMENTS = ("document", "passage", "corpus")
"""The names of prompts for queries, and for documents, of which the first that a model has counts."""

EMBEDDING_TYPES = (None, "SentenceTransformer")
"""The values of `model_type` in a configuration of models whose vectors are compared."""

READ_SETTINGS: Mapping[str, frozenset[str]] = {
    "Transformer": frozenset({"max_seq_length", "do_lower_case", "unpad_inputs", "modality_config"}),
    "Pooling": frozenset({"embedding_dimension", "word_embedding_dimension", "pooling_mode", *MODES}),
    "Dense": frozenset({"in_features", "out_features", "bias", "activation_function"}),
    "Normalize": frozenset(),
}
"""The settings of a module, by its class, that are read, or change nothing but speed."""

EXPECTED_SETTINGS: Settings = {
    "transformer_task": "feature-extraction",
    "module_input_name": "sentence_embedding",
    "include_prompt": True,
    "use_residual": False,
}
"""Other settings, with the only value that they may have."""

SETTINGS_OF_MODEL = ("max_seq_length", "prompts", "default_prompt_name", "truncate_dim", "similarity_fn_name")
"""The attributes of a `SentenceTransformer` that its files have as settings."""

OUTPUT_NAMES = {"Transformer": "token_embeddings"}
"""The output of a module, "sentence_embedding" of all others."""

ABOUT_LOADING = {"attn_implementation", "device_map", "dtype", "torch_dtype", "trust_remote_code", "use_safetensors"}
"""Arguments with which weights and files are loaded, and which change no answer beyond precision."""


@dataclass(frozen=True)
class Steps:
    """The steps of an embedding model around its trunk."""

    modes: tuple[str, ...] = ("mean",)  # ways to pool, values of `MODES`; the vectors of several are concatenated
    dense: tuple[nn.Module, ...] = ()
    normalize: bool = False  # whether the vector is brought to length 1
    max_length: int | None = None  # most tokens that it reads, None for the trunk's own limit
    lower: bool = False  # whether texts are brought to lower case
    prompt: str = ""  # the text before every input
    width: int | None = None  # how many numbers of the vector are kept; None for all
    prompts: Mapping[str, str] = field(default_factory=dict)  # texts before inputs of several kinds, by name
    similarity: str = COSINE  # how the model's own `similarity` compares two vectors

    def prompt_named(self, name: str) -> str:
        """Return the prompt that a caller names; "" if it is that of queries or documents and the model has none.

        Args:
            name: Its name; "document" also finds a prompt by another of the names in `DOCUMENTS`.

        Raises:
            InputError: If the model has no prompt of this name.
        """
        aliases = DOCUMENTS if name == DOCUMENTS[0] else (name,)
        known = [alias for alias in aliases if alias in self.prompts]
        if not known and name not in (QUERY, DOCUMENTS[0]):
            raise InputError(f"the model has no prompt {name!r}; it has {', '.join(self.prompts) or 'none'}")
        return self.prompts[known[0]] if known else ""


def is_embedding_folder(source: str) -> bool:
    """Return whether the files of a model say that it embeds texts: whether modules.json lists a pooling.

    Args:
        source: The name or the folder of the model.
    """
    return any(_module_kind(entry) == "Pooling" for entry in read_model_json(source, "modules.json", {}) or ())


class _Module(NamedTuple):
    """One module of an embedding model of sentence-transformers."""

    kind: str  # the name of its class, such as "Pooling"
    settings: Settings
    layer: nn.Module | None = None  # a dense layer with its activation; None of other modules


def steps_from_files(source: str) -> Steps | None:
    """Return the steps around a trunk that sentence-transformers' files beside a model name; None if there are none.

    Args:
        source: The name or the folder of the model.

    Raises:
        InputError: If a file is missing, or is not what sentence-transformers writes.
        UnsupportedModelError: If the files say another model than a trunk with its pooling.
    """
    entries = read_model_json(source, "modules.json", {})
    if entries is None:
        return None
    try:
        steps = [(_module_kind(entry), str(entry["path"])) for entry in entries]
    except (KeyError, TypeError):
        raise InputError(f"{source}: modules.json is not a list of modules, each with a type and a path") from None
    _check_order([kind for kind, _ in steps])
    trunk_path = steps[0][1]
    if trunk_path:
        raise UnsupportedModelError(f"{source} keeps its trunk in {trunk_path}; load it from there, with pooling=")
    trunk = _Module("Transformer", _trunk_settings(source))
    modules = [trunk, *(_module_in_files(source, kind, path) for kind, path in steps[1:])]
    config = read_model_json(source, "config_sentence_transformers.json", {}) or {}
    if config.get("model_type") not in EMBEDDING_TYPES:
        raise UnsupportedModelError(f"{source} is a {config['model_type']}, whose comparisons are not explained")
    return _steps_of(modules, {**config, **trunk.settings})


def _module_in_files(source: str, kind: str, path: str) -> _Module:
    """Return a module after the trunk from its folder `path`."""
    settings = read_model_json(source, f"{path}/config.json", {})
    if settings is None and kind != "Normalize":  # which has no settings, and may have no file
        raise InputError(f"{source}: {path}/config.json is missing; download the model again")
    settings = settings or {}
    return _Module(kind, settings, _dense_layer(settings, source, path) if kind == "Dense" else None)


def _trunk_settings(source: str) -> dict[str, Any]:
    """Return the settings of the first module, whose file older versions name after the kind of model."""
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"):  # "bert" of new ones
        settings = read_model_json(source, f"sentence_{kind}_config.json", {})
        if settings:
            return dict(settings)
    return {}


def steps_of_modules(model: nn.Module) -> Steps:
    """Return the steps around the trunk of a `SentenceTransformer`.

    Args:
        model: The `SentenceTransformer`.

    Raises:
        UnsupportedModelError: If it has other steps, or settings that are not applied here.
    """
    children = list(model.children())
    _check_order([type(child).__name__ for child in children])
    settings = {name: getattr(model, name, None) for name in SETTINGS_OF_MODEL}
    settings["do_lower_case"] = getattr(children[0], "do_lower_case", False)  # of the trunk, the first module
    return _steps_of(list(map(_module_in_memory, children)), settings)


def _module_in_memory(module: Any) -> _Module:
    """Return a module of a `SentenceTransformer` with its settings; one without has the empty ones of `dict`."""
    kind = type(module).__name__
    layer = nn.Sequential(module.linear, module.activation_function) if kind == "Dense" else None
    return _Module(kind, getattr(module, "get_config_dict", dict)(), layer)


def _steps_of(modules: Sequence[_Module], settings: Settings) -> Steps:
    """Return the steps of a trunk, a pooling and the modules after it.

    Args:
        modules: The modules in their order.
        settings: Those of the whole model and of its trunk.
    """
    for module in modules:
        _check_settings(module.kind, module.settings)
    prompts = _named_prompts(settings.get("prompts"))
    return Steps(  # after `_check_order`: the second module is the pooling, and a normalisation is the last
        modes=_pooling_modes(modules[1].settings),
        dense=tuple(module.layer for module in modules if module.layer is not None),
        normalize=modules[-1].kind == "Normalize",
        max_length=settings.get("max_seq_length"),
        lower=bool(settings.get("do_lower_case", False)),
        prompt=prompts.get(str(settings.get("default_prompt_name")), ""),
        width=settings.get("truncate_dim"),
        prompts=prompts,
        similarity=str(settings.get("similarity_fn_name") or COSINE),
    )


def _check_order(kinds: list[str]) -> None:
    """Refuse steps other than a trunk, a pooling, dense layers and a final normalisation."""
    middle = kinds[2:-1] if kinds[-1:] == ["Normalize"] else kinds[2:]  # behind trunk and pooling: dense layers alone
    if kinds[:2] != ["Transformer", "Pooling"] or any(kind != "Dense" for kind in middle):
        raise UnsupportedModelError(
            f"this embedding model is made of {', '.join(kinds)}; known are Transformer, Pooling, any Dense, and "
            "Normalize, in this order"
        )


def _pooling_modes(settings: Settings) -> tuple[str, ...]:
    """Return the modes of a pooling module, of which several are concatenated.

    Newer versions of sentence-transformers name one or several as `pooling_mode`, older ones have a switch for each.

    Raises:
        UnsupportedModelError: If one of them does not divide the vector among the tokens.
    """
    modes = settings.get("pooling_mode") or [mode for switch, mode in MODES.items() if settings.get(switch)]
    if isinstance(modes, str):
        modes = [modes]
    unknown = [mode for mode in modes if mode == "max" or mode not in MODES.values()]
    if unknown:
        raise UnsupportedModelError(f"the model pools by {', '.join(map(str, unknown))}, which no token has a share in")
    return tuple(modes) or ("mean",)  # the default of sentence-transformers


def _dense_layer(config: Settings, source: str, path: str) -> nn.Module:
    """Return a dense layer with its activation, in the folder `path` of a model."""
    file = find_file(source, f"{path}/model.safetensors", {})
    if file is None:
        raise InputError(f"{source}: {path} has no model.safetensors, and pickled weights are not read")
    linear = nn.Linear(config["in_features"], config["out_features"], bias=config.get("bias", True))
    linear.load_state_dict({name.removeprefix("linear."): value for name, value in load_file(file).items()})
    # A class with its module, such as "torch.nn.modules.activation.Tanh", the default; an empty one is no activation.
    name = str(config.get("activation_function", "Tanh") or "Identity").rpartition(".")[2]
    activation = getattr(nn, name, None)
    if not (isinstance(activation, type) and issubclass(activation, nn.Module)):
        raise UnsupportedModelError(f"the activation {name} of a dense layer is none of torch's")
    return nn.Sequential(linear, activation()).eval()


def _check_settings(kind: str, config: Settings) -> None:
    """Refuse settings of a module of sentence-transformers with which its answer is another one than is explained.

    Args:
        kind: The name of its class.
        config: Its settings.
    """
    expected = {**EXPECTED_SETTINGS, "module_output_name": OUTPUT_NAMES.get(kind, "sentence_embedding")}
    for name, value in config.items():
        is_read = name in READ_SETTINGS[kind] or name.startswith("__")  # such as "__version__"
        is_about_loading = isinstance(value, Mapping) and set(value) <= ABOUT_LOADING  # such as "model_args"
        if not (value is None or is_read or is_about_loading or value == expected.get(name)):
            raise UnsupportedModelError(f"the model's {kind} has {name}={value!r}, which is not applied here")
    # Which method of the trunk reads texts, and which of its outputs are the states of the tokens.
    for_texts = (config.get("modality_config") or {}).get("text", {})
    method = for_texts.get("method", "forward")
    output = for_texts.get("method_output_name", "last_hidden_state")
    if (method, output) != ("forward", "last_hidden_state"):
        raise UnsupportedModelError(f"the model embeds texts by {method} and its {output}, not by its trunk")


def _named_prompts(prompts: Any) -> dict[str, str]:
    """Return the prompts of a model by their names."""
    return {str(name): str(text or "") for name, text in prompts.items()} if isinstance(prompts, Mapping) else {}


def _module_kind(entry: Any) -> str:
    """Return the class name of a module that modules.json lists."""
    return str(entry.get("type", "")).rpartition(".")[2] if isinstance(entry, Mapping) else ""
