"""The table of report jobs, and what it says about requests and receipts."""

from sqlalchemy import BigInteger, Column, Index, Integer, Interval, Text, text

from seller_platform.warehouse.schema.tables import ACCOUNTS, MOMENT, belonging, numbered, platform_table, required

REPORT_JOBS = platform_table(
    "report_jobs",
    "Asynchronous reports: one row for each that was requested.",
    numbered("The number of the job."),
    belonging("account", ACCOUNTS.c.key, "Key of the account."),
    required("selector", Text, "The parameter that says what the report holds."),
    required("value", Text, "The value of that parameter."),
    required("format", Text, "The form in which the rows are downloaded: json or csv."),
    required("state", Text, "requested, pending, ready; at the end loaded, failed or given_up."),
    required("requested_at", MOMENT, "When the job was written down."),
    required("give_up_after", Interval, "How long it may take."),
    required("attempted_at", MOMENT, "Since when it takes time: when it was requested, and pauses without requests."),
    Column("report_id", Text, comment="The upstream's number of the report; null until it is known."),
    required("polls", Integer, "Requests about it so far."),
    required("next_poll_at", MOMENT, "When the upstream is asked again."),
    Column("upstream_status", Text, comment="The word with which the upstream last described the report."),
    Column("upstream_message", Text, comment="What it said with it, or why it could not be asked."),
    Column("problem", Text, comment="Why there are no rows, in a sentence; null unless failed or given_up."),
    Column("load_id", BigInteger, comment="The load that stored the rows: platform.loads.id."),
    Column("told_at", MOMENT, comment="When a run failed to tell of the problem."),
    # The states are `OPEN` and `AWAITED` of `jobs`.
    Index(
        "uq_report_jobs_open",
        "account",
        "selector",
        "value",
        unique=True,
        postgresql_where=text("state IN ('requested', 'pending', 'ready')"),
    ),
    Index("ix_report_jobs_due", "next_poll_at", postgresql_where=text("state IN ('requested', 'pending')")),
    Index("ix_report_jobs_account", "account", "state"),
    is_readable=True,
)
