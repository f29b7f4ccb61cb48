"""Completions of language models, generated or given, explained by tokens or by sources."""
