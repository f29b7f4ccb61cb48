"""One schema: JSON, Parquet, data frames and data sets."""
