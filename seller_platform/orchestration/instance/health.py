"""The health of the Dagster instance: its home, its storage, and its daemon."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from seller_platform.orchestration.instance.home import dagster_home, open_instance
from seller_platform.orchestration.partitions import account_partitions


@dataclass(frozen=True)
class DagsterHealth:
    """The health of the Dagster instance.

    Attributes:
        partitions: The accounts that have a partition.
        last_heartbeat: The last heartbeat of a daemon; None without one.
        silent: The required parts of the daemon that are not running.
        most_runs: How many runs the daemon lets execute at once; None for any number.
        is_configured: Whether there is a `dagster.yaml`; without one Dagster stores its events in files.
    """

    home: Path
    partitions: Sequence[str]
    last_heartbeat: datetime | None
    silent: Sequence[str]
    most_runs: int | None
    is_configured: bool


def check_health(home: Path) -> DagsterHealth:
    """Return the health of the Dagster instance; errors of opening it are not converted."""
    folder = dagster_home(home)
    with open_instance(home) as instance:
        statuses = instance.get_daemon_statuses().values()
        heartbeats = [each.last_heartbeat.timestamp for each in statuses if each.last_heartbeat is not None]
        queue = instance.get_concurrency_config().run_queue_config
        return DagsterHealth(
            home=folder,
            partitions=account_partitions(instance),
            last_heartbeat=datetime.fromtimestamp(max(heartbeats), UTC) if heartbeats else None,
            most_runs=None if queue is None or queue.max_concurrent_runs < 0 else queue.max_concurrent_runs,
            silent=sorted(each.daemon_type.lower() for each in statuses if each.required and not each.healthy),
            is_configured=(folder / "dagster.yaml").exists() or "DAGSTER_HOME" not in os.environ,
        )
