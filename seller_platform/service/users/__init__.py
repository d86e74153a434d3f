"""Users of the service, their passwords and their groups of accounts.

- `store`: users and the accounts that they may read
- `groups`: groups of accounts
- `passwords`: password hashes
- `endpoints`: the user and the accounts over HTTP
"""
