"""Accounts, grants and secrets of the connections.

- `account_names`: the account of a key or a title
- `accounts`: the accounts of every connection
- `grants`: token pairs, encrypted
- `sent_requests`: the requests of each day
- `secrets`: the key that encrypts secrets
"""
