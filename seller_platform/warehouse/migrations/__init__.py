"""Creates the tables of a new database, and changes those of an older one while programs go on.

- `upgrade`: creates tables, and runs the migrations that a database lacks
- `plans`: how long an upgrade takes, and how much disk it needs
- `steps`: what a migration is made of
- `short_locks`: statements that wait for a lock only for a moment, and are tried again
- `versions`: the migrations, one module each, whose name begins with its number
"""
