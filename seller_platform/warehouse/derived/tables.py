"""The tables of schema `marts`, the receipts of their builds, and the newest try of each partition."""

from sqlalchemy import BigInteger, Column, Date, Index, LargeBinary, MetaData, Table, Text
from sqlalchemy.dialects.postgresql import JSONB

from seller_platform.warehouse.derived.declaration import MARTS_SCHEMA, Mart
from seller_platform.warehouse.derived.registry import MARTS
from seller_platform.warehouse.schema.problems import ProblemKind, ProblemSource
from seller_platform.warehouse.schema.tables import METADATA, MOMENT, TYPES, numbered, platform_table, required

ACCOUNT, BUILD_ID = "account", "build_id"

BUILDS = platform_table(
    "mart_builds",
    "The receipts of marts: one row for each time a partition was built.",
    numbered("The number of the build; later builds have larger ones."),
    required("mart", Text, "The table in schema marts that was built."),
    required("account", Text, "Key of the account."),
    Column("window_start", Date, comment="The first day of the month; null where the whole account was built."),
    Column("window_end", Date, comment="The first day after it."),
    required("rows", BigInteger, "Rows of the partition after the build."),
    required("digest", LargeBinary, "Order-independent digest of the rows."),
    required("parameters", JSONB, "The numbers that the computation was given."),
    required("loads", JSONB, "The newest load of each dataset that was read: dataset and platform.loads.id."),
    Column("version", Text, comment="Digest of the code that computed them; null for builds of earlier versions."),
    Column("run_id", Text, comment="The Dagster run."),
    required("started_at", MOMENT, "When the build began."),
    required("finished_at", MOMENT, "When its rows were stored."),
    Index(None, "mart", "account", "window_start"),
    is_readable=True,
)

DERIVED = platform_table(
    "derived_partitions",
    "The newest try of each partition of a mart and of its files: made or failed.",
    required("folder", Text, "The folder of files; empty for a table of schema marts."),
    required("name", Text, "The mart, or the table that was exported."),
    required("account", Text, "Key of the account; empty for files of all accounts."),
    Column("month", Date, comment="The first day of the month; null where the whole account is made at once."),
    required(
        "fingerprint",
        LargeBinary,
        "Digest of all that decided the newest try: the definition with its rules and parameters, the account's zone, "
        "currency and id, the changes of its inputs, and of files the database.",
    ),
    Column(
        "run_id",
        Text,
        comment="The Dagster run of the newest try; null without one, empty once that was reported to Dagster.",
    ),
    required("tried_at", MOMENT, "When the newest try ended."),
    Column("digest", LargeBinary, comment="Digest of what was made last; null before it was made."),
    Column("changed_build_id", BigInteger, comment="The build of a mart that changed its rows last."),
    Column("failed_checks", JSONB, comment="What contradicts the failing checks of a mart, by name; null if none do."),
    Column("error", Text, comment="The class of the error of the newest try; null if it succeeded."),
    Column("message", Text, comment="What happened, and the next step."),
    Column("failed_since", MOMENT, comment="When it failed first, after it was made last."),
    Index(
        "uq_derived_partitions", "folder", "name", "account", "month", unique=True, postgresql_nulls_not_distinct=True
    ),
    is_readable=True,
)

CONTRADICTED = "contradicted"
"""The kind of problem of a mart of which a check fails; its error is the name of the check."""

_NAMES = f"ANY (CAST('{{{','.join(mart.name for mart in MARTS)}}}' AS text[]))"

# What failed is tried again each hour: a folder with a failure of yesterday is not used any more.
PROBLEMS = ProblemSource(
    (ProblemKind(CONTRADICTED, "error, warning", "A check of a mart fails.", "A build, or a check, that passes."),),
    f"""
    SELECT CASE folder WHEN '' THEN 'marts.' ELSE 'exports.' END || name AS dataset, account, month, 'failed' AS kind,
           'error' AS severity, error, failed_since AS since, nullif(run_id, '') AS run_id,
           CAST(NULL AS bigint) AS rows, message, CAST(NULL AS text) AS next_step
    FROM platform.derived_partitions
    WHERE error <> 'InputProblemError'
      AND CASE folder WHEN '' THEN name = {_NAMES} ELSE tried_at > now() - interval '1 day' END
    UNION ALL
    SELECT 'marts.' || name, account, month, '{CONTRADICTED}',
           CASE WHEN CAST(value ->> 'is_warning' AS boolean) THEN 'warning' ELSE 'error' END, key,
           CAST(value ->> 'since' AS timestamptz), nullif(run_id, ''), CAST(value ->> 'rows' AS bigint),
           concat_ws(' ', value ->> 'rule', value ->> 'sentence'), value ->> 'next_step'
    FROM platform.derived_partitions, jsonb_each(failed_checks)
    WHERE failed_checks IS NOT NULL AND name = {_NAMES}
    """,  # noqa: S608  # constants
)


def mart_table_for(mart: Mart, metadata: MetaData = METADATA) -> Table:
    """Return the mart's table: its columns, `account` (the account key) and `build_id` (platform.mart_builds.id)."""
    if mart.table in metadata.tables:
        return metadata.tables[mart.table]
    return Table(
        mart.name,
        metadata,
        *(
            Column(column.name, TYPES[column.kind], nullable=column.nullable and not column.key, comment=column.doc)
            for column in mart.columns
        ),
        required(ACCOUNT, Text, "Key of the account."),
        required(BUILD_ID, BigInteger, "The build that wrote the row: platform.mart_builds.id."),
        Index(f"ix_{mart.name}_partition", ACCOUNT, *([mart.day] if mart.day else [])),
        schema=MARTS_SCHEMA,
        comment=mart.doc,
    )


for _mart in MARTS:
    mart_table_for(_mart)
