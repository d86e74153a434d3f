"""What repeated ledgers contribute."""

from seller_platform.capabilities import Capability

CAPABILITY = Capability(
    name="ledgers",
    tables="seller_platform.ledgers.tables",
    problems="seller_platform.ledgers.problems:REPEATED",
    rules="seller_platform.ledgers.checks:RULES",
    after_loads="seller_platform.ledgers.comparison:compare_changed",
)
