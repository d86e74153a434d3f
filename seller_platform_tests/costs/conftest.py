"""Platforms with an upstream, and retries without real pauses."""

from seller_platform_tests.support.pauses import pauses_take_no_time
from seller_platform_tests.support.platforms import platform

__all__ = ["pauses_take_no_time", "platform"]
