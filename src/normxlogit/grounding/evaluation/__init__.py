"""Grounding: whether an answer rests on its documents, tested with and without the evidence."""
