"""Invented sellers: accounts, products, and rows whose numbers agree with each other, for the service to serve."""

from seller_platform.sandbox.load import SandboxReport, load_sandbox

__all__ = ["SandboxReport", "load_sandbox"]
