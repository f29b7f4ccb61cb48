"""Gold labels: which labels of a model the values of a column mean."""
