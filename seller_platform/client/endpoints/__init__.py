"""Endpoints that are not lists: accounts, cost periods, reports, status.

- `accounts`: the user and the accounts
- `cost_periods`: product costs, read and written
- `reports`: reports requested, followed and downloaded
- `status`: whether an upstream answers, and its clock
"""
