"""Drawings of results for terminals, pages, notebooks and figures."""
