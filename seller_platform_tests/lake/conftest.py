"""Platforms with an upstream."""

from seller_platform_tests.support.platforms import loaded, materialized, platform

__all__ = ["loaded", "materialized", "platform"]
