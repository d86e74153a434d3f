"""Loads from the API into the warehouse.

- `slices`: one slice of a list
- `accounts`: the accounts of a connection
- `cost_periods`: the cost periods of an account
- `reports`: reports that are ready
- `telemetry`: spans and logs of loads
"""
