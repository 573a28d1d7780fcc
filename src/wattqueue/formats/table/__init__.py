"""The job table of WattQueue itself, as CSV or Parquet."""
