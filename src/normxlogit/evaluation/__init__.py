"""Evaluation of explanations on your own model and data."""
