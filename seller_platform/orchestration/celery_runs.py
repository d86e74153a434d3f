"""Runs on several machines: dagster-celery's run launcher and the workers' Celery application, over Redis.

Celery does not notice that a worker's machine is gone. Here the process of a run holds a lock in PostgreSQL, which it
takes again after a restart of the server: a started run has failed if its lock was free for half a minute.
A worker acknowledges a run when it has ended, so that Redis gives a run that was taken and not begun to another worker.
Redis does so after five minutes with a run that is being executed, too. The second worker sees the lock, and does not
execute the run.
"""

import json
import logging
from functools import cache
from typing import Any, cast

import dagster as dg
from celery import Celery, Task
from dagster_celery.launcher import CeleryRunLauncher
from dagster_celery.make_app import make_app
from dagster_celery.tasks import create_execute_job_task

from seller_platform.errors import missing_setting
from seller_platform.orchestration.dagster_internals import CheckRunHealthResult, WorkerStatus
from seller_platform.orchestration.instance.run_launcher import RunLocks, cancel, hold_always
from seller_platform.settings import read_settings
from seller_platform.warehouse.postgres.advisory_locks import releasing, try_hold
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.location import warehouse_url

_LOG = logging.getLogger(__name__)
_LOSS_SECONDS = 3  # PostgreSQL needs a moment to notice that a process was killed


class _RunTask(Task):  # type: ignore[misc]  # celery has no types
    """A task that executes one run and holds the run's lock meanwhile."""

    def __call__(self, **packed: Any) -> Any:
        arguments: Any = dg.deserialize_value(json.dumps(*packed.values()))
        lock = f"run|{arguments.run_id}"
        with _database().connect() as connection, releasing(connection):
            if not try_hold(connection, lock, seconds=_LOSS_SECONDS):
                _LOG.info("Run %s is executed by another worker, which keeps it.", arguments.run_id)
                return None
            ended = hold_always(_database().connect, lock)  # from the end of this block on
        try:
            return super().__call__(**packed)
        finally:
            ended.set()


class LockedCeleryRunLauncher(CeleryRunLauncher):
    """dagster-celery's run launcher, which also notices that a worker is gone."""

    def __init__(self, inst_data: Any = None) -> None:
        super().__init__(default_queue="dagster", **_arguments(), inst_data=inst_data)
        self._locks = RunLocks(gone_after_seconds=30)

    @classmethod
    def config_type(cls) -> dict[str, Any]:
        return {}  # it reads our settings

    def terminate(self, run_id: str) -> bool:
        return cancel(self, run_id, super().terminate)

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Return the health of a run's worker, by the run's lock and by Celery."""
        if run.status is dg.DagsterRunStatus.STARTED:
            with _database().begin() as connection:
                health = self._locks.health_of(run.run_id, connection, f"run|{run.run_id}")
            if health.status is WorkerStatus.FAILED:
                return health
        return super().check_run_worker_health(run)


def _arguments() -> dict[str, Any]:
    """Return the arguments that launcher and workers share."""
    broker = _settings().celery_broker_url
    if broker is None:
        raise missing_setting("SELLER_PLATFORM_CELERY_BROKER_URL", "the URL of a Redis server")
    return {
        **dict.fromkeys(("broker", "backend"), broker.get_secret_value()),
        "config_source": {
            "broker_transport_options": {"visibility_timeout": 300},
            "broker_connection_retry_on_startup": True,
            # A worker takes a run from the queue only when it is free to execute it.
            "worker_prefetch_multiplier": 1,
            "worker_concurrency": 1,
            "task_acks_late": True,
        },
    }


_settings = cache(read_settings)


@cache
def _database() -> Database:
    return Database(warehouse_url(_settings()), connections=2)


@cache
def __getattr__(name: str) -> Celery:
    """Return the application as `app`, the name that Celery looks up. Only workers need it."""
    if name != "app":
        raise AttributeError(name)
    application: Celery = make_app(_arguments())  # type: ignore[no-untyped-call]  # dagster-celery's, without types
    create_execute_job_task(application, base=cast("Any", _RunTask))  # dagster-celery passes on Celery's options
    return application
