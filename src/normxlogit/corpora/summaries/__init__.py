"""Summaries of a corpus run: tables of words or documents, and a page."""
