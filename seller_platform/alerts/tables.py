"""The table of alerts."""

from sqlalchemy import Boolean, Column, Index, Text, text

from seller_platform.warehouse.schema.tables import numbered, platform_table, required, stamped

ALERTS = platform_table(
    "alerts",
    "Causes of problems that were reported, and messages that the webhook has yet to accept.",
    numbered("In the order of the messages."),
    required("cause", Text, "The key of the cause."),
    required("title", Text, "The first line of its message."),
    required("sentence", Text, "The reason of the first problem."),
    Column("message", Text, comment="What is to be sent; null once it is sent."),
    required("is_open", Boolean, "Whether a problem of the cause is left, of what ends by itself."),
    stamped("written_at", "When it was reported."),
    Index("ix_alerts_open", "cause", unique=True, postgresql_where=text("is_open")),
    Index("ix_alerts_cause", "cause", "written_at"),
)
