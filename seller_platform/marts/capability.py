"""What marts contribute."""

from seller_platform.capabilities import Capability

CAPABILITY = Capability(
    name="marts",
    commands={
        "marts": (
            "seller_platform.marts.commands",
            "Build the tables of schema marts, which are computed from the lists.",
        )
    },
    definitions="seller_platform.marts.assets:definitions",
    settings="seller_platform.marts.settings:MartsSettings",
    marts="seller_platform.marts.registry:declared",
)
