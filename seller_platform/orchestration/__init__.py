"""Dagster: assets, checks, partitions, resources, and the storage of its own."""
