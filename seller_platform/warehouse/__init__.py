"""The warehouse: PostgreSQL, its tables, and the SQL that writes and reads them.

- `postgres`: the server and the database
- `schema`: the tables
- `migrations`: numbered changes of the tables
- `connections`: accounts, grants and secrets
- `loads`: slices and receipts
- `derived`: what is computed from the datasets, by partitions
- `history`: what was stored before, and since when
- `monitoring`: what is stored, and how old it is
- `readers`: stored rows, read back
"""
