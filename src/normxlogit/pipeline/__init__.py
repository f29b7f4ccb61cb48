"""Pipelines: from the arguments of a call to its results."""
