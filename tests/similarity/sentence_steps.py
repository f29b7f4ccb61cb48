import json

from safetensors.torch import save_file


def steps_beside(folder, *steps, **more):
    """Write what is read behind the trunk: (kind, configuration, weights) each; and files by name."""
    modules = [{"idx": 0, "name": "0", "type": "sentence_transformers.models.Transformer", "path": ""}]
    for place, (kind, config, *weights) in enumerate(steps, start=1):
        path = f"{place}_{kind}"
        named = {"idx": place, "name": str(place), "path": path}
        modules.append({**named, "type": f"sentence_transformers.models.{kind}"})
        (folder / path).mkdir()
        if config is not None:
            (folder / path / "config.json").write_text(json.dumps(config))
        for one in weights:
            save_file(one, folder / path / "model.safetensors")
    (folder / "modules.json").write_text(json.dumps(modules))
    for name, content in more.items():
        (folder / f"{name}.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return str(folder)
