"""Alignment of scores with linguistic evidence (NormXLogit, EMNLP 2025, experiment 2)."""
