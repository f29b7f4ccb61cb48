"""Loading: names, folders, pipelines, adapters and GGUF files to a module and its tokenizer or processor."""
