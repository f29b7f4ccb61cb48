"""The survey of architectures: the calls that a user makes, on a shrunk model of every class of transformers."""
