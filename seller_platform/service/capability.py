"""What the REST API contributes."""

from seller_platform.capabilities import Capability

CAPABILITY = Capability(
    name="service",
    commands={
        "service": (
            "seller_platform.service.commands",
            "Run the REST API, and manage its users, groups and applications.",
        )
    },
    endless=("service run", "service worker"),
    schemas={"service": "What the REST API keeps beside the rows: users, applications, tokens, sums and reports."},
    tables="seller_platform.service.tables",
    incidents="seller_platform.service.events:security_incidents",
    retention="seller_platform.service.sums.loads:EXPIRING",
    on_open="seller_platform.service.sums.loads:begin_sums",
    on_publish="seller_platform.service.sums.loads:follow_load",
    settings="seller_platform.service.settings:ServiceSettings",
)
