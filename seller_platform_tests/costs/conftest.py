"""Platforms with an upstream."""

from seller_platform_tests.support.platforms import platform

__all__ = ["platform"]
