"""Derived partitions: tables that are computed from the datasets, and files of them.

- `declaration`: what a mart is
- `registry`: every mart
- `tables`: the tables, receipts of builds, and what may be wrong with partitions
- `builds`: replaces a partition of a mart, and checks it again
- `due`: partitions that can be built, and have changed
"""
