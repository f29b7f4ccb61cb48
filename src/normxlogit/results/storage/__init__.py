"""Storage: JSON, Parquet, data frames and data sets, all from one schema."""
