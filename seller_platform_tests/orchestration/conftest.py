"""Platforms with an upstream, retries without real pauses, and a Dagster instance."""

from seller_platform_tests.support.pauses import pauses_take_no_time
from seller_platform_tests.support.platforms import instance, loaded, materialized, platform

__all__ = ["instance", "loaded", "materialized", "pauses_take_no_time", "platform"]
