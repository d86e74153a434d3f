"""Names of run tags and metadata, and statuses of runs, that several modules read."""

import dagster as dg

UNDER_WAY = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
"""The statuses of runs that wait or execute."""

ACCOUNT_TAG = "seller_platform/account"
"""The account of a planned run that reads only one; such runs with the same value wait for each other.

Runs of a backfill in the UI have no such tag.
"""

ACCOUNT_TITLE_TAG = "seller_platform/account_title"
"""Title, country and currency of the account of a run that reads only one, for people."""

REFRESH_TAG = "seller_platform/refresh"
"""How a run reads its slices: with the value `CHANGED` only days that may have changed, else whole."""
CHANGED = "changed"

IN_PROCESS_TAG = "seller_platform/in_process"
"""A run that a command executes in its own process."""

RUN_TAG = "seller_platform/report_run"
"""The key of a run that loads reports."""

REQUESTED_BY_TAG = "seller_platform/requested_by_run"
"""The run of the job that requested a run."""

NOT_OFFERED = "not_offered"
"""Metadata of a materialization: a sentence that names what the upstream does not offer."""
NOTHING_STORED = "nothing_stored"
"""Metadata of a materialization without a load: the reason why nothing is stored."""

CHANGED_ROWS = "changed"
"""Metadata of a materialization of a load: whether it changed the stored rows."""

HISTORY_CHART = "rows_by_month"
"""Metadata of an observation: the chart of an account's months."""

WAITS = "waits"
"""Metadata of an observation: a sentence that says for what a partition waits."""

EXIT_CODE = "exit_code"
"""Metadata of a failed step: the exit code that fits its failures."""
