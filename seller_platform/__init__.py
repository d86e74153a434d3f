"""A marketplace seller's API, landed in PostgreSQL, checked, and served again."""

__version__ = "0.1.0"
