"""Builders of blocks, one file for each kind of result."""
