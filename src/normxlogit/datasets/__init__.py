"""Data sets in the form that the experiments read."""
