"""Schedules, planned runs, the sensor of marts and exports, and the daily job that deletes what is old.

- `schedules`: when each dataset is read, and the daily job that deletes what is old
- `runs`: runs planned over ranges of partitions, and their requests
- `lost_retries`: the sensor that repeats retries lost in an outage
- `following`: the sensor of marts and exports
"""
