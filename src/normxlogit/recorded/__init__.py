"""Wing: explanations of a forward pass, or of a generation, that the caller has run."""
