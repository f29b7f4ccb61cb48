"""The frozen network: the model's own forward pass with a changed backward pass."""
