"""Users of the service, their passwords and their groups of accounts.

- `store`: users and the accounts that they may read
- `groups`: groups of accounts
- `passwords`: password hashes, and passwords that are refused because they can be guessed
- `reset_links`: new passwords, and links of the operator that set one
- `endpoints`: the user and the accounts over HTTP
"""
