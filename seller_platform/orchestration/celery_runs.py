"""Runs on several machines: dagster-celery's run launcher and the workers' Celery application.

A worker is `celery --app seller_platform.orchestration.celery_runs worker --queues dagster`. The broker is PostgreSQL
itself, the database of the warehouse, unless SELLER_PLATFORM_CELERY_BROKER_URL names another; the extra has the
clients of Redis and RabbitMQ. Celery does not notice that a worker's machine is gone. Here a run holds a lock in
PostgreSQL as long as its process runs: a started run without a lock has failed.

A worker acknowledges a run when it has ended, so that Redis and RabbitMQ give a run that was taken and not begun to
another worker. PostgreSQL does not: such a run fails after the hour of `start_timeout_seconds` in `docker/celery.yaml`.
Therefore Redis or RabbitMQ is the better broker.

Redis gives a run to a second worker while the first one executes it, after five minutes. The second one sees the lock
and leaves the run alone. RabbitMQ would end the first worker's channel after half an hour, and Celery the worker; from
RabbitMQ 3.12 on the queue has another time for it.
"""

import logging
from collections.abc import Mapping
from functools import cache
from typing import Any

import dagster as dg
from celery import Celery, Task
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus
from dagster_celery.launcher import CeleryRunLauncher
from dagster_celery.make_app import make_app
from dagster_celery.tasks import create_execute_job_task, create_resume_job_task
from dagster_shared.serdes import unpack_value

from seller_platform.settings import read_settings
from seller_platform.warehouse.postgres.database import Database, driver_url
from seller_platform.warehouse.postgres.location import warehouse_url
from seller_platform.warehouse.postgres.process_locks import hold_queue, hold_run, is_held

_LOG = logging.getLogger(__name__)
_QUEUE = "dagster"
_REDELIVERY_SECONDS = 300
"""When Redis gives a run that was not acknowledged to another worker."""

_LONGEST_RUN_SECONDS = 7 * 24 * 3600
"""How long RabbitMQ waits until a run is acknowledged."""


class _RunTask(Task):  # type: ignore[misc]  # celery has no types
    """A task that executes one run and holds the run's lock meanwhile."""

    def __call__(self, **packed: Any) -> Any:
        # What Dagster packs to execute or to resume a run.
        arguments: Any = unpack_value(*packed.values())
        with hold_run(_database(), arguments.run_id) as is_alone:
            if is_alone:
                return super().__call__(**packed)
        _LOG.info("Run %s is executed by another worker, which keeps it.", arguments.run_id)
        return None


class LockedCeleryRunLauncher(CeleryRunLauncher):
    """dagster-celery's run launcher, which also notices that a worker is gone."""

    def __init__(self, inst_data: Any = None) -> None:
        super().__init__(**_arguments(), inst_data=inst_data)
        _set_longest_run(self.celery)

    @classmethod
    def config_type(cls) -> dict[str, Any]:
        return {}

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Mapping[str, Any]) -> "LockedCeleryRunLauncher":
        return cls(inst_data=inst_data, **config_value)

    def launch_run(self, context: Any) -> None:
        """Put a run in the queue."""
        _declare_queue(self.celery)
        super().launch_run(context)

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Return the health of a run's worker, by the run's lock and by Celery."""
        if run.status is dg.DagsterRunStatus.STARTED and not is_held(_database(), run.run_id):
            return CheckRunHealthResult(
                WorkerStatus.FAILED, "The worker is gone: no process holds the lock of the run."
            )
        return super().check_run_worker_health(run)


def _arguments() -> dict[str, Any]:
    """Return the arguments that launcher and workers share."""
    settings = read_settings()
    database = driver_url(warehouse_url(settings), "psycopg2").render_as_string(hide_password=False)
    broker = settings.celery_broker_url.get_secret_value() if settings.celery_broker_url else f"sqla+{database}"
    redelivery = {"visibility_timeout": _REDELIVERY_SECONDS} if broker.startswith(("redis:", "rediss:")) else {}
    return {
        "default_queue": _QUEUE,
        "broker": broker,
        "backend": f"db+{database}",
        "config_source": {
            # PostgreSQL refuses the options that dagster-celery sets by default.
            "broker_transport_options": redelivery,
            "broker_connection_retry_on_startup": True,
            # A worker takes a run from the queue only when it is free to execute it.
            "worker_prefetch_multiplier": 1,
            "worker_concurrency": 1,
            "task_acks_late": True,
        },
    }


@cache
def _database() -> Database:
    return Database(warehouse_url(read_settings()), connections=2)


def _set_longest_run(application: Celery) -> None:
    """Let RabbitMQ wait for the end of a run; other brokers ignore the argument."""
    for queue in application.conf.task_queues:
        queue.queue_arguments["x-consumer-timeout"] = _LONGEST_RUN_SECONDS * 1000


def _declare_queue(application: Celery) -> None:
    """Create the queue in the broker, under a lock.

    Over PostgreSQL, two processes that create it at once make each other fail.
    """
    with hold_queue(_database(), _QUEUE), application.connection_for_write() as broker:
        application.amqp.queues[_QUEUE](broker.default_channel).declare()


@cache
def _application() -> Celery:
    arguments = _arguments()
    del arguments["default_queue"]
    application: Celery = make_app(arguments)  # type: ignore[no-untyped-call]  # dagster-celery's, without types
    _set_longest_run(application)
    base: Any = _RunTask  # an option of Celery's tasks, which dagster-celery passes on
    create_execute_job_task(application, base=base)
    create_resume_job_task(application, base=base)
    _declare_queue(application)
    return application


def __getattr__(name: str) -> Celery:
    """Return the application as `app`, the name that Celery looks up. Only workers need it."""
    if name == "app":
        return _application()
    raise AttributeError(name)
