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

NOT_OFFERED = "not_offered"
"""Metadata of a materialization: a sentence that names what the upstream does not offer."""
NOTHING_STORED = "nothing_stored"
"""Metadata of a materialization without a load: the reason why nothing is stored."""

EXIT_CODE = "exit_code"
"""Metadata of a failed step: the exit code that fits its failures."""
