"""`migrate`, `backup`, `restore`, `prune` and `database`: work on the whole database.

- `command`: `database`, and the readers of the database
- `access`: `database run` and `database url`, for other programs
- `backups`: `backup` and `restore`
- `maintenance`: `migrate` and `prune`
"""
