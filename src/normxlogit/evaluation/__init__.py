"""Evaluation on your own model and data: how faithful an explanation is."""
