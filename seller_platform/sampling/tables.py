"""The tables of what was drawn, and of how it compared."""

from sqlalchemy import BigInteger, Boolean, Column, Date, Index, Integer, Numeric, Text

from seller_platform.warehouse.loads.retention import Expiring
from seller_platform.warehouse.schema.tables import MOMENT, numbered, platform_table, required

SAMPLED_SLICES = platform_table(
    "sampled_slices",
    "The slices of which a random sample is compared with the upstream.",
    Column("stratum", Text, primary_key=True, comment="settled, or changing: days may still change."),
    Column("account", Text, primary_key=True, comment="Key of the account."),
    required("slices", BigInteger, "Slices that may be drawn, or parts of large ones."),
    required("weight", Numeric, "The sum of their weights, which are their rows and one."),
    required("squares", Numeric, "The sum of the squares of these weights, by their parts."),
    required("left_out_weight", Numeric, "That of slices that take more requests than comparisons may send on a day."),
    required("counted_at", MOMENT, "When they were counted."),
    is_readable=True,
)

COMPARISONS = platform_table(
    "comparisons",
    "Slices that were drawn at random and compared with the upstream, value by value.",
    numbered("In the order of the draws."),
    required("stratum", Text, "settled, or changing: days might still change."),
    required("dataset", Text, "The table in schema seller."),
    required("account", Text, "Key of the account."),
    required("window_start", Date, "The first day that was compared."),
    required("window_end", Date, "The first day after."),
    required("requests", Integer, "Requests that were sent."),
    Column(
        "differed",
        Boolean,
        comment="Whether any row was another than the upstream's: it was loaded, or is held. Null if the upstream did "
        "not answer.",
    ),
    Column("load_id", BigInteger, comment="The load that compared it: platform.loads.id; null if it is held."),
    required("started_at", MOMENT, "When it began."),
    Index(None, "started_at"),
    is_readable=True,
)

EXPIRING = (Expiring(COMPARISONS, lambda before: COMPARISONS.c.started_at < before),)
