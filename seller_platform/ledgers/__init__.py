"""Repeated ledgers: accounts of one seller for which the upstream lists the same transactions.

- `capability`: what this folder contributes
- `comparison`: finds what ledgers have in common
- `checks`: the check of transactions
- `problems`: what is wrong
- `tables`: where it is stored
"""
