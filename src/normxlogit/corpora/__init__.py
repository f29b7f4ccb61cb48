"""Corpora: attributions of any number of texts as Parquet shards, and summaries over all of them."""
