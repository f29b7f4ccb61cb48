"""Units, the parts of an input that have scores: tokens, words, sentences, messages, regions, moments."""
