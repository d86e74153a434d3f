"""Connections to an upstream: authorization, token rotation and key rotation.

- `upstream`: what it takes to call an upstream
- `request_budget`: the requests of a day
- `token_rotation`: refreshes a token pair without losing it
- `grant_files`: a grant in a file, without a warehouse
- `key_rotation`: re-encrypts secrets with another key
"""
