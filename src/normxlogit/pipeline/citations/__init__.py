"""Answers with citations: what each sentence rests on, attributed and measured."""
