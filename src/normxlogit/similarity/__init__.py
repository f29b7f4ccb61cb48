"""Wing: the similarity of two texts, or of a text and a picture."""
