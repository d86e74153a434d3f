"""Accounts, grants and secrets of the connections.

- `accounts`: the accounts of every connection
- `grants`: token pairs, encrypted
- `secrets`: the key that encrypts secrets
"""
