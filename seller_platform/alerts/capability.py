"""What alerts contribute."""

from seller_platform.capabilities import Capability

CAPABILITY = Capability(
    name="alerts",
    commands={"alerts": ("seller_platform.alerts.commands", "Report what is wrong to the webhook.")},
    tables="seller_platform.alerts.tables",
    definitions="seller_platform.alerts.sensors:definitions",
    settings="seller_platform.alerts.settings:AlertsSettings",
)
