"""Loads from the API into the warehouse, without Dagster.

- `connections`: authorization, upstreams, and rotation of tokens and keys
- `loads`: slices, accounts and cost periods
"""
