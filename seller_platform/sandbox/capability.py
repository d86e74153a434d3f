"""What generated sellers contribute."""

from seller_platform.capabilities import Capability

CAPABILITY = Capability(
    name="sandbox",
    needs=("marts", "service"),
    commands={
        "demo": (
            "seller_platform.sandbox.commands.demo",
            "Connect to the sandbox, load all lists and costs, check the rows, and print a table.",
        ),
        "dev": (
            "seller_platform.sandbox.commands.dev",
            "Run the sandbox service, the Dagster UI and its daemon, until Ctrl-C.",
        ),
        "sandbox": ("seller_platform.sandbox.commands", "Fill the service's database with generated sellers."),
    },
    demonstrations=("demo", "dev"),
    endless=("dev", "sandbox live"),
    upstream="seller_platform.sandbox.commands.serving:served_demo",
)
