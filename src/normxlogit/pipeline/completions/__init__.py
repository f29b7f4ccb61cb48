"""Answers of language models: written here or elsewhere, explained by tokens or by sources."""
