"""Retries without real pauses."""

from seller_platform_tests.support.pauses import pauses_take_no_time

__all__ = ["pauses_take_no_time"]
