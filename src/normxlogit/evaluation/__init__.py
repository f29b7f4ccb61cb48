"""Measurements: what an explanation costs, and how faithful it is."""
