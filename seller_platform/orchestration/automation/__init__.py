"""Schedules, planned runs and automation conditions.

- `schedules`: when each dataset is read
- `due`: runs for the days that are due
- `backfill`: runs that a person asks for
- `runs`: runs over ranges of partitions
- `conditions`: automation conditions of marts and exports
"""
