"""Fixtures of running services."""

from seller_platform_tests.support.services import ann, documents, filled, reading, service

__all__ = ["ann", "documents", "filled", "reading", "service"]
