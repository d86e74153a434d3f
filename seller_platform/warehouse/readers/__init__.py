"""Stored rows read back as DataFrames, Arrow tables and Parquet.

- `relations`: selects rows of tables and marts
- `loaded`: refuses what was never loaded
- `frames`: pandas DataFrames
- `arrow`: Arrow tables
- `parquet`: Parquet files
"""
