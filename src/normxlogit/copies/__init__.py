"""Copies of a model that share its weights, and forward passes of them. Knows neither tokenizers nor tasks."""
