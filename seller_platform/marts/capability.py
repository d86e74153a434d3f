"""What marts contribute."""

from seller_platform.capabilities import Capability

CAPABILITY = Capability(
    name="marts",
    settings="seller_platform.marts.settings:MartsSettings",
    marts="seller_platform.marts.registry:declared",
)
