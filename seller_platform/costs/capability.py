"""What plans of costs contribute."""

from seller_platform.capabilities import Capability

CAPABILITY = Capability(
    name="costs",
    commands={
        "costs": (
            "seller_platform.costs.commands",
            "Write product costs to the API, as a plan that is reviewed before it is applied.",
        )
    },
    tables="seller_platform.costs.tables",
    definitions="seller_platform.costs.jobs:definitions",
)
