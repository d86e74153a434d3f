"""Names of run tags and metadata that several modules read, and which runs are under way."""

from datetime import timedelta
from typing import Any

import dagster as dg

from seller_platform.clocks import utc_now

_STATUSES = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
_LONGEST_RUN = timedelta(days=1)


def under_way(**of: Any) -> dg.RunsFilter:
    """Return the filter of runs that wait or execute; one that was created more than a day ago counts as lost.

    Args:
        of: Further arguments of `dagster.RunsFilter`.
    """
    return dg.RunsFilter(statuses=_STATUSES, created_after=utc_now() - _LONGEST_RUN, **of)


FIRST_TAGS = {"dagster/priority": "10"}
"""The tags of short runs that people wait for: runs of a backfill may fill the queue for hours."""

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
