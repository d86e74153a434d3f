"""The check that no ledger repeats another."""

from seller_platform.ledgers.comparison import LEDGER, compare_ledgers
from seller_platform.orchestration.assets.checks import SliceRule

RULES = (
    SliceRule(
        "ledgers_do_not_repeat",
        "No other account of the seller has the same entries, which sums over accounts would count several times.",
        {"repeated"},
        applies_to=lambda dataset: dataset == LEDGER,
        recount=compare_ledgers,
    ),
)
