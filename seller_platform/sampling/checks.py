"""The check that comparisons agree."""

from seller_platform.contract import Source
from seller_platform.orchestration.assets.checks import SliceRule

RULES = (
    SliceRule(
        "comparisons_agree",
        "No settled month that was compared at random in the last seven days differed from the upstream.",
        {"differed"},
        applies_to=lambda dataset: dataset.is_dated and dataset.source is Source.LIST,
    ),
)
