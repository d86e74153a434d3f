"""Stored rows read back as DataFrames, Arrow tables and Parquet, and security events.

- `relations`: selects rows of tables and marts
- `loaded`: refuses what was never loaded
- `frames`: pandas DataFrames
- `arrow`: Arrow tables
- `parquet`: Parquet files
- `statements`: SQL of a person, read-only
- `fingerprints`: digests of stored rows
- `security_events`: the security events of the service
"""
