"""The parts of a model (trunk, head, layers, embeddings), found by recording a forward pass, and proved."""
