"""Marts by their names."""

from seller_platform.warehouse.marts import MARTS, Mart


def mart_named(name: str) -> Mart:
    """Return the mart of that name."""
    return {mart.name: mart for mart in MARTS}[name]
