"""What reports contribute."""

from seller_platform.capabilities import Capability

CAPABILITY = Capability(
    name="reports",
    commands={
        "report": (
            "seller_platform.reports.commands",
            "Request reports, list them, download them, and load their rows.",
        )
    },
    tables="seller_platform.reports.tables",
    definitions="seller_platform.reports.assets:definitions",
    retention="seller_platform.reports.jobs:EXPIRING",
    reserved="seller_platform.reports.jobs:RESERVED",
)
