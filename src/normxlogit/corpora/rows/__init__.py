"""The rows of a corpus: files and tables of any format, read in shards."""
