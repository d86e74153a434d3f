"""Endpoints that are not lists: accounts, cost periods, status.

- `accounts`: the user and the accounts
- `cost_periods`: product costs, read and written
- `status`: whether an upstream answers, and its clock
"""
