"""Copies of a model that share its weights, and their forward passes, without tokenizers and tasks."""
