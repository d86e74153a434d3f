"""Reports loads that wait for their upstream, in the log of the run and as observations of the asset."""

import threading
import time

import dagster as dg

from seller_platform.contract import Dataset
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.orchestration.partitions import partition_key

# While an upstream is away, every request waits. Dagster stores each report.
_SECONDS_BETWEEN_REPORTS = 5.0

WAITS = "waits"
"""Metadata of an observation: a sentence that says for what a partition waits."""


class WaitReports:
    """The waits of a step, at most one report every five seconds; threads may share it."""

    def __init__(self, context: dg.AssetExecutionContext, dataset: Dataset) -> None:
        self._context, self._dataset = context, dataset
        self._next_at, self._lock = 0.0, threading.Lock()

    def add(self, request: SliceRequest, reason: str) -> None:
        """Report that a slice waits, unless another report was just made."""
        with self._lock:
            if time.monotonic() < self._next_at:
                return
            self._next_at = time.monotonic() + _SECONDS_BETWEEN_REPORTS
        self._context.log.warning("%s waits: %s", request, reason)
        key = partition_key(request.account, request.month)
        self._context.log_event(
            dg.AssetObservation(self._context.assets_def.key, partition=key, metadata={WAITS: reason})
        )
