"""The tables of plans, and of what was written."""

from sqlalchemy import BigInteger, Column, ForeignKey, Text, Uuid
from sqlalchemy.dialects.postgresql import JSONB

from seller_platform.warehouse.schema.tables import MOMENT, belonging, numbered, platform_table, required

COST_PLANS = platform_table(
    "cost_plans",
    "Plans of costs to write to the upstream; they never change.",
    numbered("The number of the plan, as commands name it."),
    required("uid", Uuid, unique=True, comment="Names the plan wherever its file is carried."),
    required("made_at", MOMENT, "When it was made."),
    required("made_by", Text, "Who made it."),
    required("source", Text, "The file or the table that says what is wanted."),
    Column("undo_of", BigInteger, ForeignKey("platform.cost_plans.id"), comment="The plan that this one takes back."),
    is_readable=True,
)

COST_WRITES = platform_table(
    "cost_writes",
    "What was written to the upstream for one SKU of a plan, with the proof.",
    belonging("plan", COST_PLANS.c.id, "The plan: platform.cost_plans.id.", primary_key=True),
    Column("account", Text, primary_key=True, comment="Key of the account."),
    Column("sku", Text, primary_key=True, comment="Seller SKU."),
    required("before", JSONB, "The cost periods when the plan was made."),
    required("wanted", JSONB, "All cost periods that it is to have."),
    required("state", Text, "planned, begun, holds, unconfirmed, restored or lost."),
    Column("problem", Text, comment="Why what was wanted does not hold, in a sentence."),
    Column("read_back", JSONB(none_as_null=True), comment="What the upstream said last."),
    Column("read_back_at", MOMENT, comment="When that was read."),
    Column("written_at", MOMENT, comment="When the first request was sent."),
    Column("written_by", Text, comment="Who applied the plan."),
    Column("run_id", Text, comment="The Dagster run that did."),
    is_readable=True,
)
