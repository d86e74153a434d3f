"""The tables.

- `tables`: one table for each dataset, receipts and accounts
- `service_tables`: the tables of the service
"""
