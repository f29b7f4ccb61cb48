"""The frozen network: the model's own forward pass, and another backward pass."""
