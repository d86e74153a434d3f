"""Fixtures of running services, and of their clients."""

from seller_platform_tests.support.services import ann, browser, documents, filled, reading, service, user

__all__ = ["ann", "browser", "documents", "filled", "reading", "service", "user"]
