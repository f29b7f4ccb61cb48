"""Answers with citations: the sources of each sentence, attributed and measured."""
