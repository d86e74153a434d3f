"""An empty account."""

from seller_platform_tests.support.shop import shop

__all__ = ["shop"]
