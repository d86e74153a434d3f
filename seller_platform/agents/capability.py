"""What answers to agents contribute."""

from seller_platform.capabilities import Capability

CAPABILITY = Capability(
    name="agents",
    needs=("costs", "marts"),
    commands={
        "mcp": (
            "seller_platform.agents.commands",
            "Answer the questions of an agent about the warehouse, over standard input and output.",
        )
    },
    endless=("mcp",),
    routes="seller_platform.agents.endpoint:AgentsEndpoint",
)
