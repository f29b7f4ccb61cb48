"""Corpora: texts of any number in, Parquet shards out, and what the model looks at over all of them."""
