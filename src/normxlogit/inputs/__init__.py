"""Texts to tokens: encodings, and batches of them."""
