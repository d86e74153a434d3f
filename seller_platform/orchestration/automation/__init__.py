"""Schedules, planned runs and automation conditions.

- `schedules`: when what is read
- `due`: the days that are due to be read again
- `runs`: ranges of partitions planned as runs
- `conditions`: automation conditions of marts and exports
"""
