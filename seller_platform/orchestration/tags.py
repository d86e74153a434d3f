"""Names of run tags and of metadata that several modules of this floor read."""

ACCOUNT_TAG = "seller_platform/account"
"""The account of a run that reads a single one; runs with the same value queue."""

REFRESH_TAG = "seller_platform/refresh"
"""How a run reads its slices: whole, or, with the value `CHANGED`, only days that may have changed."""
CHANGED = "changed"

RUN_TAG = "seller_platform/report_run"
"""The key of a run that loads reports."""

NOT_OFFERED = "not_offered"
"""Metadata of an observation: what the upstream does not offer, as a sentence."""

EXIT_CODE = "exit_code"
"""Metadata of a failed step: the exit code that fits its failures."""
