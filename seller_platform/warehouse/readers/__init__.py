"""Stored rows read back as DataFrames, Arrow tables and Parquet.

- `relations`: selects rows of tables and marts
- `frames`: pandas DataFrames
- `arrow`: Arrow tables
- `parquet`: Parquet files
"""
