"""Connections: their accounts, grants and secrets.

- `accounts`: the accounts of every connection
- `grants`: token pairs, encrypted
- `secrets`: the key that encrypts secrets
"""
