"""Platforms with an upstream, and a Dagster instance."""

from seller_platform_tests.support.platforms import instance, loaded, materialized, platform

__all__ = ["instance", "loaded", "materialized", "platform"]
