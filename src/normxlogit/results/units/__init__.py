"""What has a score: tokens, words, sentences, messages, regions, moments."""
