"""The stock of a generated account, and the lists that follow from it.

- `shipments`: inbound shipments
- `stock`: stock in the marketplace's network
- `snapshots`: inventory and warehouse stock of today
- `notifications`: alerts on stock and prices
"""
