"""Where rows live: the PostgreSQL server, the tables, slices and receipts, grants, and reading back."""
