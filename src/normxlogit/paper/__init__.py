"""Reproduction of the paper: its data, tables, figures and fine-tuned models. The library works without it."""
