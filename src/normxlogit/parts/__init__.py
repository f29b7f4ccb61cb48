"""Where trunk, head, layers and embeddings of a model are: found by recording a pass, and proved."""
