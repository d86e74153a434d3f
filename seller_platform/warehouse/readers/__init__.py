"""Stored rows, read back.

- `relations`: selects rows of tables and marts
- `frames`: pandas DataFrames
- `arrow`: Arrow tables
- `parquet`: Parquet files
"""
