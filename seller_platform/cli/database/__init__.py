"""`migrate`, `backup`, `restore`, `prune` and `database`: work on the whole database.

- `command`: the commands
"""
