"""Wing: which of several texts a model chooses: multiple choice, and the labels of zero-shot classification."""
