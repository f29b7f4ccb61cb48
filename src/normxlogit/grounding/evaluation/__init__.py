"""Evaluation of the sources of answers, with and without them."""
