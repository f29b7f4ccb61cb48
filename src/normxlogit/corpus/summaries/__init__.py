"""What the model looks at over all of a corpus: tables of words and documents, and their page."""
