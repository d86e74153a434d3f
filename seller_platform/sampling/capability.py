"""What comparisons at random contribute."""

from seller_platform.capabilities import Capability

CAPABILITY = Capability(
    name="sampling",
    modes={
        "--sample": (
            "seller_platform.sampling.commands:compare_months",
            "Only compare stored months that are drawn at random, value by value. It is for installations without "
            "Dagster, whose schedule sample does the same: each hour it spends a share of the requests, a hundredth of "
            "a day's at most, and loads what differs. `status` says what follows from it.",
        )
    },
    tables="seller_platform.sampling.tables",
    problems="seller_platform.sampling.problems:DIFFERED",
    rules="seller_platform.sampling.checks:RULES",
    definitions="seller_platform.sampling.assets:definitions",
    extras=("sample",),
    retention="seller_platform.sampling.tables:EXPIRING",
    evidence="seller_platform.sampling.draws:evidence",
)
