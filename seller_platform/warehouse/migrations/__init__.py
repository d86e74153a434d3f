"""Numbered changes of the tables, run by Alembic.

- `env`: runs them on a connection
"""
