"""The Dagster instance: its home folder, its health and its check states.

- `home`: its folder and configuration
- `health`: its state for `doctor`
- `check_states`: states of partitioned checks, grouped by PostgreSQL
- `check_results`: the newest results of checks
"""
