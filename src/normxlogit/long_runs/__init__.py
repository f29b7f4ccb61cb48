"""Tables of rows, in files and in memory, as the wings read them: corpora, evaluation and the comparison of models."""
