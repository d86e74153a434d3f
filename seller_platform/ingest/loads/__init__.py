"""Loads of slices and accounts.

- `loading`: slices side by side, for `sync` and for Dagster's steps
- `processes`: slices in processes of their own
- `slices`: one slice of a list, or of costs
- `planner`: the slices that are due, and those that a day's requests suffice for
- `comparing`: stored slices compared with the upstream by value, and repaired
- `accounts`: the accounts of a connection
- `acceptance`: held readings that are accepted
- `telemetry`: spans and logs of loads
"""
