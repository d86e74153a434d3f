"""Every mart, as capabilities declare them."""

from seller_platform.capabilities import contributed
from seller_platform.settings import Settings
from seller_platform.warehouse.derived.declaration import Mart


def marts_with(settings: Settings | None) -> tuple[Mart, ...]:
    """Return every mart, in the order in which they are listed.

    Args:
        settings: They name files with rules of one's own; None stands for the rules of the product.

    Raises:
        SettingsError: A file cannot be used.
    """
    return tuple(mart for declared in contributed("marts") for mart in declared(settings))


MARTS = marts_with(None)
"""Every mart, with the rules of the product."""
