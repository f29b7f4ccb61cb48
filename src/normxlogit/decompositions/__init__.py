"""Decomposition methods, which propagate each token's share through the layers of known encoders."""
