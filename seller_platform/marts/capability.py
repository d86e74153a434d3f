"""What marts contribute."""

from seller_platform.capabilities import Capability

CAPABILITY = Capability(name="marts", marts="seller_platform.marts.registry:declared")
