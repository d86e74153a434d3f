"""The tables of the warehouse and of the service.

- `tables`: one table for each dataset, receipts and accounts
- `service_tables`: the tables of the service
"""
