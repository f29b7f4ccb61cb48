"""Whether scores point at the words that tell a form (NormXLogit, EMNLP 2025, experiment 2)."""
