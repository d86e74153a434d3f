"""The classes of errors, of the core and of the capabilities that are there."""

import inspect
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from seller_platform import errors
from seller_platform.capabilities import capabilities
from seller_platform.errors import SellerPlatformError


def error_modules() -> tuple[ModuleType, ...]:
    """Return the modules that declare errors."""
    names = (f"seller_platform.{each.name}.errors" for each in capabilities())
    return (errors, *(import_module(name) for name in names if find_spec(name)))


def error_classes() -> dict[str, type[SellerPlatformError]]:
    """Return the classes by their names."""
    named = (each for module in error_modules() for each in inspect.getmembers(module, inspect.isclass))
    return {name: each for name, each in named if issubclass(each, SellerPlatformError)}
