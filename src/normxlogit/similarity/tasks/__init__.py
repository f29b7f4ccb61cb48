"""The similarity of two texts, by the vector of each."""
