"""Stored rows read back as DataFrames and Arrow tables.

- `relations`: selects rows of tables and marts
- `loaded`: refuses what was never loaded
- `arrow`: Arrow tables, and pandas DataFrames
- `statements`: SQL of a person, read-only
"""
