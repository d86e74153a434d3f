"""A code location with all definitions, made of the environment at the time it is loaded."""

import dagster as dg

from seller_platform.settings import read_settings


@dg.definitions
def location() -> dg.Definitions:
    """Return the definitions."""
    # The module makes definitions of the environment when it is imported.
    from seller_platform.orchestration.definitions import definitions_for

    return definitions_for(read_settings())
