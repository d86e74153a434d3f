"""Accounts, grants and secrets of the connections.

- `accounts`: the accounts of every connection
- `grants`: token pairs, encrypted
- `problems`: what may be wrong with grants and accounts
- `sent_requests`: the requests of each day
- `secrets`: the key that encrypts secrets
"""
