"""Loads of slices, accounts, cost periods and reports.

- `slices`: one slice of a list
- `accounts`: the accounts of a connection
- `cost_periods`: the cost periods of an account
- `reports`: reports that are ready
- `holds`: held readings that are accepted
- `telemetry`: spans and logs of loads
"""
