"""The history of the tables, which Alembic runs, and what a migration is made of.

- `pending`: runs the migrations that a database lacks, if it lacks any
- `upgrade`: creates tables, and runs the migrations that a database lacks
- `env`: what Alembic's commands run: its settings, and the connection
- `operations`: an index without a lock that readers or loads wait for
- `versions`: the migrations, one module each, whose name begins with its number
"""
