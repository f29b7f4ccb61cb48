"""From a name, a folder, a pipeline, an adapter or a GGUF file to a module and what reads its inputs."""
